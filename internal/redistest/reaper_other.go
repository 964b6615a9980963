//go:build !unix

package redistest

import (
	"errors"
	"os"
	"os/exec"
)

// Elsewhere a server ends with its test, and outlives a test binary that is killed.

func reaperRoot() (string, error) { return os.MkdirTemp("", "redistest-") }

func reap(int)   {}
func unreap(int) {}

func ownGroup(*exec.Cmd) {}

func terminate(p *os.Process) error { return p.Kill() }

func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
