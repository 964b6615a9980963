//go:build !unix

package run

import (
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/guard"
)

// Without process groups and signals a command could not be ended, with all it
// has started, when its lease is lost. Half of the promise would be worse than none.
const unsupported = "not on this system: it has no process groups, so a command and all it has started " +
	"could not be ended when the lease is lost. Run it on Linux, macOS, BSD or under WSL; " +
	"a Go program can use guard.Do on any system, and holdfast demo works here too"

func (options) underLock(guard.Name, string) int { return cli.Usage }

// Watchdog does nothing here.
func Watchdog() int { return cli.Usage }

// Launcher does nothing here.
func Launcher([]string) int { return cli.Usage }
