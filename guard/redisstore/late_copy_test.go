package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// arrive lets held requests through and returns once the server has executed them.
func arrive(t *testing.T, s *redistest.Server, f *redistest.Fault) {
	t.Helper()
	calls := func() int64 { c := s.CommandStats(); return c["evalsha"] + c["eval"] }
	before := calls()
	require.Positive(t, f.Count())
	f.End()
	eventually(t, "the late copy is executed", func() bool { return calls() >= before+int64(f.Count()) })
}

// insist asks until there is an answer, as package guard does.
func insist(t *testing.T, f func() (guard.Lease, error)) guard.Lease {
	t.Helper()
	for range 5 {
		l, err := f()
		if err == nil {
			return l
		}
		require.ErrorIs(t, err, guard.ErrUnavailable)
	}
	require.FailNow(t, "no answer")
	return guard.Lease{}
}

// every is m for any number of requests.
func every(m redistest.Match) redistest.Match {
	m.Times = -1
	return m
}

// link is a server, a client beside the proxy and a store behind it.
func link(t *testing.T, edit ...func(*redis.Options)) (*redistest.Server, *redis.Client, *redistest.Proxy, *redisstore.Store) {
	t.Helper()
	s := redistest.Start(t)
	direct := s.Client(t)
	load(t, direct)
	p := redistest.NewProxy(t, s.Addr())
	return s, direct, p, newStore(t, p.Client(t, append(edit, impatient)...))
}

// An acquire is parked on the way, sent again and granted. The first copy
// arrives after the release: it must not take the lock for nobody.
func TestALateCopyOfAnAcquireIsRefusedAfterTheRelease(t *testing.T) {
	t.Parallel()
	s, direct, p, store := link(t)
	f := p.HoldRequest(call(t, "acquire"))
	r := request("x")
	l := insist(t, func() (guard.Lease, error) { return store.Acquire(t.Context(), r) })
	require.NoError(t, store.Release(t.Context(), l))
	assert.Empty(t, value(t, direct, leaseKey("x")))
	arrive(t, s, f)
	assert.Empty(t, value(t, direct, leaseKey("x")), "a ghost holds the lock")
	nothingLeft(t, s, "x")
}

// The same for an owner that was abandoned without having heard a word.
func TestALateCopyOfAnAcquireIsRefusedAfterTheAbandon(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"acquire", "stand"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s, direct, p, store := link(t)
			r := request("x")
			if script == "stand" { // a name that was contended a moment ago
				l := acquire(t, store, request("x"))
				refused(t, store, request("x"))
				require.NoError(t, store.Release(t.Context(), l))
			}
			f := p.HoldRequest(every(call(t, script)))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := store.Acquire(ctx, r)
			require.Error(t, err)
			require.NoError(t, store.Release(t.Context(), guard.Lease{Request: r}))
			arrive(t, s, f)
			assert.Empty(t, value(t, direct, leaseKey("x")), "a ghost holds the lock")
			nothingLeft(t, s, "x")
		})
	}
}

// And for a whole call, cancelled in mid-flight.
func TestACancelledCallLeavesNoGhostWhenItsRequestArrivesLate(t *testing.T) {
	t.Parallel()
	s, direct, p, store := link(t, func(o *redis.Options) { o.ReadTimeout = 30 * time.Second })
	g, err := guard.New(store)
	require.NoError(t, err)
	f := p.HoldRequest(every(call(t, "acquire")))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { f.Wait(t, 1); cancel() }()
	err = guard.Do(ctx, g.Name("x"), func(context.Context) error { t.Error("fn ran"); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, g.Close(t.Context()), "what had to be undone was undone")
	arrive(t, s, f)
	assert.Empty(t, value(t, direct, leaseKey("x")))
	nothingLeft(t, s, "x")
}

// A late copy of the same owner's acquire, or of a renewal, must not stretch a
// minimum hold.
func TestLateCopiesDoNotStretchAMinimumHold(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"acquire", "renew"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s, direct, p, store := link(t)
			r := request("x")
			r.MinHold = 800 * time.Millisecond
			f := p.HoldRequest(call(t, script))
			l := insist(t, func() (guard.Lease, error) { return store.Acquire(t.Context(), r) })
			granted := l.Since
			if script == "renew" {
				l = insist(t, func() (guard.Lease, error) { return store.Renew(t.Context(), l) })
			}
			require.NoError(t, store.Release(t.Context(), l))
			left := pttl(t, direct, leaseKey("x"))
			assert.Positive(t, left)
			assert.LessOrEqual(t, left, r.MinHold)
			arrive(t, s, f)
			assert.LessOrEqual(t, pttl(t, direct, leaseKey("x")), left)
			eventually(t, "the minimum hold ends", func() bool { return pttl(t, direct, leaseKey("x")) < 0 })
			assert.False(t, time.Now().Before(granted.Add(r.MinHold)))
		})
	}
}

// A renewal that arrives after the release creates nothing.
func TestALateRenewalCreatesNothing(t *testing.T) {
	t.Parallel()
	s, direct, p, store := link(t)
	l := acquire(t, store, request("x"))
	f := p.HoldRequest(call(t, "renew"))
	l = insist(t, func() (guard.Lease, error) { return store.Renew(t.Context(), l) })
	require.NoError(t, store.Release(t.Context(), l))
	arrive(t, s, f)
	assert.Empty(t, value(t, direct, leaseKey("x")))
	next := acquire(t, store, request("x"))
	assert.Greater(t, next.Token, l.Token)
	require.NoError(t, store.Release(t.Context(), next))
}

// go-redis would send a whole pipeline again after a broken connection, with
// commands in it that were answered.
func TestNoScriptIsSentTwiceBehindTheStoresBack(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*redistest.Proxy) redis.UniversalClient{
		"single": func(p *redistest.Proxy) redis.UniversalClient {
			return p.Client(t, impatient, func(o *redis.Options) { o.MaxRetries = 5 })
		},
		"ring": func(p *redistest.Proxy) redis.UniversalClient {
			rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": p.Addr()}, ReadTimeout: 100 * time.Millisecond, MaxRetries: 5})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			load(t, s.Client(t))
			p := redistest.NewProxy(t, s.Addr())
			rdb := client(p)
			store := newStore(t, rdb)
			eventually(t, "the ring knows that its shard is up", func() bool { return rdb.Ping(t.Context()).Err() == nil })
			f := p.Swallow(call(t, "acquire"))
			s.ResetStats()
			_, err := store.Acquire(t.Context(), request("x"))
			require.ErrorIs(t, err, guard.ErrUnavailable)
			assert.Equal(t, 1, f.Count())
			assert.EqualValues(t, 1, s.CommandStats()["evalsha"])
		})
	}
}
