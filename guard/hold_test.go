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
