package retry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/retry"
)

var (
	errBusy = errors.New("busy")
	errGone = errors.New("gone")
)

// attempts counts calls and fails as often as it has errors.
type attempts struct {
	n    int
	errs []error
}

func (a *attempts) do(context.Context) error {
	a.n++
	if a.n <= len(a.errs) {
		return a.errs[a.n-1]
	}
	return nil
}

type askedForError time.Duration

func (a askedForError) Error() string             { return "come back later" }
func (a askedForError) RetryAfter() time.Duration { return time.Duration(a) }

// took runs f on fake time.
func took(t *testing.T, want time.Duration, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f(t)
		assert.Equal(t, want, time.Since(start))
	})
}

func TestDoRepeatsUntilItWorks(t *testing.T) {
	took(t, 30*ms, func(t *testing.T) {
		a := attempts{errs: []error{errBusy, errGone}}
		require.NoError(t, retry.Do(t.Context(), retry.Exponential(10*ms, time.Second, 2), a.do))
		assert.Equal(t, 3, a.n)
	})
}

func TestDoReturnsTheLastErrorWhenThePolicyStops(t *testing.T) {
	took(t, 20*ms, func(t *testing.T) {
		a := attempts{errs: []error{errBusy, errBusy, errGone, errBusy}}
		assert.Equal(t, errGone, retry.Do(t.Context(), retry.Constant(10*ms).Attempts(3), a.do))
		assert.Equal(t, 3, a.n)
	})
}

func TestWithoutAPolicyThereIsOneAttempt(t *testing.T) {
	for _, p := range []retry.Policy{nil, func() retry.Backoff { return nil }, retry.From(nil)} {
		took(t, 0, func(t *testing.T) {
			a := attempts{errs: []error{errBusy, errBusy}}
			assert.Equal(t, errBusy, retry.Do(t.Context(), p, a.do))
			assert.Equal(t, 1, a.n)
		})
	}
}

func TestElapsedCountsFromTheStartAndIncludesTheWork(t *testing.T) {
	took(t, 70*ms, func(t *testing.T) {
		n := 0
		err := retry.Do(t.Context(), retry.Constant(10*ms).Elapsed(70*ms), func(context.Context) error {
			n++
			time.Sleep(30 * ms)
			return errBusy
		})
		assert.Equal(t, errBusy, err)
		assert.Equal(t, 2, n, "begun at 0 and 40 ms; a third would begin at 80 ms")
	})
}

func TestBackoffOfZeroIsNoBusyLoop(t *testing.T) {
	took(t, 100*ms, func(t *testing.T) {
		a := attempts{errs: make([]error, 100)}
		for n := range a.errs {
			a.errs[n] = errBusy
		}
		require.NoError(t, retry.Do(t.Context(), func() retry.Backoff { return &backoff.ZeroBackOff{} }, a.do))
	})
}

func TestPermanentErrorEndsAtOnce(t *testing.T) {
	outside := fmt.Errorf("saving: %w", retry.Permanent(errGone))
	for _, tc := range []struct {
		name      string
		err, want error
	}{
		{"mark is taken off", retry.Permanent(errGone), errGone},
		{"both of two marks", retry.Permanent(retry.Permanent(errGone)), errGone},
		{"wrapped further stays whole", outside, outside},
		{"mark of backoff/v4", backoff.Permanent(errGone), errGone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			took(t, 10*ms, func(t *testing.T) {
				a := attempts{errs: []error{errBusy, tc.err, errBusy}}
				err := retry.Do(t.Context(), retry.Constant(10*ms), a.do)
				assert.Equal(t, tc.want, err)
				require.ErrorIs(t, err, errGone)
				assert.Equal(t, 2, a.n)
			})
		})
	}
	require.NoError(t, retry.Permanent(nil))
}

func TestNextAttemptIsNotEarlierThanRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		err    error
		want   time.Duration
	}{
		{"pause on top", retry.Constant(10 * ms), askedForError(time.Second), 1010 * ms},
		{"wrapped", retry.Constant(10 * ms), fmt.Errorf("saving: %w", askedForError(time.Second)), 1010 * ms},
		{"in fractions of a millisecond", retry.Constant(10 * ms), askedForError(time.Microsecond), 10*ms + time.Microsecond},
		{"beyond the cap", retry.Constant(time.Minute).Cap(10 * ms), askedForError(time.Second), 1010 * ms},
		{"zero", retry.Constant(10 * ms), askedForError(0), 10 * ms},
		{"negative", retry.Constant(10 * ms), askedForError(-time.Second), 10 * ms},
		{"a foreign backoff", script(10 * ms), askedForError(time.Second), 1010 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			took(t, tc.want, func(t *testing.T) {
				a := attempts{errs: []error{tc.err}}
				require.NoError(t, retry.Do(t.Context(), tc.policy, a.do))
			})
		})
	}
}

func TestThoseWhoWereToldTheSameTimeAreStillSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, policy := time.Now(), retry.Constant(250*ms).FullJitter()
		var mu sync.Mutex
		var wg sync.WaitGroup
		slots := map[int64]int{} // of 10 ms each
		for range 50 {
			wg.Go(func() {
				a := attempts{errs: []error{askedForError(time.Second)}}
				assert.NoError(t, retry.Do(t.Context(), policy, a.do))
				mu.Lock()
				defer mu.Unlock()
				slots[time.Since(start).Milliseconds()/10]++
			})
		}
		wg.Wait()
		for slot, n := range slots {
			assert.LessOrEqual(t, n, 15)
			assert.GreaterOrEqual(t, slot, time.Second.Milliseconds()/10)
		}
	})
}

func TestElapsedHoldsForRetryAfterToo(t *testing.T) {
	limit := func(p retry.Policy) retry.Policy { return p.Elapsed(5 * time.Second) }
	for name, p := range map[string]retry.Policy{
		"outermost":     limit(retry.Constant(10 * ms)),
		"below another": limit(retry.Constant(10 * ms)).Attempts(9).Cap(ms).EqualJitter().Elapsed(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			for _, ask := range []time.Duration{5 * time.Second, 6 * time.Second, forever} {
				took(t, 0, func(t *testing.T) {
					a := attempts{errs: []error{askedForError(ask)}}
					assert.Equal(t, askedForError(ask), retry.Do(t.Context(), p, a.do))
				})
			}
		})
	}
	took(t, 6*time.Second, func(t *testing.T) {
		a := attempts{errs: []error{askedForError(forever)}}
		err := retry.Do(t.Context(), limit(retry.Constant(10*ms)), func(ctx context.Context) error {
			time.Sleep(6 * time.Second)
			return a.do(ctx)
		})
		assert.Equal(t, askedForError(forever), err, "asked for when the limit has passed already")
	})
	took(t, 5*time.Second, func(t *testing.T) {
		a := attempts{errs: []error{askedForError(4990 * ms)}}
		require.NoError(t, retry.Do(t.Context(), limit(retry.Constant(10*ms)), a.do))
	})
}

func TestEndOfContextEndsAPauseAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
	}{{"long pause", errBusy}, {"longest RetryAfter", askedForError(forever)}} {
		t.Run(tc.name, func(t *testing.T) {
			took(t, 70*ms, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(70*ms, func() { cancel(errGone) })
				a := attempts{errs: []error{tc.err}}
				err := retry.Do(ctx, retry.Constant(forever), a.do)
				require.ErrorIs(t, err, tc.err)
				require.ErrorIs(t, err, errGone)
				require.ErrorIs(t, err, context.Canceled)
				require.EqualError(t, err, "retry: gone after: "+tc.err.Error())
				assert.Equal(t, 1, a.n)
			})
		})
	}
}

func TestDeadlineEndsAPauseAtOnce(t *testing.T) {
	took(t, 70*ms, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 70*ms)
		defer cancel()
		a := attempts{errs: []error{errBusy}}
		err := retry.Do(ctx, retry.Constant(time.Hour), a.do)
		require.ErrorIs(t, err, errBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestEndOfContextDuringAnAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	fail := func(err error) func(context.Context) error {
		return func(context.Context) error { cancel(errGone); return err }
	}
	t.Run("a success counts", func(t *testing.T) {
		require.NoError(t, retry.Do(ctx, retry.Default, fail(nil)))
	})
	t.Run("a failure is told together with the cause", func(t *testing.T) {
		ctx, cancel = context.WithCancelCause(t.Context())
		err := retry.Do(ctx, retry.Constant(time.Hour), fail(errBusy))
		require.ErrorIs(t, err, errBusy)
		require.ErrorIs(t, err, errGone)
	})
	t.Run("so is the failure of the last attempt", func(t *testing.T) {
		ctx, cancel = context.WithCancelCause(t.Context())
		err := retry.Do(ctx, nil, fail(errBusy))
		require.ErrorIs(t, err, errBusy)
		require.ErrorIs(t, err, errGone)
	})
	t.Run("a permanent failure comes alone", func(t *testing.T) {
		ctx, cancel = context.WithCancelCause(t.Context())
		assert.Equal(t, errBusy, retry.Do(ctx, retry.Default, fail(retry.Permanent(errBusy))))
	})
	t.Run("an error that says it all is not wrapped", func(t *testing.T) {
		ctx, cancel = context.WithCancelCause(t.Context())
		all := errors.Join(errGone, context.Canceled)
		assert.Equal(t, all, retry.Do(ctx, retry.Default, fail(all)))
	})
}

func TestEndedContextGetsNoAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	a := attempts{}
	err := retry.Do(ctx, retry.Default, a.do)
	require.ErrorIs(t, err, errGone)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "retry: gone before the first attempt")
	assert.Zero(t, a.n)
}

func TestValueReturnsWhatCameWithTheLastAttempt(t *testing.T) {
	took(t, 20*ms, func(t *testing.T) {
		n := 0
		count := func(limit int) func(context.Context) (int, error) {
			return func(context.Context) (int, error) {
				if n++; n < limit {
					return n, errBusy
				}
				return n, nil
			}
		}
		v, err := retry.Value(t.Context(), retry.Constant(10*ms), count(3))
		require.NoError(t, err)
		assert.Equal(t, 3, v)

		v, err = retry.Value(t.Context(), nil, count(9))
		assert.Equal(t, errBusy, err)
		assert.Equal(t, 4, v)
	})
}

func TestPanicAndGoexitPassThrough(t *testing.T) {
	assert.PanicsWithValue(t, "boom", func() {
		_ = retry.Do(t.Context(), retry.Default, func(context.Context) error { panic("boom") })
	})
	returned := make(chan bool, 1)
	go func() {
		after := false
		defer func() { returned <- after }()
		_ = retry.Do(t.Context(), retry.Default, func(context.Context) error { runtime.Goexit(); return nil })
		after = true
	}()
	assert.False(t, <-returned)
}

func TestEveryDoGetsARunOfItsOwn(t *testing.T) {
	took(t, 20*ms, func(t *testing.T) {
		policy := retry.Constant(10 * ms).Attempts(3)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				a := attempts{errs: []error{errBusy, errBusy}}
				assert.NoError(t, retry.Do(t.Context(), policy, a.do))
			})
		}
		wg.Wait()
	})
}

func BenchmarkDefaultRun(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		retry.Default().NextBackOff()
	}
}

func BenchmarkDoAtFirstAttempt(b *testing.B) {
	b.ReportAllocs()
	work := func(context.Context) error { return nil }
	for b.Loop() {
		_ = retry.Do(context.Background(), retry.Default, work)
	}
}
