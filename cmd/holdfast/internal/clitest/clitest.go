// Package clitest lets a test binary stand in for the holdfast program, so that
// tests start real processes without building one.
package clitest

import (
	"os"
	"os/exec"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/app"
)

const env = "HOLDFAST_TEST_PROGRAM"

// Main is for TestMain: it runs holdfast where [Command] asks for that, and
// otherwise run, which runs the tests.
func Main(run func() int) {
	if os.Getenv(env) != "" {
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(run())
}

// Command is a holdfast process that was not started yet.
func Command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), env+"=1", "HOLDFAST_REDIS=")
	if os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // the race detector would add 1 s to every process
	}
	return cmd
}
