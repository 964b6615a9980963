package timing_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// handOver lets one process release while another waits, and returns how long
// the name stood idle.
func handOver(t *testing.T, rdb *redis.Client, a, b *guard.Guard, name string, whileItWaits func()) (idle time.Duration) {
	t.Helper()
	held, err := guard.Acquire(t.Context(), a.Name(name))
	if !assert.NoError(t, err) {
		return 0
	}
	entered := make(chan time.Time, 1)
	done := make(chan error, 1)
	go func() {
		done <- guard.Do(t.Context(), b.Name(name), func(context.Context) error { entered <- time.Now(); return nil })
	}()
	waits(t, rdb, name, 1)
	whileItWaits()
	assert.NoError(t, held.Release())
	released := time.Now()
	assert.NoError(t, <-done)
	return (<-entered).Sub(released)
}

func TestHandOverWithMessages(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newGuard(t, s.Client(t)), newGuard(t, s.Client(t))
	var idle durations
	spread(1000, 4, func(i int) {
		idle.add(handOver(t, rdb, a, b, fmt.Sprint("n", i), func() { time.Sleep(time.Duration(i%3) * time.Millisecond) }))
	})
	idle.within(t, 250*time.Millisecond)
	assert.LessOrEqual(t, idle.list[len(idle.list)*99/100], 250*time.Millisecond, "99 of 100")
}

func TestHandOverWhenTheSubscriberConnectionIsKilled(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newGuard(t, s.Client(t)), newGuard(t, s.Client(t))
	channels := func() int { return len(rdb.PubSubChannels(context.Background(), "*").Val()) }
	var idle, again durations
	for i := range 20 {
		idle.add(handOver(t, rdb, a, b, fmt.Sprint("n", i), func() {
			assert.NoError(t, rdb.Do(context.Background(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		}))
		if i%5 == 0 {
			again.add(soon(t, func() bool { return channels() > 0 }))
		}
	}
	idle.within(t, time.Second)
	again.within(t, time.Second)
}

func TestHandOverWhenEveryMessageIsLost(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	p.Swallow(redistest.Match{Command: "message", Times: -1})
	a, b := newGuard(t, s.Client(t)), newGuard(t, p.Client(t))
	var idle durations
	spread(20, 4, func(i int) { idle.add(handOver(t, rdb, a, b, fmt.Sprint("n", i), func() {})) })
	idle.within(t, time.Second)
}

func TestHandOverWhenTheServerRestarts(t *testing.T) {
	var idle durations
	spread(5, 5, func(i int) {
		s := redistest.Start(t, "--appendonly", "yes")
		rdb := s.Client(t)
		a, b := newGuard(t, s.Client(t)), newGuard(t, s.Client(t))
		idle.add(handOver(t, rdb, a, b, "x", s.Restart))
	})
	idle.within(t, time.Second)
}

// Many waiters share one connection; others that use the client do not notice.
func TestWaitersTakeNoConnections(t *testing.T) {
	s := redistest.Start(t)
	admin := s.Client(t)
	rdb := s.Client(t, func(o *redis.Options) { o.PoolSize, o.ClientName = 5, "app" })
	g, rival := newGuard(t, rdb, guard.TTL(2*time.Second)), newGuard(t, s.Client(t))
	held := make([]*guard.Held, 50)
	for i := range held {
		var err error
		held[i], err = guard.Acquire(t.Context(), rival.Name(fmt.Sprint(i)))
		require.NoError(t, err)
	}
	ours := func() (n int) { return strings.Count(admin.ClientList(context.Background()).Val(), " name=app ") }
	ctx, stop := context.WithCancel(t.Context())
	var waiters, others sync.WaitGroup
	for i := range 500 {
		waiters.Go(func() {
			var cancel context.CancelFunc = func() {}
			ctx := ctx
			if i%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
			}
			defer cancel()
			assert.ErrorIs(t, guard.Do(ctx, g.Name(fmt.Sprint(i%50)), nothing), guard.ErrHeld)
		})
	}
	var gets durations
	most := 0
	others.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			assert.ErrorIs(t, rdb.Get(context.Background(), "bystander").Err(), redis.Nil)
			gets.add(time.Since(start))
			most = max(most, ours())
			time.Sleep(10 * time.Millisecond)
		}
	})
	// Whoever holds can renew and release meanwhile.
	assert.NoError(t, guard.Do(t.Context(), g.Name("mine"), func(ctx context.Context) error {
		time.Sleep(3 * time.Second)
		return ctx.Err()
	}))
	stop()
	waiters.Wait()
	others.Wait()
	assert.LessOrEqual(t, most, 6, "five of the pool and one for messages")
	gets.within(t, 100*time.Millisecond)
	for _, h := range held {
		require.NoError(t, h.Release())
	}
	left := soon(t, func() bool { return len(admin.PubSubChannels(context.Background(), "*").Val()) == 0 })
	assert.Less(t, left, 12*time.Second, "the subscription ends 10 s after the last waiter")
	for key := range s.Keys("lock:{") {
		assert.Regexp(t, `\}:(fence|x:.*)$`, key, "left behind")
	}
}
