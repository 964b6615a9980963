package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Programs that lock with a plain SET NX PX and we exclude each other.
func TestAPlainSetExcludesUsAndIsExcluded(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	g := newGuard(t, rdb)
	name := g.Name(redistest.Unique(t))
	key := leaseKey(name.String())
	theirs := func() bool {
		ok, err := rdb.SetNX(t.Context(), key, "theirs", 400*time.Millisecond).Result()
		require.NoError(t, err)
		return ok
	}
	require.NoError(t, guard.Do(t.Context(), name, func(context.Context) error {
		assert.False(t, theirs(), "they cannot enter")
		return nil
	}))
	require.True(t, theirs())
	err := guard.Do(t.Context(), name.Wait(0), unreached(t))
	var held *guard.HeldError
	require.ErrorAs(t, err, &held)
	assert.True(t, held.Foreign)
	assert.Positive(t, held.RetryIn)
	assert.ErrorContains(t, err, "another program")
	// We wait for the end of theirs, and leave their value alone.
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- guard.Do(t.Context(), name, nothing) }()
	isQueued(t, rdb, name.String(), 1)
	assert.Equal(t, "theirs", value(t, rdb, key))
	require.NoError(t, <-done)
	assert.Less(t, time.Since(start), 2*time.Second)
}

// Their key has no expiry, and their DEL wakes nobody.
func TestAPlainSetWithoutExpiryIsWaitedFor(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	a, b := newGuard(t, rdb), newGuard(t, rdb)
	name := redistest.Unique(t)
	key := leaseKey(name)
	require.NoError(t, rdb.Set(t.Context(), key, "theirs", 0).Err())
	entered := make(chan time.Time, 2)
	done := make(chan error, 2)
	for _, g := range []*guard.Guard{a, b} {
		go func() {
			done <- guard.Do(t.Context(), g.Name(name), func(context.Context) error { entered <- time.Now(); return nil })
		}()
	}
	isQueued(t, rdb, name, 2)
	held := refused(t, newStore(t, rdb), request(name))
	assert.True(t, held.Foreign)
	assert.Zero(t, held.RetryIn, "unknown, not over")
	time.Sleep(300 * time.Millisecond)
	assert.Equal(t, "theirs", value(t, rdb, key))
	assert.EqualValues(t, -1, pttl(t, rdb, key))
	require.NoError(t, rdb.Del(t.Context(), key).Err())
	deleted := time.Now()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	assert.Less(t, (<-entered).Sub(deleted), time.Second, "the head polls")
}

// While a waiter has been granted the name, a foreigner cannot barge in.
func TestAForeignerCannotBargeIntoAHandOver(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	a, b := newStore(t, rdb), newStore(t, rdb)
	name := redistest.Unique(t)
	l := acquire(t, a, request(name))
	r := request(name)
	queued(t, b, r)
	l.Waiters = true
	require.NoError(t, a.Release(t.Context(), l))
	ok, err := rdb.SetNX(t.Context(), leaseKey(name), "theirs", time.Minute).Result()
	require.NoError(t, err)
	assert.False(t, ok)
	r.Queue = true
	require.NoError(t, b.Release(t.Context(), acquire(t, b, r)))
}

// Values that look strange, and times to live that fit in no Duration.
func TestForeignValuesOfAnyKindAreHeldByAnother(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	store := newStore(t, rdb)
	for _, v := range []string{"", " ", "x y z", "G 5 1 1", "-" + newOwner() + "|", "-" + newOwner() + "|abc|", "\x00\xff", "H 1 2 3"} {
		for _, ttl := range []any{nil, 1_000_000, int64(9_223_372_036_854), int64(200_000_000_000_000), int64(9_000_000_000_000_000_000)} {
			name := redistest.Unique(t)
			args := []any{"SET", leaseKey(name), v}
			if ttl != nil {
				args = append(args, "PX", ttl)
			}
			require.NoError(t, rdb.Do(t.Context(), args...).Err())
			held := refused(t, store, request(name))
			assert.Equal(t, v != "", held.Foreign, "%q", v)
			assert.GreaterOrEqual(t, held.RetryIn, time.Duration(0))
			assert.Equal(t, v, value(t, rdb, leaseKey(name)))
		}
	}
}

func TestWhoDoesNotQueueLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newStore(t, rdb), newStore(t, rdb)
	l := acquire(t, a, request("x"))
	before := value(t, rdb, fenceKey("x"))
	held := refused(t, b, request("x"))
	assert.Equal(t, l.Token, held.Token)
	assert.Equal(t, l.Token, held.Mark)
	assert.InDelta(t, time.Now().UnixMicro(), int64(held.ServerTime), 5e6)
	g := newGuard(t, rdb)
	ran, err := guard.Try(t.Context(), g.Name("x"), unreached(t))
	assert.False(t, ran)
	require.NoError(t, err)
	assert.Len(t, s.Keys("lock:{x}"), 2)
	assert.Equal(t, before, value(t, rdb, fenceKey("x")))
	assert.Equal(t, byte('-'), value(t, rdb, leaseKey("x"))[0])
	require.NoError(t, a.Release(t.Context(), l))
}

// A proposal ahead of the clock moves the mark with it; a name cannot be
// poisoned, and what a loss of the mark can cost is bounded.
func TestAMarkIsAtMostAMinuteAheadOfTheClockByProposals(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	store := newStore(t, rdb)
	name := redistest.Unique(t)
	now := time.Now().UnixMicro()
	r := request(name)
	r.Propose = fence.Token(now + 50_000_000)
	l := acquire(t, store, r)
	assert.Equal(t, r.Propose, l.Token)
	require.NoError(t, store.Release(t.Context(), l))
	r = request(name)
	r.Propose = fence.Token(now + 200_000_000)
	next := acquire(t, store, r)
	assert.Equal(t, l.Token+guard.TokensPerGrant, next.Token, "ignored")
	left := pttl(t, rdb, fenceKey(name))
	assert.Greater(t, left, time.Hour+40*time.Second)
	assert.LessOrEqual(t, left, time.Hour+51*time.Second)
	require.NoError(t, store.Release(t.Context(), next))
}
