package timing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The link stands still at the first attempt, with the lock free.
func TestWorkStartsSoonAfterAStalledLinkMoves(t *testing.T) {
	s := redistest.Start(t)
	for _, stall := range []time.Duration{25 * time.Millisecond, 60 * time.Millisecond, 500 * time.Millisecond} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v warm=%v", stall, warm), func(t *testing.T) {
				var over durations
				spread(50, 10, func(int) {
					p := redistest.NewProxy(t, s.Addr())
					g := newGuard(t, p.Client(t))
					name := g.Name(redistest.Unique(t))
					if warm {
						require.NoError(t, guard.Do(t.Context(), name, nothing))
					}
					p.Stall()
					start := time.Now()
					time.AfterFunc(stall, p.Pass)
					assert.NoError(t, guard.Do(t.Context(), name, func(context.Context) error {
						over.add(time.Since(start))
						return nil
					}))
				})
				over.within(t, stall+300*time.Millisecond)
			})
		}
	}
}

// The holder's link stands still at random points and for random times, while
// another process waits: never two live contexts.
func TestNeverTwoLiveContextsWhateverTheLinkDoes(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	const ttl = 300 * time.Millisecond
	var lost, both, late atomic.Int32
	spread(200, 20, func(i int) {
		p := redistest.NewProxy(t, s.Addr())
		a := newGuard(t, p.Client(t), guard.TTL(ttl))
		b := newGuard(t, direct, guard.TTL(ttl))
		name := fmt.Sprint("n", i)
		var held, returned atomic.Pointer[context.Context]
		entered := make(chan error, 1)
		err := guard.Do(t.Context(), a.Name(name), func(ctx context.Context) error {
			defer returned.Store(&ctx)
			held.Store(&ctx)
			go func() {
				entered <- guard.Do(t.Context(), b.Name(name), func(context.Context) error {
					ctx := *held.Load()
					live := ctx.Err() == nil && returned.Load() == nil
					switch {
					case guard.Holds(ctx, a.Name(name)): // by the clock
						both.Add(1)
					case live: // a timer is late by more than the margin
						late.Add(1)
					}
					return nil
				})
			}()
			time.Sleep(rand.N(ttl))
			switch i % 3 {
			case 0:
				p.Stall()
			case 1:
				p.StallReplies()
			default:
				p.StallRequests()
			}
			time.AfterFunc(rand.N(2*ttl), p.Pass)
			select {
			case <-ctx.Done():
			case <-time.After(rand.N(3 * ttl)):
			}
			return nil
		})
		if err != nil {
			assert.ErrorIs(t, err, guard.ErrLost)
			lost.Add(1)
		}
		assert.NoError(t, <-entered)
	})
	assert.Zero(t, both.Load(), "two holders")
	assert.LessOrEqual(t, late.Load(), int32(10), "two live contexts for the time a timer is late")
	assert.Greater(t, lost.Load(), int32(20))
	assert.Less(t, lost.Load(), int32(180))
	t.Logf("%d of 200 were lost, %d noticed it late", lost.Load(), late.Load())
}

// Silent packet loss: no answer and no reset ever comes.
func TestASilentNetworkEndsTheWorkAtItsDeadline(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	const ttl = time.Second
	var late, returned, handed durations
	spread(20, 20, func(int) {
		p := redistest.NewProxy(t, s.Addr())
		a := newGuard(t, p.Client(t, patient), guard.TTL(ttl))
		b := newGuard(t, direct)
		name := redistest.Unique(t)
		held, err := guard.Acquire(t.Context(), a.Name(name))
		if !assert.NoError(t, err) {
			return
		}
		time.Sleep(300*time.Millisecond + rand.N(400*time.Millisecond))
		p.Stall()
		cut := time.Now()
		defer p.Pass()
		next := make(chan time.Time, 1)
		go func() {
			assert.NoError(t, guard.Do(t.Context(), b.Name(name), func(context.Context) error { next <- time.Now(); return nil }))
		}()
		<-held.Context().Done()
		ended := time.Now()
		late.add(ended.Sub(held.Until()))
		assert.ErrorIs(t, context.Cause(held.Context()), guard.ErrLost)
		assert.ErrorIs(t, held.Release(), guard.ErrLost)
		returned.add(time.Since(ended))
		at := <-next
		assert.True(t, at.After(ended), "the next one entered %v before the end", ended.Sub(at))
		handed.add(at.Sub(cut))
	})
	late.within(t, 10*time.Millisecond)
	returned.within(t, 100*time.Millisecond)
	handed.within(t, ttl+slack)
}

// The server stops answering while it is asked; the caller's context ends.
func TestACallEndsWithItsContextWhileTheServerIsFrozen(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		for _, warm := range []bool{false, true} {
			for _, how := range []string{"deadline", "cancel"} {
				t.Run(fmt.Sprintf("ContextTimeoutEnabled=%v warm=%v %s", enabled, warm, how), func(t *testing.T) {
					s := redistest.Start(t)
					var over durations
					guards := make([]*guard.Guard, 10)
					for i := range guards {
						guards[i] = newGuard(t, s.Client(t, patient, func(o *redis.Options) { o.ContextTimeoutEnabled = enabled }))
						if warm {
							require.NoError(t, guard.Do(t.Context(), guards[i].Name(fmt.Sprint("n", i)), nothing))
						}
					}
					s.Freeze()
					spread(10, 10, func(i int) {
						name := guards[i].Name(fmt.Sprint("n", i))
						var ctx context.Context
						var cancel context.CancelFunc
						var end time.Time
						if how == "deadline" {
							end = time.Now().Add(200 * time.Millisecond)
							ctx, cancel = context.WithDeadline(t.Context(), end)
						} else {
							ctx, cancel = context.WithCancel(t.Context())
							end = time.Now().Add(200 * time.Millisecond)
							time.AfterFunc(200*time.Millisecond, cancel)
						}
						err := guard.Do(ctx, name, func(context.Context) error { t.Error("fn ran"); return nil })
						over.add(time.Since(end))
						cancel()
						assert.ErrorIs(t, err, ctx.Err())
					})
					over.within(t, 50*time.Millisecond)
					s.Thaw()
					for i := range 10 {
						name := fmt.Sprint("n", i)
						soon(t, func() bool { return s.Client(t).Exists(t.Context(), leaseKey(name)).Val() == 0 })
					}
				})
			}
		}
	}
}

// Once the work is done the caller waits for the release no longer than it said.
func TestAReleaseThatCannotGetThroughEndsInTime(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	boom := errors.New("boom")
	for _, within := range []time.Duration{200 * time.Millisecond, 2 * time.Second} {
		t.Run(within.String(), func(t *testing.T) {
			t.Parallel()
			var over durations
			spread(20, 20, func(i int) {
				p := redistest.NewProxy(t, s.Addr())
				g := newGuard(t, p.Client(t, patient), guard.TTL(10*time.Second), guard.ReleaseWithin(within))
				name := g.Name(redistest.Unique(t))
				var done time.Time
				v, err := guard.Value(t.Context(), name, func(context.Context) (int, error) {
					p.Stall()
					done = time.Now()
					if i%2 == 0 {
						return 7, boom
					}
					return 7, nil
				})
				over.add(time.Since(done))
				assert.Equal(t, 7, v)
				if i%2 == 0 {
					assert.Equal(t, boom, err)
				} else {
					assert.NoError(t, err)
				}
				p.Pass()
				soon(t, func() bool { return gone(direct, name.String()) })
			})
			over.within(t, within+100*time.Millisecond)
		})
	}
}

// One reset at the release, then a healthy link.
func TestAReleaseThatWasResetIsTriedAgain(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	var took durations
	spread(20, 10, func(int) {
		p := redistest.NewProxy(t, s.Addr())
		g := newGuard(t, p.Client(t))
		name := g.Name(redistest.Unique(t))
		var done time.Time
		assert.NoError(t, guard.Do(t.Context(), name, func(context.Context) error {
			p.Refuse()
			p.Reset()
			time.AfterFunc(100*time.Millisecond, p.Pass)
			done = time.Now()
			return nil
		}))
		soon(t, func() bool { return gone(direct, name.String()) })
		took.add(time.Since(done))
	})
	took.within(t, time.Second)
}

// A lease that is over costs one command at the release, not a retry policy.
func TestAReleaseOfWhatIsGoneAsksOnce(t *testing.T) {
	s := redistest.Start(t)
	direct := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	store, err := redisstore.New(p.Client(t))
	require.NoError(t, err)
	g, err := guard.New(store)
	require.NoError(t, err)
	for range 2 { // the scripts are known then
		start := time.Now()
		err = guard.Do(t.Context(), g.Name("x"), func(context.Context) error {
			direct.Set(t.Context(), leaseKey("x"), "another", time.Minute)
			p.ResetCommands()
			start = time.Now()
			return nil
		})
		require.ErrorIs(t, err, guard.ErrLost)
		assert.Less(t, took(start), slack)
		direct.Del(t.Context(), leaseKey("x"))
	}
	require.NoError(t, g.Close(t.Context()))
	calls := p.Commands()
	assert.LessOrEqual(t, calls["evalsha"], int64(2), "release, and leave which tells why")
}
