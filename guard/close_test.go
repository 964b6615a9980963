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

func TestCloseEndsWaitersLetsWorkEndAndNamesWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(time.Second))
		working := make(chan error)
		go func() {
			working <- guard.Do(t.Context(), g.Name("work"), func(ctx context.Context) error {
				time.Sleep(10 * time.Second)
				return ctx.Err()
			})
		}()
		synctest.Wait()
		rival(t, store, "taken", time.Hour)
		waiters := make(chan error)
		for _, name := range []string{"work", "taken", "taken"} {
			go func() { waiters <- guard.Do(t.Context(), g.Name(name), nothing) }()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errWork)
		defer cancel()
		closed := make(chan error)
		start := time.Now()
		go func() { closed <- g.Close(ctx) }()
		for range 3 {
			require.ErrorIs(t, <-waiters, guard.ErrClosed)
		}
		assert.Zero(t, time.Since(start))
		n := store.acquires.Load()
		require.ErrorIs(t, guard.Do(t.Context(), g.Name("new"), nothing), guard.ErrClosed)
		assert.Equal(t, n, store.acquires.Load())

		err := <-closed
		assert.Equal(t, 2*time.Second, time.Since(start))
		require.ErrorIs(t, err, errWork)
		assert.ErrorContains(t, err, "\n\twork held with token")
		assert.False(t, free(t, store, "work"), "nothing is released under running work")
		require.NoError(t, g.Close(t.Context()), "again, and it waits")
		assert.Equal(t, 10*time.Second, time.Since(start))
		require.NoError(t, <-working, "the lease was renewed all the time")
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestGrantThatArrivesAfterCloseIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			time.Sleep(time.Second)
			return store.Locker.Acquire(ctx, r)
		}
		g := newGuard(t, store)
		done := make(chan error)
		go func() {
			done <- guard.Do(t.Context(), g.Name("a"), func(context.Context) error { t.Error("ran"); return nil })
		}()
		synctest.Wait()
		require.NoError(t, g.Close(t.Context()))
		require.ErrorIs(t, <-done, guard.ErrClosed)
		assert.True(t, free(t, store.Locker, "a"))
	})
}

func TestHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(3*time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		assert.Positive(t, h.Token())
		assert.Contains(t, h.String(), "a held with token ")
		time.Sleep(900 * time.Millisecond)
		require.NoError(t, h.Extend(t.Context()))
		assert.Equal(t, 2970*time.Millisecond, time.Until(h.Until()))
		time.Sleep(time.Minute)
		assert.NoError(t, h.Context().Err(), "renewed until it is released")
		require.NoError(t, h.Release())
		assert.ErrorIs(t, h.Context().Err(), context.Canceled)
		require.NoError(t, h.Release(), "the same again")
		assert.Equal(t, int32(1), store.releases.Load())
		require.ErrorIs(t, h.Extend(t.Context()), guard.ErrLost)

		var zero *guard.Held
		for _, l := range []*guard.Held{zero, {}} {
			require.ErrorIs(t, l.Release(), guard.ErrInvalid)
			require.ErrorIs(t, l.Extend(t.Context()), guard.ErrInvalid)
			require.ErrorIs(t, context.Cause(l.Context()), guard.ErrInvalid)
			assert.Zero(t, l.Token())
			assert.True(t, l.Until().IsZero())
			assert.Equal(t, "nothing held", l.String())
		}
	})
}

func TestExtendReportsALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
		g := newGuard(t, store)
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		require.ErrorIs(t, h.Extend(t.Context()), guard.ErrLost)
		require.ErrorIs(t, context.Cause(h.Context()), guard.ErrLost)
		require.ErrorIs(t, h.Extend(t.Context()), guard.ErrLost)
		require.ErrorIs(t, h.Release(), guard.ErrLost)
		require.NoError(t, g.Close(t.Context()))
	})
}

// A question that a silent service does not answer does not keep a waiter from
// leaving, nor those behind it.
func TestCloseEndsWaitersWhoseQuestionIsOnItsWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := silentAfter(1)
		g := newGuard(t, store)
		rival(t, store.Locker, "a", 500*time.Millisecond)
		waiters := make(chan error)
		for range 3 {
			go func() { waiters <- guard.Do(t.Context(), g.Name("a"), nothing) }()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.Equal(t, int32(2), store.acquires.Load(), "the second question is on its way")
		store.mode.Store(frozen)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _ = g.Close(ctx) }()
		start := time.Now()
		for range 3 {
			err := <-waiters
			require.ErrorIs(t, err, guard.ErrClosed)
			require.NotErrorIs(t, err, guard.ErrHeld)
		}
		assert.Zero(t, time.Since(start))
		store.mode.Store(passes)
		require.NoError(t, g.Close(t.Context()))
	})
}
