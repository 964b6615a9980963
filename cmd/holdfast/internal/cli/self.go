package cli

import (
	"os"
	"os/exec"
)

// Self is this program again, with other args. It stays the same program if its
// file was replaced in the meantime, where the system allows that.
func Self(args ...string) (*exec.Cmd, error) {
	path := "/proc/self/exe" // Linux
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = os.Args[0]
	return cmd, nil
}
