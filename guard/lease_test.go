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
