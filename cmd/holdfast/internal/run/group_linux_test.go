package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/run"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func watchdogOf(t *testing.T, p *clitest.Process) int {
	t.Helper()
	pid := findWatchdog(t, p)
	require.NotZero(t, pid, "no watchdog")
	return pid
}

// findWatchdog looks among the children of a holdfast; it returns 0 if the
// watchdog is not there yet.
func findWatchdog(t *testing.T, p *clitest.Process) (pid int) {
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
			if err == nil && strings.Contains(string(args), run.WatchdogCommand) {
				pid, err = strconv.Atoi(child)
				require.NoError(t, err)
			}
		}
	}
	return pid
}

func TestGroupEndsThoughTheWatchdogWasKilled(t *testing.T) {
	s := redistest.Shared(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	p := clitest.Begin(t, clitest.On(s, name, l.Shell(`trap '' TERM; sleep 1000 & echo up >&9; wait`), "--ttl=1s")...)
	require.Equal(t, "up", l.Next())
	require.NoError(t, syscall.Kill(watchdogOf(t, p), syscall.SIGKILL))
	require.NoError(t, s.Client(t).Del(t.Context(), "lock:{"+name+"}").Err())
	l.Over()
	assert.Equal(t, cli.Lost, p.End())
}

// The watchdog is stopped before it can have been told of the deadline, so what
// it reads later is as old as that.
func TestWatchdogThatStartsSlowlyKeepsToTheDeadline(t *testing.T) {
	const ttl = 4 * time.Second
	s := redistest.Shared(t)
	l := clitest.Listen(t)
	p := clitest.Begin(t, clitest.On(s, redistest.Unique(t), l.Shell(`trap '' TERM; sleep 1000 & echo up >&9; wait`), "--ttl", ttl.String())...)
	var watchdog int
	require.Eventually(t, func() bool {
		watchdog = findWatchdog(t, p)
		return watchdog != 0 && syscall.Kill(watchdog, syscall.SIGSTOP) == nil
	}, soon, time.Millisecond)
	require.Equal(t, "up", l.Next())
	began := time.Now() // the lease did so earlier
	p.Signal(syscall.SIGSTOP)
	time.Sleep(ttl) // beyond the lease, so that all that was told is late
	require.NoError(t, syscall.Kill(watchdog, syscall.SIGCONT))
	l.Over()
	assert.Less(t, l.At.Sub(began), 2*ttl-ttl/4, "a deadline that counts from the reading is later")
	p.Signal(syscall.SIGCONT)
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
