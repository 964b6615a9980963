//go:build unix

// Package timing has the tests of holdfast run that bound wall-clock time: run
// it alone and without the race detector.
package timing_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	clitest.Main(func() int {
		redistest.Paused(time.Now())
		return m.Run()
	})
}

const (
	runs   = 20
	within = 19 // of them within the bound

	// stubborn ignores TERM, and so does what it has started; polite says when
	// TERM came and ends. Both say up once they run.
	stubborn = `trap '' TERM; (sleep 1000) & echo up >&9; wait`
	polite   = `trap 'echo told >&9; exit 0' TERM; sleep 1000 & echo up >&9; wait`
)

// ends is when the server would give the lease of each name to another: at the
// earliest, since a lease may be renewed just after it was asked.
func ends(t *testing.T, rdb *redis.Client, names []string) []time.Time {
	t.Helper()
	require.NoError(t, rdb.Ping(t.Context()).Err()) // or connecting would count as time of the lease
	asked := time.Now()
	var left []*redis.DurationCmd
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, n := range names {
			left = append(left, p.PTTL(t.Context(), "lock:{"+n+"}"))
		}
		return nil
	})
	require.NoError(t, err)
	var at []time.Time
	for _, l := range left {
		require.Positive(t, l.Val())
		at = append(at, asked.Add(l.Val()))
	}
	return at
}

// TestGroupIsGoneBeforeTheLeaseOfAFrozenServerEnds freezes the server under 20
// commands. Half of them end when told to, half have to be killed.
func TestGroupIsGoneBeforeTheLeaseOfAFrozenServerEnds(t *testing.T) {
	const ttl = 6 * time.Second
	s := redistest.Start(t)
	rdb := s.Client(t)
	var all []*clitest.Process
	var said []*clitest.Lines
	var names []string
	for i := range runs {
		name, l := redistest.Unique(t), clitest.Listen(t)
		all = append(all, clitest.Begin(t, clitest.On(s, name, l.Shell([]string{stubborn, polite}[i%2]), "--ttl", ttl.String())...))
		names, said = append(names, name), append(said, l)
	}
	for _, l := range said {
		require.Equal(t, "up", l.Next())
	}
	end := ends(t, rdb, names)
	s.Freeze()
	frozen := time.Now()

	inTime := 0
	for i, l := range said {
		deadline := end[i].Add(-ttl / 100) // the margin of a lease's local end
		told := deadline                   // not heard of
		if i%2 == 1 {
			require.Equal(t, "told", l.Next())
			told = l.At
		}
		l.Over()
		deadline = deadline.Add(redistest.Paused(frozen))
		t.Logf("run %d: told %v and gone %v before its end", i, deadline.Sub(told), deadline.Sub(l.At))
		if !l.At.After(deadline) && (i%2 == 0 || deadline.Sub(told) > ttl/8) {
			inTime++
		}
		assert.Less(t, l.At.Sub(deadline), 5*ttl)
	}
	assert.GreaterOrEqual(t, inTime, within)

	s.Thaw()
	locks := guard.Must(guard.New(guard.Must(redisstore.New(rdb))))
	for i, p := range all {
		assert.Equal(t, cli.Lost, p.End(), p.Err.String())
		ran, err := guard.Try(t.Context(), locks.Name(names[i]), func(context.Context) error { return nil })
		require.NoError(t, err)
		assert.True(t, ran, "%s is free", names[i])
	}
}

// TestGroupIsGoneBeforeTheLeaseEndsThoughHoldfastIsStopped leaves it to the
// watchdog alone.
func TestGroupIsGoneBeforeTheLeaseEndsThoughHoldfastIsStopped(t *testing.T) {
	const ttl = 6 * time.Second
	s := redistest.Start(t)
	rdb := s.Client(t)
	var all []*clitest.Process
	var said []*clitest.Lines
	var names []string
	for range runs {
		name, l := redistest.Unique(t), clitest.Listen(t)
		all = append(all, clitest.Begin(t, clitest.On(s, name, l.Shell(stubborn), "--ttl", ttl.String())...))
		names, said = append(names, name), append(said, l)
	}
	for _, l := range said {
		require.Equal(t, "up", l.Next())
	}
	end := ends(t, rdb, names)
	stopped := time.Now()
	for _, p := range all {
		p.Signal(syscall.SIGSTOP)
	}
	inTime := 0
	for i, l := range said {
		l.Over()
		late := l.At.Sub(end[i].Add(-ttl/100)) - redistest.Paused(stopped)
		t.Logf("run %d: gone %v before its end", i, -late)
		if late <= 0 {
			inTime++
		}
		assert.Less(t, late, 5*ttl)
	}
	assert.GreaterOrEqual(t, inTime, within)

	// A rival has the lock by the time holdfast goes on, and keeps it.
	rival := guard.Must(guard.New(guard.Must(redisstore.New(rdb))))
	err := guard.Do(t.Context(), rival.Name(names[0]), func(work context.Context) error {
		for _, p := range all {
			p.Signal(syscall.SIGCONT)
		}
		resumed := time.Now()
		prompt := 0
		for _, p := range all {
			assert.Equal(t, cli.Lost, p.End(), p.Err.String())
			if time.Since(resumed) < time.Second {
				prompt++
			}
		}
		assert.GreaterOrEqual(t, prompt, within)
		return work.Err()
	})
	require.NoError(t, err)
}

// TestCommandThatWasToldToEndIsNotKilledWhileTheLeaseStands thaws the server
// between TERM and KILL.
func TestCommandThatWasToldToEndIsNotKilledWhileTheLeaseStands(t *testing.T) {
	const ttl = 4 * time.Second
	s := redistest.Start(t)
	rdb := s.Client(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	gate := filepath.Join(t.TempDir(), "gate")
	p := clitest.Begin(t, clitest.On(s, name, l.Shell(
		`trap 'echo told >&9' TERM; echo up >&9; while [ ! -e '`+gate+`' ]; do sleep 0.05; done; echo done >&9`,
	), "--ttl", ttl.String())...)
	require.Equal(t, "up", l.Next())
	s.Freeze()
	require.Equal(t, "told", l.Next())
	s.Thaw()
	require.Eventually(t, func() bool {
		return rdb.PTTL(t.Context(), "lock:{"+name+"}").Val() > ttl*3/4
	}, ttl/4, 5*time.Millisecond, "the lease is renewed after all")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Equal(t, "done", l.Next())
	assert.Equal(t, cli.Lost, p.End())
	assert.Contains(t, p.Err.String(), "told to end")
}

// TestGroupOfALostLeaseIsGoneSoonerThanItsOldEnd takes the lease away: another
// may hold it by now, so a command that does not listen gets a quarter of the TTL.
func TestGroupOfALostLeaseIsGoneSoonerThanItsOldEnd(t *testing.T) {
	const ttl = 8 * time.Second
	s := redistest.Start(t)
	rdb := s.Client(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	began := time.Now()
	p := clitest.Begin(t, clitest.On(s, name, l.Shell(stubborn), "--ttl", ttl.String())...)
	require.Equal(t, "up", l.Next())
	require.NoError(t, rdb.Del(t.Context(), "lock:{"+name+"}").Err())
	l.Over()
	// Found at the first renewal, after a third of the TTL and up to a tenth more.
	assert.Less(t, l.At.Sub(began), ttl/3*11/10+ttl/4+ttl/10)
	assert.Equal(t, cli.Lost, p.End())
}
