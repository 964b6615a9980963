package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Whatever happened to a lease, one that was lost must not spoil the next one of
// the same name.
func TestALostLeaseDoesNotSpoilTheNext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	direct := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	g := newGuard(t, p.Client(t), guard.TTL(300*time.Millisecond))
	name := g.Name(redistest.Unique(t))
	err := guard.Do(t.Context(), name, func(ctx context.Context) error {
		p.Refuse()
		p.Reset()
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, guard.ErrLost)
	p.Pass()
	require.NoError(t, guard.Do(t.Context(), name, func(ctx context.Context) error {
		rises, last := 0, time.Duration(0)
		for end := time.Now().Add(5 * time.Second); rises < 2 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			now := pttl(t, direct, leaseKey(name.String()))
			if now > last && last > 0 {
				rises++
			}
			last = now
		}
		assert.GreaterOrEqual(t, rises, 2)
		return ctx.Err()
	}))
}

// A short outage around a renewal is no loss.
func TestOneFailedRenewalIsNoLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	direct := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	seen := &recorder{}
	g := newGuard(t, p.Client(t), guard.TTL(3*time.Second), guard.Observe(seen))
	name := g.Name(redistest.Unique(t))
	require.NoError(t, guard.Do(t.Context(), name, func(ctx context.Context) error {
		p.Refuse()
		p.Reset()
		eventually(t, "a renewal fails", func() bool { return len(seen.of(guard.RenewFailed)) > 0 })
		time.Sleep(150 * time.Millisecond)
		p.Pass()
		eventually(t, "renewed", func() bool { return len(seen.of(guard.Renewed)) > 0 })
		assert.Greater(t, pttl(t, direct, leaseKey(name.String())), 2*time.Second)
		return ctx.Err()
	}))
	assert.Empty(t, seen.of(guard.Lost))
}

// Rounds of short work, half of it cancelled: after its release a key never
// lives longer, and no renewal is sent for it.
func TestNoRenewalOutlivesItsRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb, guard.TTL(600*time.Millisecond))
	var work sync.WaitGroup
	for i := range 20 {
		name := g.Name(fmt.Sprint("n", i))
		work.Go(func() {
			for j := range 25 {
				ctx, cancel := context.WithCancel(t.Context())
				if j%2 == 0 {
					time.AfterFunc(time.Duration(rand.N(5000))*time.Microsecond, cancel)
				}
				hold := time.Duration(rand.N(3000)) * time.Microsecond
				if j == 24 {
					hold = time.Duration(180+rand.N(50)) * time.Millisecond // a renewal is about to go
				}
				err := guard.Do(ctx, name, func(context.Context) error { time.Sleep(hold); return nil })
				cancel()
				if err != nil {
					assert.ErrorIs(t, err, context.Canceled)
					assert.NotErrorIs(t, err, guard.ErrLost)
				}
			}
		})
	}
	work.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, g.Close(ctx))
	s.ResetStats()
	nothingLeft(t, s, "n")
	time.Sleep(300 * time.Millisecond)
	assert.Zero(t, s.CommandStats()["evalsha"])
	nothingLeft(t, s, "n")
}

// A lease that vanished, or was taken, is over; its holder never writes it again.
func TestARenewalDoesNotBringALeaseBack(t *testing.T) {
	t.Parallel()
	const ttl = 450 * time.Millisecond
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, rdb *redis.Client)
		reason string
		after  string // what the key holds afterwards
	}{
		{"deleted", func(t *testing.T, rdb *redis.Client) { require.NoError(t, rdb.Del(t.Context(), leaseKey("x")).Err()) }, guard.LostGone, ""},
		{"foreign", func(t *testing.T, rdb *redis.Client) {
			require.NoError(t, rdb.Set(t.Context(), leaseKey("x"), "foreign", 0).Err())
		}, guard.LostTaken, "foreign"},
		{"flushed", func(t *testing.T, rdb *redis.Client) { require.NoError(t, rdb.FlushAll(t.Context()).Err()) }, guard.LostGone, ""},
		{"rival", func(t *testing.T, rdb *redis.Client) {
			require.NoError(t, rdb.Del(t.Context(), leaseKey("x")).Err())
			l := request("x")
			l.Owner = strings.Repeat("r", 22)
			acquire(t, newStore(t, rdb), l)
		}, guard.LostTaken, strings.Repeat("r", 22)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := s.Client(t)
			g := newGuard(t, rdb, guard.TTL(ttl))
			mine := errors.New("mine")
			err := guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
				tc.change(t, rdb)
				within(t, 5*ttl, func() { <-ctx.Done() })
				assert.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
				return mine
			})
			require.ErrorIs(t, err, mine)
			var lost *guard.LostError
			require.ErrorAs(t, err, &lost)
			assert.Equal(t, tc.reason, lost.Reason)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			require.NoError(t, g.Close(ctx)) // what it does in the background is done
			got := value(t, rdb, leaseKey("x"))
			if tc.after == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tc.after)
			if tc.name == "foreign" {
				assert.EqualValues(t, -1, pttl(t, rdb, leaseKey("x")))
			} else {
				assert.Greater(t, pttl(t, rdb, leaseKey("x")), 15*time.Second)
			}
		})
	}
}

// A slow holder overruns its lease, another acquires: the first one's release
// must not let a third one in.
func TestALateReleaseDoesNotRemoveTheNextHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	// Same label, same everything: only the owner tells them apart.
	a := newGuard(t, p.Client(t), guard.TTL(200*time.Millisecond), guard.Label("pod"))
	b := newGuard(t, rdb, guard.Label("pod"))
	c := newGuard(t, rdb, guard.Label("pod"), guard.NoWait())
	var second *guard.Held
	err := guard.Do(t.Context(), a.Name("x"), func(context.Context) error {
		p.Stall()
		var err error
		second, err = guard.Acquire(t.Context(), b.Name("x")) // waits for the end of the lease
		assert.NoError(t, err)
		return nil
	})
	require.ErrorIs(t, err, guard.ErrLost)
	before := value(t, rdb, leaseKey("x"))
	p.Pass() // what was sent arrives now
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, a.Close(ctx))
	assert.Equal(t, before[1:], value(t, rdb, leaseKey("x"))[1:])
	assert.Greater(t, pttl(t, rdb, leaseKey("x")), 25*time.Second)
	require.ErrorIs(t, guard.Do(t.Context(), c.Name("x"), unreached(t)), guard.ErrHeld)
	require.NoError(t, second.Release())
}

func TestEveryAcquisitionHasItsOwnOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	seen := map[string]bool{}
	spy := guard.Stack(newStore(t, s.Client(t)), func(next guard.Locker) guard.Locker { return owners{next, seen} })
	g, err := guard.New(spy, guard.Label("same"))
	require.NoError(t, err)
	name := g.Name(redistest.Unique(t))
	for range 1000 {
		require.NoError(t, guard.Do(t.Context(), name, nothing))
	}
	assert.Len(t, seen, 1000)
}

type owners struct {
	guard.Locker
	seen map[string]bool
}

func (o owners) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	o.seen[r.Owner] = true
	return o.Locker.Acquire(ctx, r)
}

// The four states a key can be in, for renewal and release, over both protocols.
func TestTheVerdictTellsWhatHappened(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		rdb := redistest.Shared(t).Client(t, func(o *redis.Options) { o.Protocol = protocol })
		store := newStore(t, rdb)
		for _, tc := range []struct {
			state  string
			change func(t *testing.T, key string)
			reason string
		}{
			{"ours", func(*testing.T, string) {}, ""},
			{"absent", func(t *testing.T, key string) { require.NoError(t, rdb.Del(t.Context(), key).Err()) }, guard.LostGone},
			{"another's", func(t *testing.T, key string) {
				require.NoError(t, rdb.Set(t.Context(), key, "-"+newOwner()+"|5||", time.Minute).Err())
			}, guard.LostTaken},
			{"another program's", func(t *testing.T, key string) { require.NoError(t, rdb.Set(t.Context(), key, "y", time.Minute).Err()) }, guard.LostTaken},
			{"wrong type", func(t *testing.T, key string) {
				require.NoError(t, rdb.Del(t.Context(), key).Err())
				require.NoError(t, rdb.HSet(t.Context(), key, "a", "b").Err())
			}, "WRONGTYPE"},
		} {
			for _, verb := range []string{"renew", "release"} {
				t.Run(fmt.Sprintf("RESP%d %s %s", protocol, verb, tc.state), func(t *testing.T) {
					t.Parallel()
					l := acquire(t, store, request(redistest.Unique(t)))
					tc.change(t, leaseKey(l.Name))
					var err error
					if verb == "renew" {
						_, err = store.Renew(t.Context(), l)
					} else {
						err = store.Release(t.Context(), l)
					}
					switch tc.reason {
					case "":
						require.NoError(t, err)
					case "WRONGTYPE":
						require.ErrorIs(t, err, guard.ErrUnavailable)
						require.ErrorContains(t, err, tc.reason)
						require.NotErrorIs(t, err, guard.ErrLost)
					default:
						var lost *guard.LostError
						require.ErrorAs(t, err, &lost)
						require.NotErrorIs(t, err, guard.ErrHeld)
						require.NotErrorIs(t, err, guard.ErrUnavailable)
						assert.Equal(t, tc.reason, lost.Reason)
						assert.Equal(t, l.Token, lost.Token)
					}
				})
			}
		}
	}
}

func TestAHandleThatNeverLockedSaysSo(t *testing.T) {
	t.Parallel()
	_, name := blocked(t, guard.NoWait())
	held, err := guard.Acquire(t.Context(), name)
	require.ErrorIs(t, err, guard.ErrHeld)
	for _, h := range []*guard.Held{held, nil, {}} {
		err := h.Release()
		require.ErrorIs(t, err, guard.ErrInvalid)
		assert.NotErrorIs(t, err, guard.ErrHeld)
		assert.NotErrorIs(t, err, guard.ErrLost)
		assert.Error(t, h.Extend(t.Context()))
		assert.Zero(t, h.Token())
		assert.Error(t, h.Context().Err())
	}
}

// The request times out or the client hangs up: the release must not depend on
// the caller's context.
func TestAReleaseDoesNotNeedTheCallersContext(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, cancel func()) func(context.Context) error{
		"cancel before fn returns": func(_ *testing.T, cancel func()) func(context.Context) error {
			return func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }
		},
		"deadline ends fn": func(_ *testing.T, _ func()) func(context.Context) error { return untilDone },
		"cancel during the release": func(_ *testing.T, cancel func()) func(context.Context) error {
			return func(ctx context.Context) error { go cancel(); return context.Canceled }
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			rdb := s.Client(t)
			g := newGuard(t, rdb, guard.TTL(5*time.Minute))
			name := g.Name(redistest.Unique(t))
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			err := guard.Do(ctx, name, end(t, cancel))
			require.Error(t, err)
			require.NotErrorIs(t, err, guard.ErrLost)
			assert.Empty(t, value(t, rdb, leaseKey(name.String())), "released when Do returned")
			within(t, time.Second, func() { require.NoError(t, guard.Do(t.Context(), name, nothing)) })
		})
	}
}

func TestANestedCallIsRefusedBeforeAnyCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	store := newStore(t, rdb)
	g, err := guard.New(store)
	require.NoError(t, err)
	second, err := guard.New(store)
	require.NoError(t, err)
	type key struct{}
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
		left := pttl(t, rdb, leaseKey("x"))
		s.ResetStats()
		child, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Minute)
		defer cancel()
		for _, inner := range []context.Context{ctx, child, context.WithoutCancel(ctx)} {
			for _, g := range []*guard.Guard{g, second} {
				require.ErrorIs(t, guard.Do(inner, g.Name("x"), unreached(t)), guard.ErrNested)
				_, err := guard.Try(inner, g.Name("x"), unreached(t))
				require.ErrorIs(t, err, guard.ErrNested)
			}
		}
		result := make(chan error)
		go func() { result <- guard.Do(ctx, g.Name("x"), unreached(t)) }()
		require.ErrorIs(t, <-result, guard.ErrNested)
		assert.Zero(t, s.CommandStats()["evalsha"]+s.CommandStats()["eval"])
		// A context that does not know of it waits like anybody else.
		short, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
		defer cancel()
		err := guard.Do(short, g.Name("x"), unreached(t))
		require.ErrorIs(t, err, guard.ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, guard.Do(ctx, g.Name("y"), nothing), "another name is fine")
		assert.LessOrEqual(t, pttl(t, rdb, leaseKey("x")), left)
		return ctx.Err()
	}))
	nothingLeft(t, s, "")
}

// Two flows take a, b and b, a: each ends by its own context at the latest.
func TestADeadlockEndsWithTheContexts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	var both, work sync.WaitGroup
	both.Add(2)
	for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		g := newGuard(t, rdb)
		work.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := guard.Do(ctx, g.Name(order[0]), func(ctx context.Context) error {
				both.Done()
				both.Wait()
				return guard.Do(ctx, g.Name(order[1]), nothing)
			})
			if err != nil { // one may get through once the other has given up
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
	work.Wait()
	eventually(t, "released", func() bool { return value(t, rdb, leaseKey("a"))+value(t, rdb, leaseKey("b")) == "" })
	nothingLeft(t, s, "")
}
