package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

var errWork = errors.New("work failed")

// What Do returns, by what fn returned and what became of the lease.
func TestResultOfDo(t *testing.T) {
	gone := func(context.Context, guard.Lease) error { return &guard.LostError{Reason: guard.LostGone} }
	for _, tc := range []struct {
		name    string
		fn      error
		release func(ctx context.Context, l guard.Lease) error
		want    []error // all matched
		not     []error
		result  string // of the observers
	}{
		{name: "fine", result: ""},
		{name: "fn's error", fn: errWork, want: []error{errWork}, not: []error{guard.ErrLost}},
		{name: "release cannot be confirmed",
			release: func(context.Context, guard.Lease) error { return broken() }, result: "release_failed"},
		{name: "release cannot be confirmed after fn's error", fn: errWork, want: []error{errWork}, not: []error{guard.ErrUnavailable},
			release: func(context.Context, guard.Lease) error { return broken() }, result: "release_failed"},
		{name: "sole copy not ours before Until", release: gone, want: []error{guard.ErrLost}, result: "lost"},
		{name: "sole copy not ours before Until after fn's error", fn: errWork, release: gone,
			want: []error{errWork}, not: []error{guard.ErrLost}, result: "lost"},
		{name: "answer read after Until",
			release: func(ctx context.Context, l guard.Lease) error {
				time.Sleep(time.Until(l.Until))
				return gone(ctx, l)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, seen := newFaults(), &recorder{}
				store.release = tc.release
				g := newGuard(t, store, guard.TTL(time.Second), guard.Observe(seen))
				v, err := guard.Value(t.Context(), g.Name("a"), func(context.Context) (int, error) { return 7, tc.fn })
				assert.Equal(t, 7, v)
				if len(tc.want) == 0 {
					require.NoError(t, err)
				}
				for _, want := range tc.want {
					require.ErrorIs(t, err, want)
				}
				for _, not := range tc.not {
					require.NotErrorIs(t, err, not)
				}
				assert.Equal(t, tc.result, seen.last(t).ErrorType)
				require.NoError(t, g.Close(t.Context()))
			})
		})
	}
}

// The first copy of a release did its work and its answer was lost; somebody
// else has the name by the time of the second.
func TestReleaseAnsweredByAnEarlierCopyIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.release = func(ctx context.Context, l guard.Lease) error {
			err := store.Locker.Release(ctx, l)
			if store.releases.Load() == 1 {
				rival(t, store.Locker, "a", time.Hour)
				return hang(ctx)
			}
			return err
		}
		g := newGuard(t, store)
		start := time.Now()
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.Equal(t, 505*time.Millisecond, time.Since(start), "a quarter of ReleaseWithin, then again")
	})
}

func TestReleaseIsBoundedAndGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		var down atomic.Bool
		down.Store(true)
		store.release = func(ctx context.Context, l guard.Lease) error {
			if down.Load() {
				return hang(ctx)
			}
			return store.Locker.Release(ctx, l)
		}
		g := newGuard(t, store, guard.TTL(30*time.Second), guard.ReleaseWithin(2*time.Second))
		start := time.Now()
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		assert.LessOrEqual(t, time.Since(start), 2*time.Second)
		down.Store(false)
		time.Sleep(3 * time.Second)
		assert.True(t, free(t, store.Locker, "a"), "long before the lease would have ended")
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestAfterALossDoReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(ctx context.Context, _ guard.Lease) (guard.Lease, error) { return guard.Lease{}, hang(ctx) }
		store.release = func(ctx context.Context, _ guard.Lease) error { return hang(ctx) }
		g := newGuard(t, store, guard.TTL(time.Second))
		start := time.Now()
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			<-ctx.Done()
			return errWork
		})
		assert.Equal(t, 990*time.Millisecond, time.Since(start))
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, errWork)
		require.NoError(t, g.Close(t.Context()), "Close waits for the release in the background")
	})
}

func TestErrorOfTheContextIsNotDoubled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFaults()
		store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
		g := newGuard(t, store, guard.TTL(time.Second))
		err := guard.Do(t.Context(), g.Name("a"), untilDone)
		_, isLost := err.(*guard.LostError) //nolint:errorlint // it must be the very error
		assert.True(t, isLost, "%v", err)
	})
}

func TestBadInputIsRefusedBeforeAnyCommand(t *testing.T) {
	store := newFaults()
	g := newGuard(t, store)
	done, cancel := context.WithCancelCause(t.Context())
	cancel(errWork)
	long := make([]byte, 513)
	for i := range long {
		long[i] = 'x'
	}
	for _, tc := range []struct {
		name string
		ctx  context.Context
		n    guard.Name
		want []error
	}{
		{"zero name", t.Context(), guard.Name{}, []error{guard.ErrInvalid}},
		{"no part", t.Context(), g.Name(), []error{guard.ErrInvalid}},
		{"empty part", t.Context(), g.Name("a", ""), []error{guard.ErrInvalid}},
		{"too long", t.Context(), g.Name(string(long)), []error{guard.ErrInvalid}},
		{"too long together", t.Context(), g.Name(string(long[:256]), string(long[:256])), []error{guard.ErrInvalid}},
		{"ended context", done, g.Name("a"), []error{errWork, context.Canceled}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ran := func(context.Context) error { t.Error("fn ran"); return nil }
			err := guard.Do(tc.ctx, tc.n, ran)
			for _, want := range tc.want {
				require.ErrorIs(t, err, want)
			}
			_, err = guard.Try(tc.ctx, tc.n, ran)
			require.ErrorIs(t, err, tc.want[0])
			_, err = guard.Acquire(tc.ctx, tc.n)
			require.ErrorIs(t, err, tc.want[0])
			_, err = guard.Value(tc.ctx, tc.n, func(context.Context) (int, error) { return 0, ran(nil) })
			require.ErrorIs(t, err, tc.want[0])
			assert.False(t, guard.Holds(tc.ctx, tc.n))
		})
	}
	require.ErrorIs(t, guard.Do(t.Context(), g.Name("a"), nil), guard.ErrInvalid)
	assert.Zero(t, store.acquires.Load())
	require.NoError(t, guard.Do(t.Context(), g.Name(string(long[:512])), nothing), "512 bytes are fine")
}

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	for _, tc := range []struct {
		option string
		p      guard.Option
		ok     bool
	}{
		{"TTL", guard.TTL(-1), false},
		{"TTL", guard.TTL(0), false},
		{"TTL", guard.TTL(99 * time.Millisecond), false},
		{"TTL", guard.TTL(100 * time.Millisecond), true},
		{"TTL", guard.TTL(100*time.Millisecond + 1), false},
		{"TTL", guard.TTL(24 * time.Hour), true},
		{"TTL", guard.TTL(24*time.Hour + time.Millisecond), false},
		{"TTL", guard.TTL(1<<63 - 1), false},
		{"Wait", guard.Wait(0), false},
		{"Wait", guard.Wait(1), true},
		{"Wait", guard.Wait(1<<63 - 1), true},
		{"MaxWaiters", guard.MaxWaiters(0), false},
		{"MaxWaiters", guard.MaxWaiters(1), true},
		{"Backoff", guard.Backoff(nil), false},
		{"MaxHold", guard.MaxHold(0), false},
		{"MaxHold", guard.MaxHold(1<<63 - 1), true},
		{"MinHold", guard.MinHold(0), false},
		{"MinHold", guard.MinHold(24*time.Hour + 1), false},
		{"MinHold", guard.MinHold(time.Millisecond), true},
		{"ReleaseWithin", guard.ReleaseWithin(0), false},
		{"ReleaseWithin", guard.ReleaseWithin(time.Minute), true},
		{"ReleaseWithin", guard.ReleaseWithin(time.Minute + 1), false},
		{"Label", guard.Label("a\nb"), false},
		{"Label", guard.Label(string(make([]byte, 129))), false},
		{"Label", guard.Label("web-7"), true},
		{"option is nil", nil, false},
	} {
		store := newFaults()
		g, err := guard.New(store, tc.p)
		if tc.ok {
			require.NoError(t, err, tc.option)
			if tc.option != "Wait" { // 1 ns is no time to answer in
				require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing), tc.option)
			}
			continue
		}
		require.ErrorIs(t, err, guard.ErrInvalid, tc.option)
		assert.ErrorContains(t, err, tc.option)
		assert.Zero(t, store.acquires.Load())
	}
	_, err := guard.New(nil)
	require.ErrorIs(t, err, guard.ErrInvalid)
}

func TestClassRefusesWhatItCannotUse(t *testing.T) {
	g := newGuard(t, newFaults())
	for _, label := range []string{"", "a/b", "a{", "a%", "ä", string(make([]byte, 65))} {
		_, err := g.Class(label)
		require.ErrorIs(t, err, guard.ErrInvalid, "%q", label)
	}
	_, err := g.Class("order", guard.TTL(0))
	require.ErrorIs(t, err, guard.ErrInvalid)
	_, err = g.Class("order", nil)
	require.ErrorIs(t, err, guard.ErrInvalid)
	orders := guard.Must(g.Class("order"))
	_, err = orders.With(guard.Wait(-1))
	require.ErrorIs(t, err, guard.ErrInvalid)
	quick := guard.Must(orders.With(guard.NoWait()))
	assert.Equal(t, "order/42", quick.Name("42").String())
	assert.Equal(t, "order", quick.Label())
	assert.PanicsWithError(t, errWork.Error(), func() { guard.Must(g, errWork) })
}

func TestEveryErrorTellsItsType(t *testing.T) {
	for want, err := range map[string]error{
		"contended": &guard.HeldError{}, "lost": &guard.LostError{},
		"unavailable": guard.ErrUnavailable, "nested": guard.ErrNested, "closed": guard.ErrClosed,
		"unsupported": guard.ErrUnsupported, "invalid": guard.ErrInvalid,
	} {
		var typed interface{ ErrorType() string }
		require.ErrorAs(t, fmt.Errorf("deep: %w", err), &typed)
		assert.Equal(t, want, typed.ErrorType())
	}
	held := &guard.HeldError{Name: "a", Holder: "web-1", RetryIn: 2 * time.Second, Waited: time.Second}
	assert.Equal(t, `guard: "a" is held by "web-1", 2s of its lease left, waited 1s`, held.Error())
	assert.Equal(t, 2*time.Second, held.RetryAfter())
	assert.Equal(t, time.Millisecond, (&guard.HeldError{}).RetryAfter())
	assert.Contains(t, (&guard.HeldError{Foreign: true}).Error(), "another program's value")
	assert.NotErrorIs(t, held, guard.ErrUnavailable)
	assert.NotErrorIs(t, guard.ErrUnavailable, guard.ErrHeld)
}
