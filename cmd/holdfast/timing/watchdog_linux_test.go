package timing_test

import (
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

// The watchdog is stopped before it can have been told of the deadline, and reads
// of it when the lease has ended.
func TestWatchdogThatStartsSlowlyKeepsToTheDeadline(t *testing.T) {
	const ttl, limit = 4 * time.Second, 20 * time.Second
	s := redistest.Start(t)
	rdb := s.Client(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	p := clitest.Begin(t, clitest.On(s, name, l.Shell(stubborn), "--ttl", ttl.String())...)
	var watchdog int
	require.Eventually(t, func() bool {
		watchdog = clitest.Child(t, p, run.WatchdogCommand)
		return watchdog != 0 && syscall.Kill(watchdog, syscall.SIGSTOP) == nil
	}, limit, time.Millisecond)
	require.Equal(t, "up", l.Next())
	p.Signal(syscall.SIGSTOP)
	require.Eventually(t, func() bool { return rdb.Exists(t.Context(), "lock:{"+name+"}").Val() == 0 }, limit, time.Millisecond)
	resumed := time.Now()
	require.NoError(t, syscall.Kill(watchdog, syscall.SIGCONT))
	l.Over()
	assert.Less(t, l.At.Sub(resumed)-redistest.Paused(resumed), ttl/4, "a deadline that counts from the reading is a TTL later")
	p.Signal(syscall.SIGCONT)
	assert.Equal(t, cli.Lost, p.End())
}
