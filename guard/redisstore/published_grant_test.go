package redisstore_test

import (
	"context"
	"fmt"
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

// pair is a server, a store a that is fine and a store b behind a proxy.
func pair(t *testing.T, opts ...redisstore.Option) (*redis.Client, *redistest.Proxy, *redisstore.Store, *redisstore.Store) {
	t.Helper()
	s := redistest.Start(t)
	direct := s.Client(t)
	load(t, direct)
	p := redistest.NewProxy(t, s.Addr())
	return direct, p, newStore(t, direct, opts...), newStore(t, p.Client(t), opts...)
}

func woken(t *testing.T, held *guard.HeldError) {
	t.Helper()
	select {
	case <-held.Wake:
	case <-time.After(5 * time.Second):
		require.FailNow(t, "never woken")
	}
}

// message matches published grants.
func message() redistest.Match { return redistest.Match{Command: "message", Contains: "G "} }

func TestAPublishedGrantIsTheAnswer(t *testing.T) {
	t.Parallel()
	direct, p, a, b := pair(t)
	l := acquire(t, a, request("x"))
	r := request("x")
	held := queued(t, b, r)
	l.Waiters = true
	require.NoError(t, a.Release(t.Context(), l))
	r.Queue = true
	eventually(t, "granted", func() bool { return strings.Contains(value(t, direct, leaseKey("x")), r.Owner) })
	woken(t, held)
	p.ResetCommands()
	asked := time.Now()
	got := acquire(t, b, r)
	assert.Zero(t, p.Commands()["evalsha"], "no round trip")
	assert.GreaterOrEqual(t, got.Token, l.Token+guard.TokensPerGrant)
	assert.True(t, got.Until.Before(asked.Add(300*time.Millisecond)), "it is valid for the claim window, counted from the last request")
	assert.Equal(t, value(t, direct, fenceKey("x")), fmt.Sprint(int64(got.Token))+hint(value(t, direct, fenceKey("x"))))
	left := pttl(t, direct, leaseKey("x"))
	assert.LessOrEqual(t, left, 300*time.Millisecond)
	got, err := b.Renew(t.Context(), got)
	require.NoError(t, err)
	assert.Greater(t, pttl(t, direct, leaseKey("x")), 19*time.Second, "the first renewal extends it to the TTL")
	require.NoError(t, b.Release(t.Context(), got))
}

// hint is what follows the token in a mark.
func hint(mark string) string {
	if i := strings.IndexByte(mark, '|'); i >= 0 {
		return mark[i:]
	}
	return ""
}

// A grant is published, lies in a socket while its window ends and a third one
// takes the name, and is read then.
func TestAPublishedGrantReadAfterItsWindowIsRefused(t *testing.T) {
	t.Parallel()
	direct, p, a, b := pair(t)
	l := acquire(t, a, request("x"))
	r := request("x")
	held := queued(t, b, r)
	r.Queue = true
	f := p.HoldReply(message())
	l.Waiters = true
	require.NoError(t, a.Release(t.Context(), l))
	f.Wait(t, 1)
	eventually(t, "the claim window ends", func() bool { return value(t, direct, leaseKey("x")) == "" })
	third := acquire(t, a, request("x"))
	drain(held)
	f.End()
	woken(t, held)
	_, err := b.Acquire(t.Context(), r)
	require.ErrorIs(t, err, guard.ErrHeld, "two holders")
	require.NoError(t, a.Release(t.Context(), third))
	require.NoError(t, b.Release(t.Context(), guard.Lease{Request: r}))
}

func drain(held *guard.HeldError) {
	select {
	case <-held.Wake:
	default:
	}
}

// The same owner was queued again in between: its window would still be running
// if it were counted from that last request.
func TestAPublishedGrantOfAnEarlierTurnIsRefused(t *testing.T) {
	t.Parallel()
	direct, p, a, b := pair(t)
	l := acquire(t, a, request("x"))
	r := request("x")
	queued(t, b, r)
	r.Queue = true
	f := p.HoldReply(message())
	l.Waiters = true
	require.NoError(t, a.Release(t.Context(), l))
	f.Wait(t, 1)
	eventually(t, "the claim window ends", func() bool { return value(t, direct, leaseKey("x")) == "" })
	third := acquire(t, a, request("x"))
	held := refused(t, b, r) // queued again, now
	require.NotNil(t, held.Wake)
	require.Equal(t, third.Token, held.Mark)
	drain(held)
	f.End()
	woken(t, held)
	_, err := b.Acquire(t.Context(), r)
	require.ErrorIs(t, err, guard.ErrHeld, "two holders: the token of the message is below the mark")
	third.Waiters = true
	require.NoError(t, a.Release(t.Context(), third))
	woken(t, held)
	got := acquire(t, b, r)
	assert.GreaterOrEqual(t, got.Token, third.Token+guard.TokensPerGrant)
	require.NoError(t, b.Release(t.Context(), got))
}

// A message names an owner that no longer waits: the lock is given back at once
// instead of standing idle for the claim window.
func TestAGrantForNobodyIsGivenBack(t *testing.T) {
	t.Parallel()
	direct, _, a, b := pair(t, redisstore.ClaimWindow(10*time.Second))
	l := acquire(t, a, request("x"))
	r := request("x")
	queued(t, b, r)
	// Another queue entry with b's channel, of an owner b does not know.
	ctx := t.Context()
	entry := direct.HGet(ctx, leaseKey("x")+":w", r.Owner).Val()
	ghost := newOwner()
	require.NoError(t, direct.HSet(ctx, leaseKey("x")+":w", ghost, entry).Err())
	require.NoError(t, direct.ZAdd(ctx, leaseKey("x")+":q", redis.Z{Score: 0, Member: ghost}).Err())
	l.Waiters = true
	require.NoError(t, a.Release(ctx, l))
	eventually(t, "given back and passed on to the one who waits", func() bool {
		return strings.Contains(value(t, direct, leaseKey("x")), r.Owner)
	})
	r.Queue = true
	require.NoError(t, b.Release(ctx, acquire(t, b, r)))
}

// A message for an owner that holds, or whose release is under way, changes
// nothing: it may be late, and it may be forged.
func TestAGrantForAHolderIsIgnored(t *testing.T) {
	t.Parallel()
	direct, _, a, b := pair(t)
	ctx := t.Context()
	l := acquire(t, a, request("x"))
	r := request("x")
	held := queued(t, b, r)
	channel := strings.Split(direct.HGet(ctx, leaseKey("x")+":w", r.Owner).Val(), "|")[1]
	r.Queue = true
	l.Waiters = true
	require.NoError(t, a.Release(ctx, l))
	woken(t, held)
	got := acquire(t, b, r)
	got, err := b.Renew(ctx, got)
	require.NoError(t, err)
	now := time.Now()
	publish := func(payload string) {
		require.EqualValues(t, 1, direct.Publish(ctx, channel, payload).Val())
	}
	publish(fmt.Sprintf("G %s %d 300 %d 0 %s", r.Owner, int64(got.Token)+64, now.Unix(), leaseKey("x")))
	// A name of its own tells when the messages before were taken in.
	probe := request("probe")
	lp := acquire(t, a, request("probe"))
	hp := queued(t, b, probe)
	lp.Waiters = true
	require.NoError(t, a.Release(ctx, lp))
	woken(t, hp)
	assert.Contains(t, value(t, direct, leaseKey("x")), r.Owner)
	require.NoError(t, b.Release(ctx, got))
	publish(fmt.Sprintf("G %s %d 300 %d 0 %s", r.Owner, int64(got.Token)+128, now.Unix(), leaseKey("x")))
	next := acquire(t, a, request("x"))
	assert.Greater(t, next.Token, got.Token)
	require.NoError(t, a.Release(ctx, next))
	require.NoError(t, b.Release(ctx, guard.Lease{Request: probe}))
}

// Rubbish on the channel must not bring anything down.
func TestMessagesThatAreNotOursAreIgnored(t *testing.T) {
	t.Parallel()
	direct, _, a, b := pair(t)
	ctx := t.Context()
	l := acquire(t, a, request("x"))
	r := request("x")
	queued(t, b, r)
	channel := strings.Split(direct.HGet(ctx, leaseKey("x")+":w", r.Owner).Val(), "|")[1]
	for _, payload := range []string{
		"", "G", "G ", "T", "T " + r.Owner, "T " + r.Owner + " -5", "T " + r.Owner + " x", "X " + r.Owner + " 1",
		"G " + r.Owner, "G " + r.Owner + " 0 0 0 0 ", "G " + r.Owner + " 99999999999999999999 300 1 1 " + leaseKey("x"),
		"G " + r.Owner + " 5 300 1 1 " + leaseKey("other"), "G " + r.Owner + " 5 -300 1 1 " + leaseKey("x"),
		"G " + newOwner() + " 5 300 1 1 " + fenceKey("x"), "G short 5 300 1 1 " + leaseKey("x"),
	} {
		require.EqualValues(t, 1, direct.Publish(ctx, channel, payload).Val(), payload)
	}
	r.Queue = true
	refused(t, b, r)
	require.NoError(t, a.Release(ctx, l))
	eventually(t, "granted", func() bool {
		_, err := b.Acquire(ctx, r)
		return err == nil
	})
	require.NoError(t, b.Release(ctx, guard.Lease{Request: r}))
}

// A waiting process that gets the lock must keep it for as long as the work
// takes, with the default TTL, however little of the claim window is left.
func TestAClaimedLeaseIsRenewedBeforeItsWindowEnds(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 60 * time.Millisecond, 120 * time.Millisecond, 180 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			rdb := s.Client(t)
			a, b := newGuard(t, rdb), newGuard(t, rdb)
			name := redistest.Unique(t)
			held, err := guard.Acquire(t.Context(), a.Name(name))
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				done <- guard.Do(context.Background(), b.Name(name), func(ctx context.Context) error {
					time.Sleep(600 * time.Millisecond)
					return ctx.Err()
				})
			}()
			isQueued(t, rdb, name, 1)
			time.Sleep(200*time.Millisecond + after) // the head asks every 200 ms; every part of that must do
			require.NoError(t, held.Release())
			require.NoError(t, <-done)
		})
	}
}
