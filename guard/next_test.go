package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

// With others at the store the next call can only be queued behind them. It does
// not wait for the answer to the release before it.
func TestNextCallAsksWithTheReleaseIfOthersWaitAtTheStore(t *testing.T) {
	const released = 100 * time.Millisecond
	for name, c := range map[string]struct {
		waiters bool
		calls   int
		asks    []time.Duration // when
		next    []bool          // what releases say
	}{
		"others, and a next call":   {true, 2, []time.Duration{0, 0}, []bool{true, false}},
		"others, and no next call":  {true, 1, []time.Duration{0}, []bool{false}},
		"a next call, and no other": {false, 2, []time.Duration{0, released}, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newFaults()
				start := time.Now()
				var asks []time.Duration
				var next []bool
				owners := map[string]bool{}
				store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
					if !owners[r.Owner] { // else it repeats its question
						owners[r.Owner] = true
						asks = append(asks, time.Since(start))
					}
					l, err := store.Locker.Acquire(ctx, r)
					l.Waiters, l.HandOffs = c.waiters, 0
					return l, err
				}
				store.release = func(ctx context.Context, l guard.Lease) error {
					next = append(next, l.Next)
					time.Sleep(released)
					return store.Locker.Release(ctx, l)
				}
				g := newGuard(t, store)
				live := 0
				var calls sync.WaitGroup
				for range c.calls {
					calls.Go(func() {
						assert.NoError(t, guard.Do(t.Context(), g.Name("a"), func(context.Context) error {
							live++
							assert.Equal(t, 1, live)
							synctest.Wait() // the others stand in line
							live--
							return nil
						}))
					})
				}
				calls.Wait()
				assert.Equal(t, c.asks, asks)
				assert.Equal(t, c.next, next)
				assert.Equal(t, time.Duration(c.calls)*released, time.Since(start))
				require.NoError(t, g.Close(t.Context()))
				assert.True(t, free(t, store.Locker, "a"))
			})
		})
	}
}

// A release that fails changes nothing for the call that has asked meanwhile: its
// owner is another one.
func TestNextCallKeepsItsPlaceWhenTheReleaseFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			l, err := store.Locker.Acquire(ctx, r)
			l.Waiters, l.HandOffs = true, 0
			return l, err
		}
		store.release = func(ctx context.Context, l guard.Lease) error {
			if store.releases.Load() == 1 {
				return broken()
			}
			return store.Locker.Release(ctx, l)
		}
		g := newGuard(t, store, guard.TTL(time.Second))
		start := time.Now()
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- guard.Do(t.Context(), g.Name("a"), nothing) }()
		synctest.Wait()
		require.NoError(t, h.Release())
		require.NoError(t, <-done)
		assert.Less(t, time.Since(start), 100*time.Millisecond, "the release was repeated")
		require.NoError(t, g.Close(t.Context()))
		assert.True(t, free(t, store.Locker, "a"))
	})
}
