package guard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

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
		crowd(t, repeat(newGuard(t, store).Name("a"), 27), func(ctx context.Context) error {
			tokens = append(tokens, fence.From(ctx))
			return nil
		})
		assert.Equal(t, int32(2), store.acquires.Load(), "28 holders: the first with 13 more, and once again")
		assert.Equal(t, int32(2), store.releases.Load())
		for i := range 12 {
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
