package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

// silentAfter is a store that answers n requests and no more.
func silentAfter(n int32) *faults {
	store := newFaults()
	store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
		if store.acquires.Load() > n {
			return guard.Lease{}, hang(ctx)
		}
		return store.Locker.Acquire(ctx, r)
	}
	return store
}

// When the asker's wait ends with a question on its way, those behind it have
// heard the answer before that one just as it has.
func TestAnswerBeforeACutOffQuestionCountsForTheWholeLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := silentAfter(1)
		g := newGuard(t, store)
		rival(t, store.Locker, "a", 500*time.Millisecond)
		var calls sync.WaitGroup
		start := time.Now()
		for i := range 5 { // the third and fourth end while the second asks, the fifth asks after it
			ends := start.Add(time.Second + time.Duration([]int{0, 3, 1, 2, 4}[i])*time.Millisecond)
			ctx, cancel := context.WithDeadline(t.Context(), ends)
			calls.Go(func() {
				defer cancel()
				err := guard.Do(ctx, g.Name("a"), nothing)
				assert.ErrorIs(t, err, guard.ErrHeld, i)
				assert.ErrorIs(t, err, context.DeadlineExceeded, i)
				assert.NotErrorIs(t, err, guard.ErrUnavailable, i)
			})
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestAnswerBeforeACancelledQuestionCountsForTheWholeLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := silentAfter(1)
		g := newGuard(t, store)
		rival(t, store.Locker, "a", 500*time.Millisecond)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errWork) })
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() {
				err := guard.Do(ctx, g.Name("a"), nothing)
				assert.ErrorIs(t, err, guard.ErrHeld, i)
				assert.ErrorIs(t, err, context.Canceled, i)
				assert.ErrorIs(t, err, errWork, i)
				assert.NotErrorIs(t, err, guard.ErrUnavailable, i)
			})
		}
		calls.Wait()
		require.NoError(t, g.Close(t.Context()))
	})
}

// An answer from before the call began says nothing about a service that has
// been silent since.
func TestAnswerOfEarlierCallsDoesNotHideASilentService(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := silentAfter(1)
		g := newGuard(t, store)
		rival(t, store.Locker, "a", 500*time.Millisecond)
		var calls sync.WaitGroup
		for i := range 20 { // there is always somebody in the line
			calls.Go(func() {
				err := guard.Do(t.Context(), g.Name("a").Wait(time.Second), nothing)
				if i == 0 {
					assert.ErrorIs(t, err, guard.ErrHeld)
					return
				}
				assert.ErrorIs(t, err, guard.ErrUnavailable, i)
				assert.NotErrorIs(t, err, guard.ErrHeld, i)
			})
			time.Sleep(600 * time.Millisecond)
		}
		calls.Wait()
		require.NoError(t, g.Close(t.Context()))
	})
}

// A dial that timed out is an answer: the service is not there.
func TestAnswerBeforeAFailureOfTheServiceIsOutOfDate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			if store.acquires.Load() == 2 {
				return guard.Lease{}, errors.Join(guard.ErrUnavailable, context.DeadlineExceeded)
			}
			if store.acquires.Load() > 2 {
				return guard.Lease{}, hang(ctx)
			}
			return store.Locker.Acquire(ctx, r)
		}
		g := newGuard(t, store)
		rival(t, store.Locker, "a", 500*time.Millisecond)
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				err := guard.Do(t.Context(), g.Name("a").Wait(time.Second), nothing)
				assert.ErrorIs(t, err, guard.ErrUnavailable)
				assert.NotErrorIs(t, err, guard.ErrHeld)
			})
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		require.NoError(t, g.Close(t.Context()))
	})
}

// Calls of another TTL ask with an owner of their own; what was answered to the
// one before is still known.
func TestAnswerToTheOwnerBeforeCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := silentAfter(1)
		g := newGuard(t, store)
		short := guard.Must(g.Class("x", guard.TTL(time.Second)))
		long := guard.Must(g.Class("x", guard.TTL(time.Hour)))
		rival(t, store.Locker, "x/a", time.Hour)
		var calls sync.WaitGroup
		for i := range 3 { // the first leaves before it has asked twice, the second asks, the third only stands
			n := short.Name("a")
			if i > 0 {
				n = long.Name("a")
			}
			calls.Go(func() {
				err := guard.Do(t.Context(), n.Wait(time.Second), nothing)
				assert.ErrorIs(t, err, guard.ErrHeld, i)
				assert.NotErrorIs(t, err, guard.ErrUnavailable, i)
			})
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		require.NoError(t, g.Close(t.Context()))
	})
}
