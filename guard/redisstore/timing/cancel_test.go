package timing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/retry"
)

// A call is cancelled while its request is on the wire: the server grants what
// nobody hears of.
func TestACallCancelledOnTheWireLeavesNothing(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	for _, contended := range []bool{false, true} {
		t.Run(fmt.Sprintf("contended=%v", contended), func(t *testing.T) {
			var over, free, next durations
			spread(100, 20, func(i int) {
				p := redistest.NewProxy(t, s.Addr())
				g, rival := newGuard(t, p.Client(t)), newGuard(t, direct)
				name := redistest.Unique(t)
				p.Delay(0, 300*time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				end := time.Now().Add(rand.N(700 * time.Millisecond))
				stop := time.AfterFunc(time.Until(end), cancel)
				defer stop.Stop()
				if contended {
					held, err := guard.Acquire(t.Context(), rival.Name(name))
					if assert.NoError(t, err) {
						time.AfterFunc(rand.N(700*time.Millisecond), func() { assert.NoError(t, held.Release()) })
					}
				}
				ran := false
				err := guard.Do(ctx, g.Name(name), func(ctx context.Context) error {
					ran = true
					<-ctx.Done()
					return ctx.Err()
				})
				left := time.Now()
				if assert.ErrorIs(t, err, context.Canceled) && !ran {
					over.add(left.Sub(end))
				}
				p.Pass()                       // the replies are read now
				free.add(soon(t, func() bool { // of us: the rival may still hold it
					if contended {
						return direct.Exists(context.Background(), leaseKey(name)+":q").Val() == 0
					}
					return gone(direct, name)
				}))
				assert.NoError(t, guard.Do(t.Context(), rival.Name(name), nothing))
				next.add(time.Since(left))
			})
			over.within(t, 50*time.Millisecond)
			free.within(t, time.Second)
			next.within(t, time.Second)
			for key := range s.Keys("lock:{") {
				assert.Regexp(t, `\}:(fence|x:.*)$`, key, "left behind")
			}
		})
	}
}

func TestADeadContextSendsNothing(t *testing.T) {
	s := redistest.Start(t)
	g := newGuard(t, s.Client(t))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	s.ResetStats()
	for _, ctx := range []context.Context{cancelled, past} {
		err := guard.Do(ctx, g.Name("x"), func(context.Context) error { t.Error("fn ran"); return nil })
		require.ErrorIs(t, err, ctx.Err())
		_, err = guard.Try(ctx, g.Name("x"), nothing)
		require.ErrorIs(t, err, ctx.Err())
	}
	assert.Empty(t, s.CommandStats())
}

// A waiter that polls seldom still leaves at once.
func TestAWaiterLeavesAtOnce(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	for _, polls := range []bool{false, true} {
		t.Run(fmt.Sprintf("polls=%v", polls), func(t *testing.T) {
			p := redistest.NewProxy(t, s.Addr())
			if polls {
				p.Answer(redistest.Match{Command: "SUBSCRIBE", Times: -1}, "-NOPERM no channels")
			}
			g := newGuard(t, p.Client(t), guard.Backoff(retry.Constant(10*time.Second)))
			held, err := guard.Acquire(t.Context(), newGuard(t, direct).Name("x"))
			require.NoError(t, err)
			var over durations
			spread(20, 20, func(int) {
				ctx, cancel := context.WithCancel(t.Context())
				end := time.Now().Add(300 * time.Millisecond)
				time.AfterFunc(300*time.Millisecond, cancel)
				err := guard.Do(ctx, g.Name("x"), func(context.Context) error { t.Error("fn ran"); return nil })
				over.add(time.Since(end))
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, guard.ErrHeld)
			})
			over.within(t, 50*time.Millisecond)
			require.NoError(t, held.Release())
		})
	}
}

// The context ends in the instant of the grant.
func TestAContextThatEndsWithTheGrantIsNeverHalfAnAnswer(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	g := newGuard(t, direct)
	boom := errors.New("boom")
	spread(1000, 8, func(i int) {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(600*time.Microsecond))
		defer cancel()
		ran := false
		err := guard.Do(ctx, g.Name(fmt.Sprint(i)), func(ctx context.Context) error {
			ran = true
			assert.True(t, guard.Holds(ctx, g.Name(fmt.Sprint(i))))
			return boom
		})
		if ran {
			assert.Equal(t, boom, err)
		} else {
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
	soon(t, func() bool { return len(direct.Keys(t.Context(), "lock:{*}").Val()) == 0 })
}

// How long a call waits has nothing to do with the TTL.
func TestWaitingIsNotLimitedByTheTTL(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	a := newGuard(t, direct, guard.TTL(500*time.Millisecond))
	held, err := guard.Acquire(t.Context(), a.Name("x"))
	require.NoError(t, err)
	released := time.Now().Add(2 * time.Second)
	time.AfterFunc(2*time.Second, func() { assert.NoError(t, held.Release()) })
	b := newGuard(t, direct, guard.TTL(500*time.Millisecond))
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = guard.Do(short, b.Name("x"), nothing)
	require.ErrorIs(t, err, guard.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	assert.Less(t, took(start), 350*time.Millisecond)
	long, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var waited durations
	spread(2, 2, func(i int) {
		ctx := []context.Context{long, t.Context()}[i]
		assert.NoError(t, guard.Do(ctx, b.Name("x"), func(context.Context) error {
			waited.add(time.Since(released))
			return nil
		}))
	})
	waited.within(t, 250*time.Millisecond)
}

// However fn ends, the next process enters soon.
func TestTheNameIsFreeHoweverTheWorkEnds(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	for how, end := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic("boom") },
		"map":    func() { var m map[string]int; m["x"] = 1 }, //nolint:staticcheck // on purpose
		"Goexit": runtime.Goexit,
	} {
		t.Run(how, func(t *testing.T) {
			var free, next durations
			spread(20, 10, func(int) {
				a, b := newGuard(t, direct), newGuard(t, direct)
				name := redistest.Unique(t)
				var ended time.Time
				var entered time.Time
				done, over := make(chan error, 1), make(chan any, 1)
				go func() {
					defer func() { over <- recover() }()
					_ = guard.Do(t.Context(), a.Name(name), func(context.Context) error {
						go func() {
							done <- guard.Do(t.Context(), b.Name(name), func(context.Context) error { entered = time.Now(); return nil })
						}()
						waits(t, direct, name, 1)
						ended = time.Now()
						end()
						return nil
					})
				}()
				reason := <-over
				free.add(time.Since(ended))
				switch how {
				case "panic":
					assert.Equal(t, "boom", reason)
				case "map":
					assert.ErrorContains(t, reason.(error), "nil map")
				default:
					assert.Nil(t, reason)
				}
				assert.NoError(t, <-done)
				next.add(entered.Sub(ended))
			})
			free.within(t, 100*time.Millisecond)
			next.within(t, 250*time.Millisecond)
		})
	}
}
