package nodes_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/guardtest"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestContract(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ns := start(t, n)
			guardtest.Run(t, guardtest.Config{NoQueue: true, New: func(t *testing.T) guard.Locker {
				return ns.process(t, noGrace, guard.NodeLimit(5*time.Second))
			}})
		})
	}
}

// Two processes with many goroutines each, every verb: one holder at a time, each
// with a token of its own, and leases are passed on inside a process.
func TestEveryVerbExcludesEveryOther(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	var oracle redistest.Oracle
	var tokens sync.Map
	var handedOn, waited atomic.Int32
	inside := func(ctx context.Context) error {
		defer oracle.Enter("x")()
		_, used := tokens.LoadOrStore(fence.From(ctx), true)
		assert.False(t, used, "a token twice")
		time.Sleep(time.Millisecond)
		return ctx.Err()
	}
	var work sync.WaitGroup
	tries := atomic.Int32{}
	for range 2 {
		watch := &watcher{handedOn: &handedOn, waited: &waited}
		p := ns.process(t, noGrace)
		g, err := guard.New(p.Locker, guard.TTL(ttl), guard.Observe(watch))
		require.NoError(t, err)
		for range 4 {
			work.Go(func() {
				for range 5 {
					assert.NoError(t, guard.Do(t.Context(), g.Name("x"), inside))
					n, err := guard.Value(t.Context(), g.Name("x"), func(ctx context.Context) (int, error) { return 7, inside(ctx) })
					assert.NoError(t, err)
					assert.Equal(t, 7, n)
					held, err := guard.Acquire(t.Context(), g.Name("x"))
					if assert.NoError(t, err) {
						assert.NoError(t, inside(held.Context()))
						assert.NoError(t, held.Release())
					}
					ran, err := guard.Try(t.Context(), g.Name("x"), inside)
					assert.NoError(t, err)
					if ran {
						tries.Add(1)
					}
				}
			})
		}
	}
	work.Wait()
	assert.Equal(t, 1, oracle.Max())
	assert.Equal(t, 120+int(tries.Load()), oracle.Total())
	assert.Positive(t, handedOn.Load(), "passed on without asking the nodes")
	assert.Positive(t, waited.Load())
}

// watcher counts events.
type watcher struct{ handedOn, waited *atomic.Int32 }

func (*watcher) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }
func (*watcher) End(context.Context, guard.Outcome)                      {}
func (w *watcher) Event(_ context.Context, e guard.Event) {
	switch e.Kind {
	case guard.HandedOn:
		w.handedOn.Add(1)
	case guard.Waiting:
		w.waited.Add(1)
	}
}

// A quorum of fair stores passes nothing on inside a process.
func TestAQuorumOfFairStoresHandsNothingOn(t *testing.T) {
	t.Parallel()
	var lockers []guard.Locker
	for _, s := range start(t, 3) {
		store, err := redisstore.New(s.Client(t))
		require.NoError(t, err)
		lockers = append(lockers, noGrace(store.Fair()))
	}
	q, err := guard.Quorum(lockers)
	require.NoError(t, err)
	var handedOn, waited atomic.Int32
	g, err := guard.New(q, guard.TTL(ttl), guard.Observe(&watcher{&handedOn, &waited}))
	require.NoError(t, err)
	var oracle redistest.Oracle
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 5 {
				assert.NoError(t, guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
					defer oracle.Enter("x")()
					return ctx.Err()
				}))
			}
		})
	}
	work.Wait()
	assert.Equal(t, 1, oracle.Max())
	assert.Equal(t, 20, oracle.Total())
	assert.Zero(t, handedOn.Load())
}

// A refusal says who holds the name and where in its traces, and until when a
// majority is taken.
func TestARefusalTellsOfTheHolder(t *testing.T) {
	t.Parallel()
	ns := start(t, 5)
	a, b := ns.process(t, noGrace), ns.process(t, noGrace)
	r := request("x")
	r.Trace, r.Label = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "billing"
	l := acquire(t, a, r)
	_, err := b.Acquire(t.Context(), request("x"))
	var held *guard.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, "billing", held.Holder)
	assert.Equal(t, r.Trace, held.Trace)
	assert.Equal(t, l.Token, held.Token)
	assert.Nil(t, held.Wake, "nodes do not queue")
	assert.Greater(t, held.RetryIn, time.Until(l.Until))
	assert.LessOrEqual(t, held.RetryIn, ttl)
	assert.NotErrorIs(t, err, guard.ErrUnavailable)
	require.NoError(t, a.Release(t.Context(), l))
}
