package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/retry"
)

func TestTryNeverWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		rival(t, store, "a", time.Hour)
		ran, err := guard.Try(t.Context(), g.Name("a"), nothing)
		assert.False(t, ran)
		require.NoError(t, err)
		ran, err = guard.Try(t.Context(), g.Name("b"), func(ctx context.Context) error {
			ran, err := guard.Try(t.Context(), g.Name("b"), nothing) // another flow of this process
			assert.False(t, ran)
			assert.NoError(t, err)
			return errWork
		})
		assert.True(t, ran)
		assert.Equal(t, errWork, err)
	})
}

func TestTryGivesAServiceThatDoesNotAnswerOneSecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(ctx context.Context, _ guard.Request) (guard.Lease, error) { return guard.Lease{}, hang(ctx) }
		g := newGuard(t, store)
		start := time.Now()
		done := make(chan struct{})
		go func() { // the second one waits for the first one's verdict
			defer close(done)
			ran, err := guard.Try(t.Context(), g.Name("a"), nothing)
			assert.False(t, ran)
			assert.ErrorIs(t, err, guard.ErrUnavailable)
		}()
		ran, err := guard.Try(t.Context(), g.Name("a"), nothing)
		assert.False(t, ran)
		assert.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.NotErrorIs(t, err, guard.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's deadline")
		<-done
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestWaitingHasItsOwnLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(100*time.Millisecond))
		rival(t, store, "a", time.Hour)
		limited := guard.Must(g.Class("x", guard.Wait(7*time.Second)))
		for _, tc := range []struct {
			n    guard.Name
			want time.Duration
		}{
			{g.Name("a").Wait(5 * time.Second), 5 * time.Second},
			{g.Name("a").Wait(5 * time.Second).Wait(time.Minute), 5 * time.Second},
			{g.Name("a").Wait(-1), 0},
		} {
			start := time.Now()
			err := guard.Do(t.Context(), tc.n, nothing)
			assert.Equal(t, tc.want, time.Since(start))
			var held *guard.HeldError
			require.ErrorAs(t, err, &held)
			assert.Equal(t, tc.want, held.Waited)
			assert.Equal(t, "rival", held.Holder)
			assert.Nil(t, held.Wake)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}
		rival(t, store, "x/a", time.Hour)
		start := time.Now()
		require.ErrorIs(t, guard.Do(t.Context(), limited.Name("a").Wait(time.Minute), nothing), guard.ErrHeld)
		assert.Equal(t, 7*time.Second, time.Since(start), "Name.Wait does not lengthen the policy's limit")
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestHeldAndEndedContextMatchesBoth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		rival(t, store, "a", time.Hour)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errWork)
		defer cancel()
		start := time.Now()
		err := guard.Do(ctx, g.Name("a"), nothing)
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		for _, want := range []error{guard.ErrHeld, context.DeadlineExceeded, errWork} {
			require.ErrorIs(t, err, want)
		}
		ran, err := guard.Try(ctx, g.Name("a"), nothing)
		assert.False(t, ran)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestWaiterGetsTheNameWhenTheRivalLeavesOrDies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(100*time.Millisecond))
		l := rival(t, store, "a", time.Hour)
		time.AfterFunc(time.Minute, func() { _ = store.Locker.Release(context.Background(), l) })
		start := time.Now()
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.Equal(t, time.Minute, time.Since(start), "woken, not polled")
		rival(t, store, "b", 10*time.Second)
		start = time.Now()
		require.NoError(t, guard.Do(t.Context(), g.Name("b"), nothing))
		assert.InDelta(t, 10*time.Second, time.Since(start), float64(2*time.Millisecond))
		require.NoError(t, g.Close(t.Context()))
	})
}

// poll is a store that cannot wake.
func poll(store *faults) {
	store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
		r.Queue = false
		return store.Locker.Acquire(ctx, r)
	}
}

func TestWithoutWakeTheBackoffPolls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		poll(store)
		runs := 0
		policy := func() retry.Backoff { runs++; return retry.Constant(100 * time.Millisecond)() }
		g := newGuard(t, store, guard.Backoff(policy))
		rival(t, store.Locker, "a", 950*time.Millisecond)
		start := time.Now()
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.Equal(t, 951*time.Millisecond, time.Since(start), "the last pause is cut to what is left of the lease")
		assert.Equal(t, int32(11), store.acquires.Load())
		assert.Equal(t, 1, runs, "one run for each acquisition")
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestWhenTheBackoffStopsTheLastVerdictIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		poll(store)
		g := newGuard(t, store, guard.Backoff(retry.Constant(100*time.Millisecond).Attempts(3)))
		rival(t, store, "a", time.Hour)
		require.ErrorIs(t, guard.Do(t.Context(), g.Name("a"), nothing), guard.ErrHeld)
		store.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, broken() }
		require.ErrorIs(t, guard.Do(t.Context(), g.Name("a"), nothing), guard.ErrUnavailable)
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestDeadServiceIsGivenThirtySecondsWithoutADeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, broken() }
		store.release = func(context.Context, guard.Lease) error { return broken() }
		g := newGuard(t, store, guard.TTL(time.Second))
		start := time.Now()
		err := guard.Do(t.Context(), g.Name("a"), nothing)
		assert.InDelta(t, 30*time.Second, time.Since(start), float64(300*time.Millisecond))
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorIs(t, err, errNetwork)
		require.NotErrorIs(t, err, guard.ErrHeld)
		assert.LessOrEqual(t, store.acquires.Load(), int32(300), "at most ten a second")

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start = time.Now()
		err = guard.Do(ctx, g.Name("a"), nothing)
		assert.Equal(t, 2*time.Second, time.Since(start))
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		start = time.Now()
		err = guard.Do(t.Context(), g.Name("a").Wait(3*time.Second), nothing)
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestServiceThatComesBackIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		start := time.Now()
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			if time.Since(start) < 20*time.Second {
				return guard.Lease{}, broken()
			}
			return store.Locker.Acquire(ctx, r)
		}
		g := newGuard(t, store)
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.Less(t, time.Since(start), 21*time.Second)
		require.NoError(t, g.Close(t.Context()))
	})
}

type permanentError struct{}

func (permanentError) Error() string     { return "NOPERM" }
func (permanentError) Is(err error) bool { return err == guard.ErrUnavailable }
func (permanentError) Permanent() bool   { return true }

func TestPermanentRefusalIsNotRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, refusal := range []error{permanentError{}, guard.ErrInvalid, guard.ErrUnsupported, errors.New("unheard of")} {
			store := newFaults()
			store.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, refusal }
			g := newGuard(t, store)
			start := time.Now()
			require.ErrorIs(t, guard.Do(t.Context(), g.Name("a"), nothing), refusal)
			assert.Zero(t, time.Since(start))
			assert.Equal(t, int32(1), store.acquires.Load())
			require.NoError(t, g.Close(t.Context()))
		}
	})
}

func TestUnknownOutcomeIsAskedAgainWithTheSameOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		var owners []string
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			owners = append(owners, r.Owner)
			l, err := store.Locker.Acquire(ctx, r)
			if len(owners) < 3 {
				return guard.Lease{}, broken() // granted, and the answer was lost
			}
			return l, err
		}
		g := newGuard(t, store)
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.Len(t, owners, 3)
		assert.Equal(t, owners[0], owners[2])
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.NotEqual(t, owners[0], owners[3], "a released owner is never used again")
		assert.Len(t, owners[0], 22)
	})
}

func TestCancelledAcquireIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		var asked guard.Request
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			asked = r
			_, err := store.Locker.Acquire(ctx, r) // granted, but the caller will not hear of it
			require.NoError(t, err)
			return guard.Lease{}, hang(ctx)
		}
		g := newGuard(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		err := guard.Do(ctx, g.Name("a"), func(context.Context) error { t.Error("ran"); return nil })
		assert.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, guard.ErrHeld)
		require.NoError(t, g.Close(t.Context()))
		assert.True(t, free(t, store.Locker, "a"))
		_, err = store.Locker.Acquire(t.Context(), asked)
		require.ErrorIs(t, err, guard.ErrLost, "a late copy of the request is refused")
	})
}

func TestOneFlowTakingANameTwiceIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		other := newGuard(t, store) // the same store
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			assert.NoError(t, guard.Do(ctx, g.Name("b"), func(ctx context.Context) error {
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				n := store.acquires.Load()
				assert.ErrorIs(t, guard.Do(child, g.Name("a"), nothing), guard.ErrNested)
				assert.ErrorIs(t, guard.Do(child, other.Name("a"), nothing), guard.ErrNested)
				assert.Equal(t, n, store.acquires.Load(), "before any command")
				assert.True(t, guard.Holds(ctx, g.Name("a")))
				assert.False(t, guard.Holds(ctx, g.Name("c")))
				return nil
			}))
			assert.ErrorIs(t, guard.Do(t.Context(), g.Name("a").Wait(time.Second), nothing), guard.ErrHeld, "another flow just waits")
			return nil
		}))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		require.NoError(t, h.Release())
		detached := context.WithoutCancel(h.Context())
		require.NoError(t, guard.Do(detached, g.Name("a"), nothing), "a hold that is over is not nested")
	})
}
