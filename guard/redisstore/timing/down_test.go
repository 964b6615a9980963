package timing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// failures are ways in which a lock service does not answer.
var failures = map[string]func(p *redistest.Proxy) (undo func()){
	"refused":    func(p *redistest.Proxy) func() { p.Refuse(); p.Reset(); return p.Pass },
	"black hole": func(p *redistest.Proxy) func() { p.Stall(); return p.Pass },
	"loading": func(p *redistest.Proxy) func() {
		return p.Answer(redistest.Match{Command: "EVALSHA EVAL", Times: -1}, "-LOADING Redis is loading the dataset in memory").End
	},
}

func TestADeadServerIsNeitherAHangNorBusy(t *testing.T) {
	s := redistest.Start(t)
	for how, fail := range failures {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var atDeadline, tried, back durations
			spread(20, 20, func(int) {
				p := redistest.NewProxy(t, s.Addr())
				g := newGuard(t, p.Client(t))
				name := g.Name(redistest.Unique(t))
				assert.NoError(t, guard.Do(t.Context(), name, nothing))
				undo := fail(p)
				defer undo()
				reached := func(context.Context) error { t.Error("fn ran"); return nil }

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				p.ResetCommands()
				start := time.Now()
				err := guard.Do(ctx, name, reached)
				atDeadline.add(time.Since(start) - time.Second)
				assert.ErrorIs(t, err, guard.ErrUnavailable)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NotErrorIs(t, err, guard.ErrHeld)
				assert.LessOrEqual(t, p.Commands()["evalsha"], int64(20), "attempts are paced")

				start = time.Now()
				ran, err := guard.Try(t.Context(), name, reached)
				tried.add(time.Since(start))
				assert.False(t, ran)
				assert.ErrorIs(t, err, guard.ErrUnavailable)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)

				returned := time.Now().Add(500 * time.Millisecond)
				time.AfterFunc(500*time.Millisecond, undo)
				assert.NoError(t, guard.Do(t.Context(), name, nothing))
				back.add(time.Since(returned))
			})
			atDeadline.within(t, slack)
			tried.within(t, time.Second+slack)
			back.within(t, time.Second)
		})
	}
}

// Without any limit of the caller's, and whatever the client's own are, it is 30 s.
func TestPatienceWithADeadServerIsFinite(t *testing.T) {
	s := redistest.Start(t)
	for how, fail := range failures {
		for _, timeout := range []time.Duration{0, time.Minute, -1} { // default, long, none
			if timeout != 0 && how != "black hole" {
				continue
			}
			t.Run(fmt.Sprintf("%s ReadTimeout=%v", how, timeout), func(t *testing.T) {
				t.Parallel()
				p := redistest.NewProxy(t, s.Addr())
				g := newGuard(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = timeout }))
				assert.NoError(t, guard.Do(t.Context(), g.Name("warm"), nothing))
				undo := fail(p)
				defer undo()
				over := make(chan error, 1)
				start := time.Now()
				go func() { over <- guard.Do(context.Background(), g.Name("x"), nothing) }()
				select {
				case err := <-over:
					assert.ErrorIs(t, err, guard.ErrUnavailable)
					assert.NotErrorIs(t, err, context.DeadlineExceeded)
					assert.InDelta(t, 30, time.Since(start).Seconds(), 2)
				case <-time.After(33 * time.Second):
					t.Errorf("still asking after %v", time.Since(start))
					undo()
					<-over
				}
			})
		}
	}
}

// A slow network is no deadline of the caller's.
func TestAnInnerLimitIsNeverShownAsTheCallersDeadline(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	p.Delay(0, 400*time.Millisecond)
	g := newGuard(t, p.Client(t), guard.TTL(8*time.Second))
	require.NoError(t, guard.Do(context.Background(), g.Name("x"), nothing))
	short := newGuard(t, p.Client(t), guard.TTL(300*time.Millisecond))
	err := guard.Do(context.Background(), short.Name("y").Wait(2*time.Second), func(context.Context) error { t.Error("fn ran"); return nil })
	require.ErrorIs(t, err, guard.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "TTL")
	soon(t, func() bool { return gone(direct, "y") })
	timeouts := newGuard(t, p.Client(t, func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond }))
	err = guard.Do(context.Background(), timeouts.Name("z").Wait(2*time.Second), func(context.Context) error { t.Error("fn ran"); return nil })
	require.ErrorIs(t, err, guard.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	p.Pass()
	soon(t, func() bool { return gone(direct, "z") })
}
