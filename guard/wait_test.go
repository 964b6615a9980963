package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
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

func TestLineIsServedInOrderOfArrivalAndTokensRise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, newFaults())
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		var order []int
		tokens := []fence.Token{h.Token()}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				assert.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
					order = append(order, i)
					tokens = append(tokens, fence.From(ctx))
					return nil
				}))
			})
			synctest.Wait()
		}
		require.NoError(t, h.Release())
		wg.Wait()
		assert.IsIncreasing(t, order)
		assert.IsIncreasing(t, tokens)
	})
}

// crowd has n goroutines stand in line behind a holder and lets it go.
func crowd(t *testing.T, names []guard.Name, work func(context.Context) error) {
	t.Helper()
	h, err := guard.Acquire(t.Context(), names[0])
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, n := range names {
		wg.Go(func() { assert.NoError(t, guard.Do(t.Context(), n, work)) })
		synctest.Wait()
	}
	require.NoError(t, h.Release())
	wg.Wait()
}

func repeat(n guard.Name, times int) []guard.Name {
	names := make([]guard.Name, times)
	for i := range names {
		names[i] = n
	}
	return names
}

func TestHandOffIsBoundedByNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		var tokens []fence.Token
		crowd(t, repeat(newGuard(t, store).Name("a"), 63), func(ctx context.Context) error {
			tokens = append(tokens, fence.From(ctx))
			return nil
		})
		assert.Equal(t, int32(2), store.acquires.Load(), "64 holders: the first with 31 more, and once again")
		assert.Equal(t, int32(2), store.releases.Load())
		for i := range 30 {
			assert.Equal(t, tokens[i]+1, tokens[i+1], "base+k inside one grant")
		}
		assert.IsIncreasing(t, tokens)
	})
}

func TestHandOffIsBoundedByTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		crowd(t, repeat(newGuard(t, store).Name("a"), 10), func(context.Context) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		assert.Equal(t, int32(4), store.acquires.Load(), "three, or four, fit into 50 ms")
	})
}

func TestNoHandOffBetweenDifferentTTLsOrWithMinHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		long, short := guard.Must(g.Class("x", guard.TTL(time.Minute))), guard.Must(g.Class("x", guard.TTL(time.Second)))
		crowd(t, []guard.Name{long.Name("a"), short.Name("a"), long.Name("a")}, nothing)
		assert.Equal(t, int32(3), store.acquires.Load())
		store.acquires.Store(0)
		least := guard.Must(g.Class("x", guard.MinHold(time.Millisecond)))
		crowd(t, []guard.Name{least.Name("b"), least.Name("b")}, nothing)
		assert.GreaterOrEqual(t, store.acquires.Load(), int32(3))
	})
}

func TestNoHandOffOnceARenewalWasSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context()))
		done := make(chan error)
		go func() { done <- guard.Do(t.Context(), g.Name("a"), nothing) }()
		synctest.Wait()
		require.NoError(t, h.Release())
		require.NoError(t, <-done)
		assert.Equal(t, int32(2), store.acquires.Load())
	})
}

func TestFairStoreHandsNothingOnLocally(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.Locker = fairOf(store)
		crowd(t, repeat(newGuard(t, store).Name("a"), 9), nothing)
		assert.Equal(t, int32(10), store.acquires.Load())
	})
}

func TestPreviousHoldersContextEndsBeforeTheNextStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var before context.Context
		ended := handedOn(func() { assert.ErrorIs(t, before.Err(), context.Canceled) })
		g := newGuard(t, newFaults(), guard.Observe(ended))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		before = h.Context()
		require.NoError(t, before.Err())
		done := make(chan error)
		go func() { done <- guard.Do(t.Context(), g.Name("a"), nothing) }()
		synctest.Wait()
		require.NoError(t, h.Release())
		require.NoError(t, <-done)
	})
}

// A lease that ends between its hand-over and the start of the work is nobody's
// loss: the call asks again, before those behind it save the one who asks already.
func TestALeaseLostBeforeTheWorkBeginsIsAskedForAgain(t *testing.T) {
	for _, behind := range []int{0, 3} {
		t.Run(fmt.Sprint(behind, " behind"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, seen := newFaults(), &recorder{}
				granted := map[fence.Token]bool{}
				store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
					l, err := store.Locker.Acquire(ctx, r)
					granted[l.Token] = true
					return l, err
				}
				g := newGuard(t, store, guard.Observe(seen))
				h, err := guard.Acquire(t.Context(), g.Name("a"))
				require.NoError(t, err)
				var wg sync.WaitGroup
				var order []int
				for i := range 1 + behind {
					wg.Go(func() {
						assert.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
							order = append(order, i)
							if i == 0 && behind == 0 {
								assert.True(t, granted[fence.From(ctx)], "the first token of its own grant")
								assert.Greater(t, fence.From(ctx), h.Token())
							}
							return ctx.Err()
						}))
					})
					synctest.Wait()
				}
				guard.HandOnALostLease(h)
				wg.Wait()
				if behind == 0 {
					assert.Equal(t, []int{0}, order)
				} else {
					assert.Equal(t, []int{1, 0, 2, 3}, order)
				}
				assert.NotContains(t, seen.kinds(), guard.Lost)
			})
		})
	}
}

// handedOn is an observer of hand-offs.
type handedOn func()

func (handedOn) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }
func (handedOn) End(context.Context, guard.Outcome)                      {}
func (f handedOn) Event(_ context.Context, e guard.Event) {
	if e.Kind == guard.HandedOn {
		f()
	}
}

func TestLossInAHandOffChainEndsTheCurrentHolderAndNobodyGetsAStaleToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		var granted guard.Lease
		store.acquire = func(ctx context.Context, r guard.Request) (l guard.Lease, err error) {
			granted, err = store.Locker.Acquire(ctx, r)
			return granted, err
		}
		var last fence.Token
		i := 0
		g := newGuard(t, store, guard.TTL(time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
					assert.Greater(t, fence.From(ctx), last)
					last = fence.From(ctx)
					if i++; i != 3 {
						return nil
					}
					require.NoError(t, store.Locker.Release(t.Context(), granted)) // an operator breaks the lease
					stolen := rival(t, store.Locker, "a", time.Second)
					last = stolen.Token + 63
					err := untilDone(ctx)
					assert.ErrorIs(t, err, guard.ErrLost)
					return nil
				})
				if err != nil {
					assert.ErrorIs(t, err, guard.ErrLost)
				}
			})
			synctest.Wait()
		}
		require.NoError(t, h.Release())
		wg.Wait()
		assert.Equal(t, 10, i, "the others go on with a fresh owner")
	})
}

func TestCancelledWaiterLeavesTheLineAndTheOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		l := rival(t, store, "a", time.Hour)
		var wg sync.WaitGroup
		var order []int
		var cancels []context.CancelFunc
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			wg.Go(func() {
				err := guard.Do(ctx, g.Name("a"), func(context.Context) error { order = append(order, i); return nil })
				if i%2 == 0 {
					assert.ErrorIs(t, err, context.Canceled)
					assert.ErrorIs(t, err, guard.ErrHeld)
				}
			})
			synctest.Wait()
		}
		asked := store.acquires.Load()
		for i := 0; i < 6; i += 2 {
			cancels[i]() // the first one is the line's asker
		}
		synctest.Wait()
		assert.Equal(t, asked, store.acquires.Load(), "the next asker goes on waiting where the first one stopped")
		require.NoError(t, store.Locker.Release(t.Context(), l))
		wg.Wait()
		assert.Equal(t, []int{1, 3, 5}, order)
		require.NoError(t, g.Close(t.Context()))
		assert.True(t, free(t, store, "a"))
		for _, c := range cancels {
			c()
		}
	})
}

func TestGrantInTheMomentOfCancelIsNeverLost(t *testing.T) {
	for round := range 200 {
		bubble(t, func(t *testing.T) {
			store := newFaults()
			g := newGuard(t, store)
			h, err := guard.Acquire(t.Context(), g.Name("a"))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ran := false
			done := make(chan error)
			go func() {
				done <- guard.Do(ctx, g.Name("a"), func(ctx context.Context) error { ran = true; return nil })
			}()
			synctest.Wait()
			go cancel()
			go func() { _ = h.Release() }()
			err = <-done
			assert.Equal(t, ran, err == nil, fmt.Sprint(round, err))
			require.NoError(t, g.Close(t.Context()))
			assert.True(t, free(t, store, "a"))
		})
	}
}

func TestMaxWaitersRefusesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.MaxWaiters(2))
		rival(t, store, "a", time.Minute)
		done := make(chan error)
		for range 2 {
			go func() { done <- guard.Do(t.Context(), g.Name("a"), nothing) }()
			synctest.Wait()
		}
		start := time.Now()
		require.ErrorIs(t, guard.Do(t.Context(), g.Name("a"), nothing), guard.ErrHeld)
		assert.Zero(t, time.Since(start))
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.NoError(t, g.Close(t.Context()))
	})
}
