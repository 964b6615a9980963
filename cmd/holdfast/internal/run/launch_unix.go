//go:build unix

package run

import (
	"fmt"
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// goFile is where a launcher waits for its go.
const goFile = 3

// launch starts a process that becomes the command once ready is called. Until
// then it does nothing, and it ends if we do: so the watchdog knows the group
// before the command runs.
func launch(path string, command, env []string, attr *syscall.SysProcAttr) (p *os.Process, ready func(), err error) {
	cmd, err := cli.Self(append([]string{LauncherCommand, path}, command...)...)
	if err != nil {
		return nil, nil, err
	}
	wait, tell, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer wait.Close()
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{goFile - 3: wait}
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		_ = tell.Close()
		return nil, nil, err
	}
	return cmd.Process, func() {
		_, _ = tell.Write([]byte{'\n'}) // it may have ended by a signal
		_ = tell.Close()
	}, nil
}

// Launcher is the main function of the process that becomes the command: args
// are its path and its arguments with the name first.
func Launcher(args []string) int {
	if len(args) < 2 {
		return cli.Usage
	}
	gate := os.NewFile(goFile, "gate")
	if n, _ := gate.Read(make([]byte, 1)); n == 0 {
		return cli.CannotRun // holdfast is gone
	}
	_ = gate.Close()
	err := syscall.Exec(args[0], args[1:], os.Environ())
	return cli.Fail(os.Stderr, cli.CannotRun, "run: %v", fmt.Errorf("%s: %w", args[0], err))
}
