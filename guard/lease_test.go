package guard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

func TestWorkEndsAtTheLocalDeadlineWhenNoAnswerComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(ctx context.Context, _ guard.Lease) (guard.Lease, error) { return guard.Lease{}, hang(ctx) }
		g := newGuard(t, store, guard.TTL(10*time.Second))
		start := time.Now()
		err := guard.Do(t.Context(), g.Name("a"), untilDone)
		assert.Equal(t, 9900*time.Millisecond, time.Since(start), "TTL less 1 %, from before the request")
		var lost *guard.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, guard.LostDeadline, lost.Reason)
		assert.ErrorIs(t, err, guard.ErrLost)
	})
}

func TestDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			sent := time.Now()
			time.Sleep(4 * time.Second)
			l, err := store.Locker.Acquire(ctx, r)
			l.Since, l.Until = sent, guard.Until(sent, r.TTL)
			return l, err
		}
		store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, broken() }
		g := newGuard(t, store, guard.TTL(10*time.Second))
		start := time.Now()
		err := guard.Do(t.Context(), g.Name("a"), untilDone)
		assert.Equal(t, 9900*time.Millisecond, time.Since(start))
		assert.ErrorIs(t, err, guard.ErrLost)
		assert.ErrorIs(t, err, errNetwork, "the loss says what renewals failed with")
	})
}

func TestGrantThatArrivesTooLateIsUndoneAndAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		slow := true
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			sent := time.Now()
			l, err := store.Locker.Acquire(ctx, r)
			if slow {
				time.Sleep(r.TTL)
				slow = false
			}
			l.Since, l.Until = sent, guard.Until(sent, r.TTL)
			return l, err
		}
		g := newGuard(t, store, guard.TTL(time.Second))
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			assert.NoError(t, ctx.Err())
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()))
		assert.True(t, free(t, store, "a"))
	})
}

func TestRenewalEveryThirdOfTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		var at []time.Duration
		last := time.Now()
		store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
			at = append(at, time.Since(last))
			last = time.Now()
			return store.Locker.Renew(ctx, l)
		}
		g := newGuard(t, store, guard.TTL(30*time.Second))
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		})
		require.NoError(t, err)
		require.NotEmpty(t, at)
		assert.InDelta(t, 60, len(at), 7)
		for _, d := range at {
			assert.InDelta(t, 10*time.Second, d, float64(time.Second)+1)
		}
	})
}

func TestRenewalGoesOnUntilTheWorkEndsNotUntilTheCallerLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(3*time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		err := guard.Do(ctx, g.Name("a"), func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			time.Sleep(time.Minute) // draining
			assert.False(t, free(t, store, "a"))
			return ctx.Err()
		})
		assert.Equal(t, context.Canceled, err, "the error of fn alone: the lease stood")
		assert.True(t, free(t, store, "a"), "released although the caller's context had ended")
	})
}

func TestOneFailedRenewalIsNotALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		start := time.Now()
		var tries []time.Duration
		store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
			tries = append(tries, time.Since(start))
			if time.Since(start) < 1800*time.Millisecond {
				return guard.Lease{}, broken()
			}
			return store.Locker.Renew(ctx, l)
		}
		g := newGuard(t, store, guard.TTL(3*time.Second))
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			time.Sleep(8 * time.Second)
			return ctx.Err()
		})
		require.NoError(t, err)
		for i := 1; tries[i] < 1800*time.Millisecond; i++ {
			assert.LessOrEqual(t, tries[i]-tries[i-1], 500*time.Millisecond, "tried again within half an interval")
		}
	})
}

func TestSilentRenewalIsFollowedByAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
			if store.renews.Load() == 1 {
				return guard.Lease{}, hang(ctx) // its reply was lost
			}
			return store.Locker.Renew(ctx, l)
		}
		g := newGuard(t, store, guard.TTL(3*time.Second))
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			time.Sleep(10 * time.Second)
			return ctx.Err()
		})
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()), "the hanging renewal ended with the hold")
	})
}

func TestLossEndsTheWorkAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name   string
		steal  func(t *testing.T, store guard.Locker, l guard.Lease)
		reason string
	}{
		{"gone", func(t *testing.T, store guard.Locker, l guard.Lease) {
			require.NoError(t, store.Release(t.Context(), l))
		}, guard.LostGone},
		{"taken", func(t *testing.T, store guard.Locker, l guard.Lease) {
			require.NoError(t, store.Release(t.Context(), l))
			rival(t, store, "a", time.Hour)
		}, guard.LostTaken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newFaults()
				var lease guard.Lease
				store.acquire = func(ctx context.Context, r guard.Request) (l guard.Lease, err error) {
					lease, err = store.Locker.Acquire(ctx, r)
					return lease, err
				}
				g := newGuard(t, store, guard.TTL(3*time.Second))
				start := time.Now()
				v, err := guard.Value(t.Context(), g.Name("a"), func(ctx context.Context) (int, error) {
					tc.steal(t, store.Locker, lease)
					err := untilDone(ctx)
					assert.InDelta(t, time.Second, time.Since(start), float64(101*time.Millisecond), "at the next renewal")
					assert.False(t, guard.Holds(ctx, g.Name("a")))
					assert.ErrorIs(t, err, guard.ErrLost)
					return 7, nil
				})
				var lost *guard.LostError
				require.ErrorAs(t, err, &lost)
				assert.Equal(t, tc.reason, lost.Reason)
				assert.Equal(t, lease.Token, lost.Token)
				assert.Equal(t, 7, v, "the value comes with the loss")
				require.NoError(t, g.Close(t.Context()))
				assert.Equal(t, tc.reason == guard.LostGone, free(t, store.Locker, "a"), "a rival's lease is not touched")
			})
		})
	}
}

func TestAnswerAfterTheDeadlineDoesNotResurrect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
			l, err := store.Locker.Renew(ctx, l)
			time.Sleep(5 * time.Second) // longer than the lease
			return l, err
		}
		g := newGuard(t, store, guard.TTL(3*time.Second))
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			time.Sleep(2970*time.Millisecond - 1)
			assert.NoError(t, ctx.Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
			time.Sleep(10 * time.Second)
			assert.False(t, guard.Holds(ctx, g.Name("a")))
			return nil
		})
		assert.ErrorIs(t, err, guard.ErrLost)
	})
}

func TestGatesReadTheClockNotATimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, broken() }
		g := newGuard(t, store, guard.TTL(time.Second))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		assert.True(t, guard.Holds(h.Context(), g.Name("a")))
		time.Sleep(990 * time.Millisecond)
		assert.False(t, guard.Holds(h.Context(), g.Name("a")), "at the deadline itself, whichever timer runs first")
		assert.ErrorIs(t, context.Cause(h.Context()), guard.ErrLost)
		assert.ErrorIs(t, h.Release(), guard.ErrLost)
	})
}

func TestPanicKeepsItsValueAndReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		boom := errors.New("boom")
		assert.PanicsWithValue(t, boom, func() {
			_ = guard.Do(t.Context(), g.Name("a"), func(context.Context) error { panic(boom) })
		})
		assert.True(t, free(t, store, "a"))
		assert.PanicsWithValue(t, boom, func() {
			_, _ = guard.Value(t.Context(), g.Name("a"), func(context.Context) (int, error) { panic(boom) })
		})
		assert.PanicsWithValue(t, boom, func() {
			_, _ = guard.Try(t.Context(), g.Name("a"), func(context.Context) error { panic(boom) })
		})
		assert.True(t, free(t, store, "a"))
	})
}

func TestGoexitReleasesAndEndsTheGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store)
		done, returned := make(chan struct{}), false
		go func() {
			defer close(done)
			_ = guard.Do(t.Context(), g.Name("a"), func(context.Context) error {
				runtime.Goexit()
				return nil
			})
			returned = true
		}()
		<-done
		assert.False(t, returned)
		assert.True(t, free(t, store, "a"))
	})
}

func TestMaxHoldEndsTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.TTL(time.Second), guard.MaxHold(3*time.Second))
		start := time.Now()
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			<-ctx.Done()
			assert.Equal(t, 3*time.Second, time.Since(start))
			renewals := store.renews.Load()
			time.Sleep(time.Second)
			assert.Equal(t, renewals, store.renews.Load(), "renewal ended")
			assert.True(t, free(t, store, "a"), "one TTL later the name is free although the work goes on")
			return nil
		})
		var lost *guard.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, guard.LostMaxHold, lost.Reason)
	})
}

func TestMinHoldKeepsTheNameTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		g := newGuard(t, store, guard.MinHold(5*time.Second))
		start := time.Now()
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.Zero(t, time.Since(start), "the call does not wait for it")
		time.Sleep(5*time.Second - 1)
		assert.False(t, free(t, store, "a"))
		time.Sleep(time.Nanosecond)
		assert.True(t, free(t, store, "a"))
	})
}

func TestMinHoldHoldsForTheNextGoroutineToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, newFaults(), guard.MinHold(5*time.Second))
		var at []time.Duration
		start := time.Now()
		done := make(chan error)
		for range 2 {
			go func() {
				done <- guard.Do(t.Context(), g.Name("a"), func(context.Context) error {
					at = append(at, time.Since(start))
					return nil
				})
			}()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		assert.Zero(t, at[0])
		assert.GreaterOrEqual(t, at[1], 5*time.Second)
		assert.Less(t, at[1], 5*time.Second+10*time.Millisecond)
	})
}

func TestTokensRiseAndTravelInTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, newFaults())
		var last fence.Token
		for range 5 {
			require.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
				assert.Greater(t, fence.From(ctx), last)
				last = fence.From(ctx)
				return nil
			}))
		}
	})
}

// What a store puts into a Lease comes back to it unchanged, whoever holds it.
func TestALeaseIsPassedBackAsItCame(t *testing.T) {
	for what, change := range map[string]func(*guard.Lease){
		"nothing":  func(*guard.Lease) {},
		"request":  func(l *guard.Lease) { l.Floor, l.Propose, l.Grace, l.Once = 1, 2, 3, 4 },
		"name":     func(l *guard.Lease) { l.Name, l.Label, l.Trace = "other", "label", "trace" },
		"TTL":      func(l *guard.Lease) { l.TTL *= 2 },
		"times":    func(l *guard.Lease) { l.Since, l.Until = l.Since.Add(time.Millisecond), l.Until.UTC() },
		"token":    func(l *guard.Lease) { l.Granted = l.Token - 12345 },
		"hand-off": func(l *guard.Lease) { l.HandOffs = 1000 },
		"nodes":    func(l *guard.Lease) { l.Nodes = 5 },
		"flags":    func(l *guard.Lease) { l.Waiters = true },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newFaults()
				var granted, renewed guard.Lease
				store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
					l, err := store.Locker.Acquire(ctx, r)
					change(&l)
					granted = l
					return l, err
				}
				store.renew = func(_ context.Context, l guard.Lease) (guard.Lease, error) {
					assert.Equal(t, granted, l)
					l.Since, l.Until = time.Now(), time.Now().Add(29*time.Second)
					l.Token += 5 // the store knows a higher one
					renewed = l
					return l, nil
				}
				store.release = func(_ context.Context, l guard.Lease) error {
					if renewed.Owner == "" {
						renewed = granted
					}
					assert.Equal(t, renewed, l)
					renewed = guard.Lease{}
					return nil
				}
				g := newGuard(t, store, guard.TTL(30*time.Second))
				h, err := guard.Acquire(t.Context(), g.Name("a"))
				require.NoError(t, err)
				token := h.Token()
				time.Sleep(5 * time.Second)
				require.NoError(t, h.Extend(t.Context()))
				assert.Equal(t, token, h.Token(), "a holder has one token")
				require.NoError(t, h.Release())
				h, err = guard.Acquire(t.Context(), g.Name("b"))
				require.NoError(t, err)
				other := guard.Must(g.Class("b", guard.Label("another"), guard.TTL(30*time.Second)))
				done := make(chan error)
				go func() { done <- guard.Do(t.Context(), g.Name("b"), nothing) }()
				synctest.Wait()
				require.NoError(t, h.Release())
				require.NoError(t, <-done)

				h, err = guard.Acquire(t.Context(), g.Name("b", "c"))
				require.NoError(t, err)
				go func() { done <- guard.Do(t.Context(), other.Name("c"), nothing) }()
				synctest.Wait()
				require.NoError(t, h.Release())
				require.NoError(t, <-done)
				assert.Equal(t, int32(3), store.acquires.Load())
			})
		})
	}
}
