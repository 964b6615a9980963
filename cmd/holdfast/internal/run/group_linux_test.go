package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/run"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestGroupEndsThoughTheWatchdogWasKilled(t *testing.T) {
	s := redistest.Shared(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	p := clitest.Begin(t, clitest.On(s, name, l.Shell(`trap '' TERM; sleep 1000 & echo up >&9; wait`), "--ttl=1s")...)
	require.Equal(t, "up", l.Next())
	watchdog := clitest.Child(t, p, run.WatchdogCommand)
	require.NotZero(t, watchdog)
	require.NoError(t, syscall.Kill(watchdog, syscall.SIGKILL))
	require.NoError(t, s.Client(t).Del(t.Context(), "lock:{"+name+"}").Err())
	l.Over()
	assert.Equal(t, cli.Lost, p.End())
}

// In many containers process 1 does not reap what is left to it.
func TestHoldfastReapsWhatTheCommandLeft(t *testing.T) {
	s := redistest.Shared(t)
	l, gate := clitest.Listen(t), filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	p := clitest.Begin(t, clitest.On(s, redistest.Unique(t), l.Shell("(read go <'"+gate+"') & echo $! >&9; echo $$ >&9"))...)
	left, leader := l.Next(), l.Next()
	require.Eventually(t, func() bool {
		_, err := os.Stat("/proc/" + leader)
		return os.IsNotExist(err)
	}, soon, tick)
	status, err := os.ReadFile("/proc/" + left + "/status")
	require.NoError(t, err)
	assert.Contains(t, string(status), fmt.Sprintf("PPid:\t%d\n", p.Process.Pid))
	require.NoError(t, os.WriteFile(gate, []byte("go\n"), 0o600))
	assert.Equal(t, 0, p.End())
}
