// Package guardtest holds the contract of guard.Locker as a test suite. A new
// store, kind of lock, or layer is right when it passes:
//
//	func TestContract(t *testing.T) {
//		guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker { return mystore.New() }})
//	}
//
// The suite takes a few seconds of real time, or none inside a testing/synctest
// bubble.
package guardtest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// Config says what is tested.
type Config struct {
	// New returns the Locker under test. It is called for each test; names are
	// unique, so it may return the same one.
	New func(t *testing.T) guard.Locker
	// NoQueue is for a Locker that never queues, such as a quorum: its refusals
	// have no Wake.
	NoQueue bool
	// Bubble runs each test in a bubble of its own; testing/synctest.Test for a
	// store that works there, nil for real time.
	Bubble func(t *testing.T, f func(*testing.T))
	// Claim is how long a grant to a waiter waits to be claimed; 300 ms if 0.
	Claim time.Duration
}

// Run runs the suite.
func Run(t *testing.T, c Config) {
	if c.Bubble == nil {
		c.Bubble = func(t *testing.T, f func(*testing.T)) { t.Parallel(); f(t) }
	}
	if c.Claim == 0 {
		c.Claim = 300 * time.Millisecond
	}
	tests := []struct {
		name  string
		queue bool
		f     func(*suite)
	}{
		{"a free name is granted, and to the same owner again", false, (*suite).grants},
		{"a taken name is refused with what is known of the holder", false, (*suite).refuses},
		{"only the owner releases, and only once", false, (*suite).releases},
		{"a lease that is not renewed ends", false, (*suite).expires},
		{"a renewed lease stands", false, (*suite).renews},
		{"tokens rise over release and expiry", false, (*suite).tokensRise},
		{"renewal raises the stored token and never lowers it", false, (*suite).renewRaises},
		{"floor and proposal", false, (*suite).floors},
		{"an abandoned owner is undone and refused", false, (*suite).abandons},
		{"a minimum hold outlives the release", false, (*suite).minHold},
		{"an ended context changes nothing", false, (*suite).endedContext},
		{"names do not touch each other", false, (*suite).names},
		{"bad requests are refused", false, (*suite).badRequests},
		{"concurrent owners exclude each other", false, (*suite).concurrent},
		{"waiters get the name in order of arrival", true, (*suite).queueOrder},
		{"nobody barges in before a waiter", true, (*suite).noBarging},
		{"a waiter that left costs nothing", true, (*suite).leavers},
		{"a dead waiter costs its claim window", true, (*suite).deadWaiter},
		{"a waiter hears of a minimum hold's end", true, (*suite).minHoldQueue},
	}
	for _, tc := range tests {
		if tc.queue && c.NoQueue {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			c.Bubble(t, func(t *testing.T) {
				tc.f(&suite{T: t, Locker: c.New(t), claim: c.Claim, name: "guardtest/" + newOwner()[:8]})
			})
		})
	}
}

type suite struct {
	*testing.T
	guard.Locker
	claim time.Duration
	name  string
}

const longTTL = 20 * time.Second

func newOwner() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// request is one for the suite's name by a fresh owner.
func (s *suite) request() guard.Request {
	return guard.Request{Name: s.name, Owner: newOwner(), TTL: longTTL, Label: "label of " + s.name, Trace: "00-trace-01"}
}

func (s *suite) acquire(r guard.Request) guard.Lease {
	s.Helper()
	l, err := s.Acquire(s.Context(), r)
	require.NoError(s, err)
	return l
}

func (s *suite) refused(r guard.Request) *guard.HeldError {
	s.Helper()
	_, err := s.Acquire(s.Context(), r)
	var held *guard.HeldError
	require.ErrorAs(s, err, &held)
	require.ErrorIs(s, err, guard.ErrHeld)
	require.NotErrorIs(s, err, guard.ErrUnavailable)
	return held
}

// eventually asks until the name is granted, as a poller does.
func (s *suite) eventually(r guard.Request, within time.Duration) guard.Lease {
	s.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		l, err := s.Acquire(s.Context(), r)
		if err == nil {
			return l
		}
		require.ErrorIs(s, err, guard.ErrHeld)
		require.Less(s, time.Since(start), within, "not granted in time")
	}
}

func (s *suite) grants() {
	r := s.request()
	sent := time.Now()
	l := s.acquire(r)
	assert.Equal(s, r, l.Request)
	assert.Positive(s, l.Token)
	assert.Less(s, int64(l.Token), int64(1)<<53)
	assert.InDelta(s, time.Now().UnixMicro(), int64(l.Granted), 5e6, "server time, µs")
	assert.False(s, l.Since.Before(sent))
	assert.LessOrEqual(s, l.Until, guard.Until(time.Now(), r.TTL))
	assert.Greater(s, l.Until, sent.Add(r.TTL/2))
	assert.Less(s, l.HandOffs, guard.TokensPerGrant)
	again := s.acquire(r)
	assert.Equal(s, l.Token, again.Token, "asking again returns the lease already granted")
	require.NoError(s, s.Release(s.Context(), again))
}

func (s *suite) refuses() {
	l := s.acquire(s.request())
	held := s.refused(s.request())
	for range 50 { // nodes of a quorum may need a moment to agree on it
		if held.Token == l.Token {
			break
		}
		time.Sleep(10 * time.Millisecond)
		held = s.refused(s.request())
	}
	assert.Equal(s, s.name, held.Name)
	assert.Equal(s, l.Label, held.Holder)
	assert.Equal(s, l.Trace, held.Trace)
	assert.Equal(s, l.Token, held.Token)
	assert.GreaterOrEqual(s, held.Mark, held.Token)
	assert.InDelta(s, time.Now().UnixMicro(), int64(held.ServerTime), 5e6)
	assert.Positive(s, held.RetryIn)
	assert.LessOrEqual(s, held.RetryIn, longTTL)
	assert.False(s, held.Foreign)
	assert.Nil(s, held.Wake, "it did not ask to be queued")
	require.NoError(s, s.Release(s.Context(), l))
}

func (s *suite) releases() {
	l := s.acquire(s.request())
	other := l
	other.Owner = newOwner()
	err := s.Release(s.Context(), other)
	require.ErrorIs(s, err, guard.ErrLost)
	require.NotErrorIs(s, err, guard.ErrHeld)
	_ = s.refused(s.request())
	require.NoError(s, s.Release(s.Context(), l))
	next := s.acquire(s.request())
	require.ErrorIs(s, s.Release(s.Context(), l), guard.ErrLost)
	var lost *guard.LostError
	require.ErrorAs(s, s.Release(s.Context(), l), &lost)
	assert.Equal(s, guard.LostTaken, lost.Reason)
	require.NoError(s, s.Release(s.Context(), next))
	require.ErrorAs(s, s.Release(s.Context(), next), &lost)
	assert.Equal(s, guard.LostGone, lost.Reason)
}

func (s *suite) expires() {
	r := s.request()
	r.TTL = 200 * time.Millisecond
	l := s.acquire(r)
	next := s.eventually(s.request(), 2*time.Second)
	assert.False(s, time.Now().Before(l.Until), "the local end comes first")
	_, err := s.Renew(s.Context(), l)
	require.ErrorIs(s, err, guard.ErrLost)
	require.ErrorIs(s, s.Release(s.Context(), l), guard.ErrLost)
	require.NoError(s, s.Release(s.Context(), next))
	_, err = s.Renew(s.Context(), next)
	require.ErrorIs(s, err, guard.ErrLost)
	require.NoError(s, s.Release(s.Context(), s.acquire(s.request())), "a renewal creates nothing")
}

func (s *suite) renews() {
	r := s.request()
	r.TTL = 300 * time.Millisecond
	l := s.acquire(r)
	for range 6 {
		time.Sleep(100 * time.Millisecond)
		sent := time.Now()
		next, err := s.Renew(s.Context(), l)
		require.NoError(s, err)
		assert.Equal(s, l.Request, next.Request)
		assert.Equal(s, l.Token, next.Token)
		assert.False(s, next.Until.Before(guard.Until(sent, r.TTL)))
		assert.LessOrEqual(s, next.Until, guard.Until(time.Now(), r.TTL))
		l = next
	}
	_ = s.refused(s.request())
	require.NoError(s, s.Release(s.Context(), l))
}

func (s *suite) tokensRise() {
	var last fence.Token
	for i := range 20 {
		r := s.request()
		if i%5 == 4 {
			r.TTL = 100 * time.Millisecond
		}
		l := s.eventually(r, 5*time.Second)
		if last > 0 {
			assert.GreaterOrEqual(s, l.Token, last+guard.TokensPerGrant)
		}
		last = l.Token
		if i%5 != 4 {
			require.NoError(s, s.Release(s.Context(), l))
		}
	}
}

func (s *suite) renewRaises() {
	l := s.acquire(s.request())
	raised, lowered := l, l
	raised.Token += 1_000_000
	lowered.Token -= 1000
	_, err := s.Renew(s.Context(), raised)
	require.NoError(s, err)
	_, err = s.Renew(s.Context(), lowered)
	require.NoError(s, err)
	assert.Equal(s, raised.Token, s.acquire(l.Request).Token)
	require.NoError(s, s.Release(s.Context(), raised))
	next := s.acquire(s.request())
	assert.GreaterOrEqual(s, next.Token, raised.Token+guard.TokensPerGrant)
	far := next
	far.Token += fence.Token(2 * time.Hour / time.Microsecond)
	_, err = s.Renew(s.Context(), far)
	require.ErrorIs(s, err, guard.ErrInvalid)
	require.NoError(s, s.Release(s.Context(), next))
}

func (s *suite) floors() {
	now := fence.Token(time.Now().UnixMicro())
	ahead := func(d time.Duration) fence.Token { return now + fence.Token(d/time.Microsecond) }
	r := s.request()
	r.Propose = ahead(time.Hour)
	l := s.acquire(r)
	assert.Less(s, l.Token, ahead(time.Minute), "a proposal too far ahead is ignored")
	require.NoError(s, s.Release(s.Context(), l))
	r = s.request()
	r.Propose = ahead(20 * time.Second)
	l = s.acquire(r)
	assert.Equal(s, r.Propose, l.Token)
	require.NoError(s, s.Release(s.Context(), l))
	r = s.request()
	r.Propose, r.Floor = ahead(10*time.Second), ahead(30*time.Second)
	l = s.acquire(r)
	assert.Equal(s, r.Floor, l.Token)
	require.NoError(s, s.Release(s.Context(), l))
	r = s.request()
	r.Floor = ahead(2 * time.Hour)
	_, err := s.Acquire(s.Context(), r)
	require.ErrorIs(s, err, guard.ErrInvalid)
}

func (s *suite) abandons() {
	r := s.request()
	s.acquire(r)
	require.NoError(s, s.Release(s.Context(), guard.Lease{Request: r}))
	_, err := s.Acquire(s.Context(), r)
	require.ErrorIs(s, err, guard.ErrLost, "a late copy of the request")
	r = s.request()
	require.NoError(s, s.Release(s.Context(), guard.Lease{Request: r}), "it may never have arrived")
	_, err = s.Acquire(s.Context(), r)
	require.ErrorIs(s, err, guard.ErrLost)
	require.NoError(s, s.Release(s.Context(), s.acquire(s.request())))
}

func (s *suite) minHold() {
	r := s.request()
	r.MinHold = 300 * time.Millisecond
	start := time.Now()
	l := s.acquire(r)
	require.NoError(s, s.Release(s.Context(), l))
	held := s.refused(s.request())
	assert.LessOrEqual(s, held.RetryIn, r.MinHold)
	_, err := s.Renew(s.Context(), l)
	require.ErrorIs(s, err, guard.ErrLost, "a late renewal does not undo it")
	_, err = s.Acquire(s.Context(), r)
	require.Error(s, err, "nor does a late copy of the request")
	next := s.eventually(s.request(), 2*time.Second)
	assert.GreaterOrEqual(s, time.Since(start), r.MinHold-time.Millisecond)
	require.NoError(s, s.Release(s.Context(), next))
}

func (s *suite) endedContext() {
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(s.Context())
	cancel(cause)
	r := s.request()
	_, err := s.Acquire(ctx, r)
	require.ErrorIs(s, err, cause)
	l := s.acquire(s.request())
	_, err = s.Renew(ctx, l)
	require.ErrorIs(s, err, cause)
	require.ErrorIs(s, s.Release(ctx, l), cause)
	_ = s.refused(s.request())
	require.NoError(s, s.Release(s.Context(), l))
}

func (s *suite) names() {
	var leases []guard.Lease
	for _, suffix := range []string{"", ":fence", ":q", ":w", ":x:", " ", "/a", "A", "*", "é"} {
		r := s.request()
		r.Name += suffix
		leases = append(leases, s.acquire(r))
	}
	for _, l := range leases {
		require.NoError(s, s.Release(s.Context(), l))
	}
}

func (s *suite) badRequests() {
	for _, change := range []func(*guard.Request){
		func(r *guard.Request) { r.Name = "" },
		func(r *guard.Request) { r.Owner = "" },
		func(r *guard.Request) { r.TTL = 0 },
		func(r *guard.Request) { r.TTL = -time.Second },
	} {
		r := s.request()
		change(&r)
		_, err := s.Acquire(s.Context(), r)
		require.ErrorIs(s, err, guard.ErrInvalid)
	}
}
