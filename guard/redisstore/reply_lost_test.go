package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// impatient makes a client give up a lost reply soon.
func impatient(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond }

// TestOneLostReplyIsOneGrantOneTokenAndNoError loses exactly one reply of each
// script, with the connection kept open or closed, alone or while another
// process waits.
func TestOneLostReplyIsOneGrantOneTokenAndNoError(t *testing.T) {
	t.Parallel()
	losses := map[string]func(*redistest.Proxy, redistest.Match) *redistest.Fault{
		"swallowed": (*redistest.Proxy).Swallow,
		"cut":       (*redistest.Proxy).SwallowAndCut,
	}
	for _, script := range []string{"acquire", "renew", "release", "leave", "stand"} {
		for how, lose := range losses {
			for _, contended := range []bool{false, true} {
				if contended && (script == "acquire" || script == "release") {
					continue // these are for names for which nobody waits
				}
				t.Run(fmt.Sprintf("%s %s contended=%v", script, how, contended), func(t *testing.T) {
					t.Parallel()
					loseOne(t, script, lose, contended)
				})
			}
		}
	}
}

func loseOne(t *testing.T, script string, lose func(*redistest.Proxy, redistest.Match) *redistest.Fault, contended bool) {
	s := redistest.Start(t)
	direct := s.Client(t)
	load(t, direct)
	p := redistest.NewProxy(t, s.Addr())
	seen := &recorder{}
	opts := []guard.Option{guard.TTL(1200 * time.Millisecond), guard.Observe(seen)}
	if script == "leave" && !contended { // nobody waits, and the short release will not do
		opts = append(opts, guard.MinHold(time.Millisecond))
	}
	a := newGuard(t, p.Client(t, impatient), opts...)
	b := newGuard(t, direct)
	name := a.Name("x")
	var mark fence.Token
	if script == "stand" || contended { // make the name known as contended
		first := make(chan error, 1)
		held, err := guard.Acquire(t.Context(), b.Name("x"))
		require.NoError(t, err)
		if script == "stand" {
			defer func(f *redistest.Fault) { f.Wait(t, 1) }(lose(p, call(t, script)))
		}
		go func() { first <- guard.Do(context.Background(), name, nothing) }()
		isQueued(t, direct, "x", 1)
		require.NoError(t, held.Release())
		require.NoError(t, <-first)
		mark = held.Token()
	}
	var fault *redistest.Fault
	if script != "stand" {
		fault = lose(p, call(t, script))
	}

	var runs atomic.Int32
	var token, next fence.Token
	var oracle redistest.Oracle
	waiter := make(chan error, 1)
	err := guard.Do(t.Context(), name, func(ctx context.Context) error {
		defer oracle.Enter("x")()
		runs.Add(1)
		token = fence.From(ctx)
		if contended {
			go func() {
				waiter <- guard.Do(context.Background(), b.Name("x"), func(ctx context.Context) error {
					defer oracle.Enter("x")()
					next = fence.From(ctx)
					return nil
				})
			}()
			isQueued(t, direct, "x", 1)
		}
		if script == "renew" {
			fault.Wait(t, 1)
			eventually(t, "renewed after the lost reply", func() bool { return len(seen.of(guard.Renewed)) > 0 })
		}
		return ctx.Err()
	})
	require.NoError(t, err)
	if fault != nil {
		fault.Wait(t, 1)
	}
	assert.EqualValues(t, 1, runs.Load())
	assert.Empty(t, seen.of(guard.Lost))
	assert.Empty(t, seen.of(guard.ReleaseFailed))
	assert.Greater(t, token, mark)
	last := token
	if contended {
		require.NoError(t, <-waiter)
		assert.GreaterOrEqual(t, next, token+guard.TokensPerGrant)
		last = next
	}
	assert.Equal(t, 1, oracle.Max())
	assert.Contains(t, value(t, direct, fenceKey("x")), fmt.Sprint(int64(last)), "no token was used up without a grant")
	eventually(t, "released", func() bool { return direct.Exists(t.Context(), leaseKey("x")).Val() == 0 })
	nothingLeft(t, s, "x")
}

// TestAReleaseWhoseReplyIsLostHandsOverOnce is the false ErrLost of a release
// that was executed: the second copy meets the next holder.
func TestAReleaseWhoseReplyIsLostHandsOverOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	direct := s.Client(t)
	load(t, direct)
	p := redistest.NewProxy(t, s.Addr())
	a, b := newStore(t, p.Client(t)), newStore(t, direct)
	l := acquire(t, a, request("x"))
	r := request("x")
	r.Queue = true
	queued(t, b, r)
	l.Waiters = true
	f := p.SwallowAndCut(call(t, "leave"))
	require.NoError(t, a.Release(t.Context(), l))
	f.Wait(t, 1)
	granted := acquire(t, b, r)
	require.NoError(t, b.Release(t.Context(), granted))
	assert.GreaterOrEqual(t, granted.Token, l.Token+guard.TokensPerGrant)
}

// TestReleaseOfASoleCopyReportsTheLoss is the other side: nothing was lost on
// the way, so "not ours" means lost.
func TestReleaseOfASoleCopyReportsTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	name := redistest.Unique(t)
	err := guard.Do(t.Context(), g.Name(name), func(context.Context) error {
		return rdb.Del(t.Context(), leaseKey(name)).Err()
	})
	require.ErrorIs(t, err, guard.ErrLost)
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, guard.LostGone, lost.Reason)
}
