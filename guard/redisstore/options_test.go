package redisstore_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestNewRefusesWhatIsOutOfRange(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	_, err := redisstore.New(nil)
	require.ErrorIs(t, err, guard.ErrInvalid)
	_, err = redisstore.New(rdb, nil)
	require.ErrorIs(t, err, guard.ErrInvalid)
	for _, tc := range []struct {
		name string
		opt  redisstore.Option
		ok   bool
	}{
		{"Prefix", redisstore.Prefix(""), true},
		{"Prefix", redisstore.Prefix("app:"), true},
		{"Prefix", redisstore.Prefix(strings.Repeat("p", 64)), true},
		{"Prefix", redisstore.Prefix(strings.Repeat("p", 65)), false},
		{"Prefix", redisstore.Prefix("{app}"), false},
		{"Prefix", redisstore.Prefix("a}"), false},
		{"Prefix", redisstore.Prefix("a b"), false},
		{"Prefix", redisstore.Prefix("a|b"), false},
		{"Prefix", redisstore.Prefix("a\n"), false},
		{"Prefix", redisstore.Prefix("é"), false},
		{"ClaimWindow", redisstore.ClaimWindow(50 * time.Millisecond), true},
		{"ClaimWindow", redisstore.ClaimWindow(10 * time.Second), true},
		{"ClaimWindow", redisstore.ClaimWindow(49 * time.Millisecond), false},
		{"ClaimWindow", redisstore.ClaimWindow(10*time.Second + time.Millisecond), false},
		{"ClaimWindow", redisstore.ClaimWindow(60*time.Millisecond + 1), false},
		{"ClaimWindow", redisstore.ClaimWindow(-1), false},
		{"MaxTTL", redisstore.MaxTTL(time.Second), true},
		{"MaxTTL", redisstore.MaxTTL(24 * time.Hour), true},
		{"MaxTTL", redisstore.MaxTTL(999 * time.Millisecond), false},
		{"MaxTTL", redisstore.MaxTTL(1500 * time.Millisecond), false},
		{"MaxTTL", redisstore.MaxTTL(25 * time.Hour), false},
	} {
		_, err := redisstore.New(rdb, tc.opt)
		if tc.ok {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorIs(t, err, guard.ErrInvalid)
		assert.ErrorContains(t, err, tc.name)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	t.Run("a good server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		require.NoError(t, newStore(t, s.Client(t)).Check(t.Context()))
		nothingLeft(t, s, "") // but the mark of its name, as of any other
	})
	t.Run("a good Cluster", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, newStore(t, redistest.Cluster(t).Client(t)).Check(t.Context()))
	})
	t.Run("one that evicts", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(t)
		err := newStore(t, rdb).Check(t.Context())
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorContains(t, err, "allkeys-lru")
	})
	t.Run("a replica", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Replica(t, redistest.Start(t)).Client(t)
		err := newStore(t, rdb).Check(t.Context())
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorContains(t, err, "READONLY")
	})
	t.Run("one that was started lately", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t).Client(t)
		err := newStore(t, rdb, redisstore.RestartGrace()).Check(t.Context())
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorContains(t, err, "grace")
	})
	t.Run("one that is down", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		rdb := s.Client(t)
		s.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.Error(t, newStore(t, rdb).Check(ctx))
	})
	t.Run("an old one", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		p.Answer(redistest.Match{Command: "INFO", Times: -1}, "+redis_version:6.0.16")
		err := newStore(t, p.Client(t)).Check(t.Context())
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorContains(t, err, "6.0.16")
	})
}

// A server that restarted may have lost leases that still stand.
func TestRestartGrace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	strict := newStore(t, rdb, redisstore.RestartGrace(), redisstore.MaxTTL(time.Second))
	r := request("x")
	_, err := strict.Acquire(t.Context(), r)
	require.ErrorIs(t, err, guard.ErrInvalid, "a TTL above MaxTTL")
	require.ErrorContains(t, err, "MaxTTL")
	r.TTL = time.Second
	_, err = strict.Acquire(t.Context(), r)
	require.ErrorIs(t, err, guard.ErrUnavailable)
	var after interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, err, &after)
	assert.LessOrEqual(t, after.RetryAfter(), 5*time.Second)
	assert.Positive(t, after.RetryAfter())
	assert.Empty(t, s.Keys(""))
	// What stands is renewed and released in grace as well.
	easy := newStore(t, rdb)
	l := acquire(t, easy, r)
	l, err = strict.Renew(t.Context(), l)
	require.NoError(t, err)
	require.NoError(t, strict.Release(t.Context(), l))
	g := newGuard(t, rdb)
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
}

// A subscription opens with the first waiter and closes some time after the last.
func TestTheSubscriptionComesAndGoesWithTheWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newGuard(t, rdb), newGuard(t, rdb)
	channels := func() int { return len(rdb.PubSubChannels(context.Background(), "*").Val()) }
	require.NoError(t, guard.Do(t.Context(), b.Name("x"), nothing))
	assert.Zero(t, channels())
	held, err := guard.Acquire(t.Context(), a.Name("x"))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- guard.Do(t.Context(), b.Name("x"), nothing) }()
	isQueued(t, rdb, "x", 1)
	assert.Equal(t, 1, channels())
	require.NoError(t, held.Release())
	require.NoError(t, <-done)
	eventually(t, "closed", func() bool { return channels() == 0 })
}

func TestTheDocumentedFormatIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("redisstore.go")
	require.NoError(t, err)
	for _, want := range []string{"lock:{order/42} ", "lock:{order/42}:fence", "lock:{order/42}:q  :w", "lock:{order/42}:x:<owner>"} {
		assert.Contains(t, string(text), want)
	}
	rdb := redistest.Start(t).Client(t)
	g := newGuard(t, rdb, guard.Label("me"))
	c, err := g.Class("order")
	require.NoError(t, err)
	require.NoError(t, guard.Do(t.Context(), c.Name("42"), func(context.Context) error {
		assert.Regexp(t, `^-[\w-]{22}\|\d{16}\|\|me$`, value(t, rdb, "lock:{order/42}"))
		assert.Regexp(t, `^\d{16}$`, value(t, rdb, "lock:{order/42}:fence"))
		return nil
	}))
}
