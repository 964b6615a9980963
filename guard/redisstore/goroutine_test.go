package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// However a call ends, no goroutine outlives it for long. Not parallel: the
// goroutines of others would count.
func TestNoGoroutineIsLeftByAnyOutcome(t *testing.T) {
	boom := errors.New("boom")
	ended := func(within time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), within)
	}
	pass := func(p *redistest.Proxy) func() { return p.Pass }
	for _, tc := range []struct {
		name   string
		rounds int
		spoil  func(t *testing.T, p *redistest.Proxy) (undo func())
		do     func(t *testing.T, g *guard.Guard, i int)
	}{
		{"success", 300, nil, func(t *testing.T, g *guard.Guard, i int) {
			assert.NoError(t, guard.Do(t.Context(), g.Name(fmt.Sprint(i)), nothing))
		}},
		{"error", 300, nil, func(t *testing.T, g *guard.Guard, i int) {
			assert.ErrorIs(t, guard.Do(t.Context(), g.Name(fmt.Sprint(i)), func(context.Context) error { return boom }), boom)
		}},
		{"panic", 100, nil, func(t *testing.T, g *guard.Guard, i int) {
			assert.PanicsWithValue(t, boom, func() {
				_ = guard.Do(t.Context(), g.Name(fmt.Sprint(i)), func(context.Context) error { panic(boom) })
			})
		}},
		{"Goexit", 100, nil, func(t *testing.T, g *guard.Guard, i int) {
			var wg sync.WaitGroup
			wg.Go(func() {
				_ = guard.Do(t.Context(), g.Name(fmt.Sprint(i)), func(context.Context) error { runtime.Goexit(); return nil })
			})
			wg.Wait()
		}},
		{"busy", 300, nil, func(t *testing.T, g *guard.Guard, _ int) {
			ran, err := guard.Try(t.Context(), g.Name("held"), nothing)
			assert.False(t, ran)
			assert.NoError(t, err)
		}},
		{"cancelled while waiting", 300, nil, func(t *testing.T, g *guard.Guard, i int) {
			ctx, cancel := ended(time.Duration(i%20) * time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, guard.Do(ctx, g.Name("held"), nothing), context.DeadlineExceeded)
		}},
		{"cancelled while asking", 60, func(_ *testing.T, p *redistest.Proxy) func() {
			p.Delay(0, 20*time.Millisecond)
			return pass(p)
		}, func(t *testing.T, g *guard.Guard, i int) {
			ctx, cancel := ended(5 * time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, guard.Do(ctx, g.Name(fmt.Sprint("a", i)), nothing), context.DeadlineExceeded)
		}},
		{"lost", 60, nil, func(t *testing.T, g *guard.Guard, i int) {
			name := g.Name("lost", fmt.Sprint(i))
			err := guard.Do(t.Context(), name, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
			assert.ErrorIs(t, err, guard.ErrLost)
		}},
		{"release failed", 20, func(t *testing.T, p *redistest.Proxy) func() {
			a, b := p.Cut(every(call(t, "release"))), p.Cut(every(call(t, "leave")))
			return func() { a.End(); b.End() }
		}, func(t *testing.T, g *guard.Guard, i int) {
			assert.NoError(t, guard.Do(t.Context(), g.Name(fmt.Sprint("r", i)), nothing))
		}},
		{"down", 30, func(_ *testing.T, p *redistest.Proxy) func() {
			p.Stall()
			return func() { p.Pass(); p.Reset() }
		}, func(t *testing.T, g *guard.Guard, i int) {
			ctx, cancel := ended(20 * time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, guard.Do(ctx, g.Name(fmt.Sprint("d", i)), nothing), context.DeadlineExceeded)
		}},
		{"closed with waiters", 50, nil, func(t *testing.T, g *guard.Guard, _ int) {
			assert.ErrorIs(t, guard.Do(t.Context(), g.Name("held"), nothing), guard.ErrClosed)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			redistest.Goroutines(t)
			s := redistest.Start(t)
			direct := s.Client(t)
			load(t, direct)
			p := redistest.NewProxy(t, s.Addr())
			// Not newGuard: here it is closed in the middle of the test.
			g, err := guard.New(newStore(t, p.Client(t)), guard.TTL(300*time.Millisecond), guard.ReleaseWithin(50*time.Millisecond))
			require.NoError(t, err)
			rival, err := guard.Acquire(t.Context(), newGuard(t, direct).Name("held"))
			require.NoError(t, err)
			undo := func() {}
			if tc.spoil != nil {
				undo = tc.spoil(t, p)
			}
			var work sync.WaitGroup
			for w := range 10 {
				work.Go(func() {
					for i := w; i < tc.rounds; i += 10 {
						tc.do(t, g, i)
					}
				})
			}
			switch tc.name {
			case "closed with waiters":
				isQueued(t, direct, "held", 1)
				require.NoError(t, g.Close(t.Context()))
			case "lost":
				stop := make(chan struct{})
				gone := make(chan struct{})
				go func() { work.Wait(); close(stop) }()
				go func() {
					defer close(gone)
					for {
						select {
						case <-stop:
							return
						case <-time.After(5 * time.Millisecond):
						}
						for key := range s.Keys("lock:{lost/") {
							if key[len(key)-1] == '}' {
								direct.Del(context.Background(), key)
							}
						}
					}
				}()
				<-gone
			}
			work.Wait()
			undo()
			require.NoError(t, rival.Release())
			ctx, cancel := ended(10 * time.Second)
			defer cancel()
			require.NoError(t, g.Close(ctx))
			require.ErrorIs(t, guard.Do(t.Context(), g.Name("x"), nothing), guard.ErrClosed)
			nothingLeft(t, s, "")
		})
	}
}
