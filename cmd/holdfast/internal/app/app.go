// Package app chooses the subcommand.
package app

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/run"
)

const help = `holdfast runs commands under a distributed lock on Redis.

  holdfast run [flags] NAME -- command [args...]   run a command under a lock
  holdfast demo [--redis URL]                      see what a lock is for, in 15 seconds
  holdfast version                                 print the version
  holdfast help [command]                          print this, or more about a command
`

// Main runs the program with args, without its name, and returns its exit code.
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, help)
		return cli.Usage
	}
	switch rest := args[1:]; args[0] {
	case "run":
		return run.Main(rest)
	case run.WatchdogCommand:
		return run.Watchdog()
	case run.LauncherCommand:
		return run.Launcher(rest)
	case "demo":
		return demo.Main(rest)
	case demo.ReplicaCommand:
		return demo.Replica()
	case "version", "--version", "-version":
		fmt.Println(version())
		return cli.OK
	case "help", "--help", "-help", "-h":
		return printHelp(rest)
	}
	return cli.Fail(os.Stderr, cli.Usage, `unknown command %q; there are run, demo, version and help`, args[0])
}

func printHelp(about []string) int {
	switch {
	case len(about) == 0:
		fmt.Print(help)
	case about[0] == "run":
		return run.Main([]string{"--help"})
	case about[0] == "demo":
		return demo.Main([]string{"--help"})
	default:
		return cli.Fail(os.Stderr, cli.Usage, `no help about %q; there are run and demo`, about[0])
	}
	return cli.OK
}

// version is what the build knows of itself.
func version() string {
	v, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return fmt.Sprintf("holdfast %s%s %s %s/%s", v, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
