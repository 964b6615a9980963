package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Child returns the number of a child of p that has word on its command line; 0
// if there is none, or not yet.
func Child(t testing.TB, p *Process, word string) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	require.NoError(t, err)
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for child := range strings.FieldsSeq(string(children)) {
			args, err := os.ReadFile("/proc/" + child + "/cmdline")
			if err == nil && strings.Contains(string(args), word) {
				pid, err := strconv.Atoi(child)
				require.NoError(t, err)
				return pid
			}
		}
	}
	return 0
}
