//go:build unix

package redistest_test

import (
	"bufio"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausedIsHowLongTheProcessDidNotRun(t *testing.T) {
	t.Parallel()
	const stop = 300 * time.Millisecond
	cmd := parent(t, "paused")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Text() != "go" {
		require.True(t, lines.Scan())
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(stop)
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	_, err = in.Write([]byte{'\n'})
	require.NoError(t, err)
	var paused [2]time.Duration
	for i := range paused {
		require.True(t, lines.Scan())
		ms, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		paused[i] = time.Duration(ms) * time.Millisecond
	}
	require.GreaterOrEqual(t, paused[0], stop-20*time.Millisecond, "the goroutine that looks had up to 5 ms to sleep")
	require.LessOrEqual(t, paused[0], time.Since(began))
	require.Zero(t, paused[1], "none since now")
	require.NoError(t, in.Close())
	_ = cmd.Wait()
}
