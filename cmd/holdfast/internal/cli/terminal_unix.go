//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal tells whether somebody watches f.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
