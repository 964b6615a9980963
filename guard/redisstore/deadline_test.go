package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// blocked is a name that another process holds until the end of t, and a Guard
// behind a proxy.
func blocked(t *testing.T, opts ...guard.Option) (*redistest.Proxy, guard.Name) {
	t.Helper()
	s := redistest.Shared(t)
	name := redistest.Unique(t)
	held, err := guard.Acquire(context.Background(), newGuard(t, s.Client(t)).Name(name))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, held.Release()) })
	p := redistest.NewProxy(t, s.Addr())
	g := newGuard(t, p.Client(t), opts...)
	return p, g.Name(name)
}

func unreached(t *testing.T) func(context.Context) error {
	return func(context.Context) error { t.Error("fn ran"); return nil }
}

func TestADeadlineWhileAnotherHoldsMatchesBoth(t *testing.T) {
	t.Parallel()
	_, name := blocked(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := guard.Do(ctx, name, unreached(t))
	for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), errors.Join(errors.New("x"), err)} {
		assert.ErrorIs(t, err, guard.ErrHeld)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, guard.ErrUnavailable)
		var held *guard.HeldError
		assert.ErrorAs(t, err, &held)
	}
}

// The deadline falls while a waiter's next question is on its way.
func TestADeadlineInMidQuestionStillMatchesBoth(t *testing.T) {
	t.Parallel()
	p, name := blocked(t)
	ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
	defer cancel()
	f := p.HoldReply(redistest.Match{Command: "EVALSHA EVAL", Contains: leaseKey(name.String()), Skip: 3, Times: -1})
	err := guard.Do(ctx, name, unreached(t))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, guard.ErrHeld)
	assert.Positive(t, f.Count())
	f.End()
}

func TestACauseOfCancellationStaysReachable(t *testing.T) {
	t.Parallel()
	_, name := blocked(t)
	cause := errors.New("the client hung up")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(150*time.Millisecond, func() { cancel(cause) })
	err := guard.Do(ctx, name, unreached(t))
	assert.ErrorIs(t, err, guard.ErrHeld)
	assert.ErrorIs(t, err, cause)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestTheWaitLimitIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	_, name := blocked(t, guard.Wait(150*time.Millisecond))
	err := guard.Do(t.Context(), name, unreached(t))
	assert.ErrorIs(t, err, guard.ErrHeld)
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	ran, err := guard.Try(t.Context(), name, unreached(t))
	assert.False(t, ran)
	assert.NoError(t, err)
	v, err := guard.Value(t.Context(), name.Wait(0), func(context.Context) (int, error) { return 7, unreached(t)(nil) })
	assert.Zero(t, v)
	assert.ErrorIs(t, err, guard.ErrHeld)
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, guard.ErrUnavailable)
}

// A lock service that cannot be asked is not "held by another", whatever the way
// in which it fails and whoever sets the limit.
func TestABackendThatIsDownIsUnavailableNeverHeld(t *testing.T) {
	t.Parallel()
	for how, fail := range map[string]func(*redistest.Proxy) (undo func()){
		"refused":    func(p *redistest.Proxy) func() { p.Refuse(); p.Reset(); return p.Pass },
		"black hole": func(p *redistest.Proxy) func() { p.Stall(); return p.Pass },
		"loading": func(p *redistest.Proxy) func() {
			return p.Answer(redistest.Match{Command: "EVALSHA", Times: -1}, "-LOADING Redis is loading the dataset in memory").End
		},
	} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s warm=%v", how, warm), func(t *testing.T) {
				t.Parallel()
				s := redistest.Shared(t)
				load(t, s.Client(t))
				p := redistest.NewProxy(t, s.Addr())
				g := newGuard(t, p.Client(t))
				name := g.Name(redistest.Unique(t))
				if warm {
					require.NoError(t, guard.Do(t.Context(), name, nothing))
				}
				t.Cleanup(fail(p))
				down := func(err error) {
					t.Helper()
					assert.ErrorIs(t, err, guard.ErrUnavailable)
					assert.NotErrorIs(t, err, guard.ErrHeld)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				err := guard.Do(ctx, name, unreached(t))
				down(err)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				err = guard.Do(t.Context(), name.Wait(300*time.Millisecond), unreached(t))
				down(err)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				ran, err := guard.Try(t.Context(), name, unreached(t))
				assert.False(t, ran)
				down(err)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
			})
		}
	}
}

// Another program may keep every connection of the client busy. That is no
// reason to ignore the caller's cancel.
func TestACancelIsPromptWhenThePoolIsExhausted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	load(t, s.Client(t))
	rdb := s.Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	g := newGuard(t, rdb)
	for range 3 { // the node is known to answer promptly
		require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
	}
	busy := make(chan error, 1)
	go func() { busy <- rdb.BLPop(context.Background(), 2*time.Second, "never").Err() }()
	admin := s.Client(t)
	eventually(t, "blocked", func() bool {
		return strings.Contains(admin.Info(t.Context(), "clients").Val(), "blocked_clients:1")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	within(t, time.Second, func() {
		require.ErrorIs(t, guard.Do(ctx, g.Name("x"), unreached(t)), context.DeadlineExceeded)
	})
	require.ErrorIs(t, <-busy, redis.Nil)
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
}
