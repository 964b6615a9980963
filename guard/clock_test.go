package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

func TestSleepShorterThanTheRestRenewsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(30*time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		guard.Sleep(20 * time.Second)
		assert.True(t, guard.Holds(h.Context(), g.Name("a")), "9.7 s are left")
		assert.Equal(t, 9700*time.Millisecond, time.Until(h.Until()))
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, int32(1), store.renews.Load(), "noticed by the next tick")
		assert.Equal(t, 29700*time.Millisecond, time.Until(h.Until()))
		require.NoError(t, h.Release())
	})
}

func TestSleepBeyondTheLeaseIsALossEvenIfTheKeyIsStillOurs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(30*time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		guard.Sleep(40 * time.Second)
		assert.False(t, guard.Holds(h.Context(), g.Name("a")), "before any timer has run")
		require.ErrorIs(t, context.Cause(h.Context()), guard.ErrLost)
		require.ErrorIs(t, h.Release(), guard.ErrLost)
		assert.Zero(t, store.renews.Load())
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestSleepIsNoticedByTheTick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, newFaults(), guard.TTL(30*time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		start := time.Now()
		guard.Sleep(40 * time.Second)
		ctx := h.Context().(interface{ Done() <-chan struct{} })
		<-ctx.Done()
		assert.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
		require.ErrorIs(t, h.Release(), guard.ErrLost)
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestGrantAcrossASleepIsConfirmedByARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			l, err := store.Locker.Acquire(ctx, r)
			guard.Sleep(20 * time.Second)
			return l, err
		}
		g := newGuard(t, store, guard.TTL(30*time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		assert.Equal(t, int32(1), store.renews.Load())
		assert.Equal(t, 29700*time.Millisecond, time.Until(h.Until()))
		require.NoError(t, h.Release())
	})
}
