package guard_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

func TestObserverSeesTheCallFromBeginningToEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, seen := newFaults(), &recorder{}
		fail := true
		store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
			if fail {
				fail = false
				return guard.Lease{}, broken()
			}
			return store.Locker.Renew(ctx, l)
		}
		g := newGuard(t, store, guard.TTL(3*time.Second), guard.Observe(seen, nil))
		orders := guard.Must(g.Class("order"))
		rival(t, store, "order/42", time.Second)
		start := time.Now()
		require.NoError(t, guard.Do(t.Context(), orders.Name("42"), func(context.Context) error {
			time.Sleep(1500 * time.Millisecond)
			return nil
		}))
		assert.Equal(t, []guard.Call{{Name: "order/42", Class: "order", TTL: 3 * time.Second, At: start}}, seen.calls)
		assert.Equal(t, []guard.Kind{guard.Waiting, guard.Granted, guard.RenewFailed, guard.Renewed}, seen.kinds())
		assert.Equal(t, "rival", seen.events[0].Holder.Holder)
		assert.Positive(t, seen.events[1].Token)
		require.ErrorIs(t, seen.events[2].Err, errNetwork)
		o := seen.last(t)
		assert.Equal(t, guard.ResultAfterWait, o.Result)
		assert.Equal(t, seen.events[1].Token, o.Token)
		assert.InDelta(t, time.Second, o.Waited, float64(2*time.Millisecond))
		assert.Equal(t, 1500*time.Millisecond, o.HeldFor)
		assert.Empty(t, o.ErrorType)
	})
}

func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(t *testing.T, g *guard.Guard, store *faults)
		result string
		et     string
	}{
		{"free", func(t *testing.T, g *guard.Guard, _ *faults) {
			_ = guard.Do(t.Context(), g.Name("a"), nothing)
		}, guard.ResultAcquired, ""},
		{"fn fails", func(t *testing.T, g *guard.Guard, _ *faults) {
			_ = guard.Do(t.Context(), g.Name("a"), func(context.Context) error { return errWork })
		}, guard.ResultAcquired, ""},
		{"fn panics", func(t *testing.T, g *guard.Guard, _ *faults) {
			defer func() { _ = recover() }()
			_ = guard.Do(t.Context(), g.Name("a"), func(context.Context) error { panic(1) })
		}, guard.ResultAcquired, "panic"},
		{"try while held", func(t *testing.T, g *guard.Guard, store *faults) {
			rival(t, store, "a", time.Minute)
			_, _ = guard.Try(t.Context(), g.Name("a"), nothing)
		}, guard.ResultRefused, ""},
		{"wait is over", func(t *testing.T, g *guard.Guard, store *faults) {
			rival(t, store, "a", time.Minute)
			_ = guard.Do(t.Context(), g.Name("a").Wait(time.Second), nothing)
		}, guard.ResultTimeout, "timeout"},
		{"caller's deadline", func(t *testing.T, g *guard.Guard, store *faults) {
			rival(t, store, "a", time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = guard.Do(ctx, g.Name("a"), nothing)
		}, guard.ResultTimeout, "timeout"},
		{"caller went away", func(t *testing.T, g *guard.Guard, store *faults) {
			rival(t, store, "a", time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_ = guard.Do(ctx, g.Name("a"), nothing)
		}, guard.ResultCanceled, ""},
		{"service down", func(t *testing.T, g *guard.Guard, store *faults) {
			store.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, broken() }
			_, _ = guard.Try(t.Context(), g.Name("a"), nothing)
		}, guard.ResultFailed, "unavailable"},
		{"nested", func(t *testing.T, g *guard.Guard, _ *faults) {
			h, err := guard.Acquire(t.Context(), g.Name("a"))
			require.NoError(t, err)
			_ = guard.Do(h.Context(), g.Name("a"), nothing)
			defer func() { _ = h.Release() }()
		}, guard.ResultFailed, "nested"},
		{"closed", func(t *testing.T, g *guard.Guard, _ *faults) {
			require.NoError(t, g.Close(t.Context()))
			_ = guard.Do(t.Context(), g.Name("a"), nothing)
		}, guard.ResultFailed, "closed"},
		{"bad name", func(t *testing.T, g *guard.Guard, _ *faults) {
			_ = guard.Do(t.Context(), g.Name(""), nothing)
		}, guard.ResultFailed, "invalid"},
		{"lost", func(t *testing.T, g *guard.Guard, store *faults) {
			store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
			_ = guard.Do(t.Context(), g.Name("a"), untilDone)
		}, guard.ResultAcquired, "lost"},
		{"stale", func(t *testing.T, g *guard.Guard, _ *faults) {
			var gate fence.Gate
			_ = guard.Do(t.Context(), g.Name("a"), gate.Raise)
			h, err := guard.Acquire(t.Context(), g.Name("a"))
			require.NoError(t, err)
			late := fence.NewContext(t.Context(), fence.Grant{Name: "a", Token: h.Token() + 1000, Owner: "x"}, nil)
			require.NoError(t, gate.Raise(late))
			require.ErrorIs(t, gate.Raise(h.Context()), fence.ErrStale)
			require.NoError(t, h.Release())
		}, guard.ResultAcquired, "fence_stale"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, seen := newFaults(), &recorder{}
				g := newGuard(t, store, guard.TTL(3*time.Second), guard.Observe(seen))
				tc.do(t, g, store)
				synctest.Wait()
				i := len(seen.outcomes) - 1
				if tc.name == "nested" { // the inner call ends first
					i = 0
				}
				assert.Equal(t, tc.result, seen.outcomes[i].Result)
				assert.Equal(t, tc.et, seen.outcomes[i].ErrorType)
				assert.Len(t, seen.calls, len(seen.outcomes))
				require.NoError(t, g.Close(t.Context()))
			})
		})
	}
}

type panicking struct{}

func (panicking) Begin(context.Context, guard.Call) context.Context { panic("begin") }
func (panicking) Event(context.Context, guard.Event)                { panic("event") }
func (panicking) End(context.Context, guard.Outcome)                { panic("end") }

func TestPanickingObserverIsContained(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	store := newFaults()
	g := newGuard(t, store, guard.Observe(panicking{}))
	require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
	assert.True(t, free(t, store, "a"))
	assert.Contains(t, log.String(), "panic=begin")
	assert.Contains(t, log.String(), "panic=event")
	assert.Contains(t, log.String(), "panic=end")
}

type traced struct{ recorder }

func (t *traced) Begin(ctx context.Context, c guard.Call) context.Context {
	return guard.WithTrace(t.recorder.Begin(ctx, c), "00-holder-01")
}

func TestTraceOfTheHolderReachesTheWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, seen := newFaults(), &traced{}
		a := newGuard(t, store, guard.Observe(seen), guard.Label("web-1"))
		b := newGuard(t, store, guard.Observe(seen))
		h, err := guard.Acquire(t.Context(), a.Name("a"))
		require.NoError(t, err)
		for _, g := range []*guard.Guard{a, b} { // in the same process and in another
			err = guard.Do(t.Context(), g.Name("a").Wait(time.Second), nothing)
			var held *guard.HeldError
			require.ErrorAs(t, err, &held)
			assert.Equal(t, "00-holder-01", held.Trace)
			assert.Equal(t, "web-1", held.Holder)
			assert.Equal(t, h.Token(), held.Token)
		}
		require.NoError(t, h.Release())
		require.NoError(t, b.Close(t.Context()))
	})
}

func TestLogTellsWhatMatters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var out bytes.Buffer
		store := newFaults()
		store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		g := newGuard(t, store, guard.TTL(time.Second), guard.Observe(guard.Log(logger)))
		_ = guard.Do(t.Context(), g.Name("a"), untilDone)
		assert.Contains(t, out.String(), `level=WARN msg="lock lost" lock=a`)
		assert.Contains(t, out.String(), `level=DEBUG msg="lock granted" lock=a`)
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestKindsHaveNames(t *testing.T) {
	assert.Equal(t, "waiting", guard.Waiting.String())
	assert.Equal(t, "release_failed", guard.ReleaseFailed.String())
	assert.Equal(t, "unknown", guard.Kind(99).String())
}

// A burst on a free name: those behind the first one wait, although nobody had an
// answer when they came.
func TestWaitingBehindACallWithoutAnAnswerIsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, seen := newFaults(), &recorder{}
		store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			time.Sleep(time.Millisecond)
			return store.Locker.Acquire(ctx, r)
		}
		g := newGuard(t, store, guard.Observe(seen), guard.Label("web-1"))
		done := make(chan error)
		for _, n := range []guard.Name{g.Name("a"), g.Name("a"), g.Name("a").Wait(5 * time.Millisecond)} {
			go func() {
				done <- guard.Do(t.Context(), n, func(context.Context) error {
					time.Sleep(10 * time.Millisecond)
					return nil
				})
			}()
			synctest.Wait()
		}
		require.ErrorIs(t, <-done, guard.ErrHeld)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		results := map[string]int{}
		for _, o := range seen.outcomes {
			results[o.Result]++
		}
		assert.Equal(t, map[string]int{guard.ResultAcquired: 1, guard.ResultAfterWait: 1, guard.ResultTimeout: 1}, results)
		for _, e := range seen.events {
			if e.Kind == guard.Waiting {
				assert.Equal(t, "web-1", e.Holder.Holder)
			}
		}
		require.NoError(t, g.Close(t.Context()))
	})
}

// slow is an observer that takes its time over a grant.
type slow struct{ *recorder }

func (s slow) Event(ctx context.Context, e guard.Event) {
	if e.Kind == guard.Granted {
		time.Sleep(time.Minute)
	}
	s.recorder.Event(ctx, e)
}

func TestNothingIsToldBeforeTheGrant(t *testing.T) {
	for name, renew := range map[string]error{"renewed": nil, "failed": broken(), "lost": guard.ErrLost} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, seen := newFaults(), slow{&recorder{}}
				store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
					if renew != nil {
						return guard.Lease{}, renew
					}
					return store.Locker.Renew(ctx, l)
				}
				g := newGuard(t, store, guard.TTL(30*time.Second), guard.Observe(seen))
				err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error { return context.Cause(ctx) })
				if renew != nil {
					require.ErrorIs(t, err, guard.ErrLost)
				}
				synctest.Wait()
				kinds := seen.kinds()
				require.Greater(t, len(kinds), 1)
				assert.Equal(t, guard.Granted, kinds[0])
			})
		})
	}
}
