package guardtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// waits asks for a place in the queue until there is one.
func (s *suite) waits(r guard.Request) *guard.HeldError {
	s.Helper()
	for range 500 {
		held := s.refused(r)
		if held.Wake != nil {
			return held
		}
		time.Sleep(5 * time.Millisecond) // its subscription is being set up
	}
	require.Fail(s, "never queued")
	return nil
}

// woken asks again whenever the store says so.
func (s *suite) woken(r guard.Request, held *guard.HeldError, within time.Duration) guard.Lease {
	s.Helper()
	over := time.After(within)
	for {
		select {
		case <-held.Wake:
		case <-time.After(max(held.RetryIn, time.Millisecond)):
		case <-over:
			require.Fail(s, "not woken in time")
		}
		l, err := s.Acquire(s.Context(), r)
		if err == nil {
			return l
		}
		require.ErrorAs(s, err, &held)
	}
}

func (s *suite) queued() guard.Request {
	r := s.request()
	r.Queue = true
	return r
}

func (s *suite) queueOrder() {
	l := s.acquire(s.request())
	requests := make([]guard.Request, 5)
	verdicts := make([]*guard.HeldError, 5)
	for i := range requests {
		requests[i] = s.queued()
		verdicts[i] = s.waits(requests[i])
	}
	for i, r := range requests {
		require.NoError(s, s.Release(s.Context(), l))
		next := s.woken(r, verdicts[i], time.Second)
		assert.GreaterOrEqual(s, next.Token, l.Token+guard.TokensPerGrant)
		assert.Greater(s, next.Until, time.Now())
		l = next
		for j, other := range requests[i+1:] { // they keep their places
			verdicts[i+1+j] = s.waits(other)
		}
	}
	require.NoError(s, s.Release(s.Context(), l))
}

func (s *suite) noBarging() {
	l := s.acquire(s.request())
	r := s.queued()
	held := s.waits(r)
	require.NoError(s, s.Release(s.Context(), l))
	_ = s.refused(s.request())
	require.NoError(s, s.Release(s.Context(), s.woken(r, held, time.Second)))
	require.NoError(s, s.Release(s.Context(), s.acquire(s.request())))
}

func (s *suite) leavers() {
	l := s.acquire(s.request())
	first, second := s.queued(), s.queued()
	_ = s.waits(first)
	held := s.waits(second)
	require.NoError(s, s.Release(s.Context(), guard.Lease{Request: first}))
	start := time.Now()
	require.NoError(s, s.Release(s.Context(), l))
	next := s.woken(second, held, time.Second)
	assert.Less(s, time.Since(start), s.claim, "nobody waited for the one who left")
	require.NoError(s, s.Release(s.Context(), next))
}

func (s *suite) deadWaiter() {
	l := s.acquire(s.request())
	first, second := s.queued(), s.queued()
	_ = s.waits(first)
	held := s.waits(second)
	start := time.Now()
	require.NoError(s, s.Release(s.Context(), l))
	next := s.woken(second, held, s.claim+2*time.Second)
	assert.GreaterOrEqual(s, time.Since(start), s.claim-10*time.Millisecond)
	require.NoError(s, s.Release(s.Context(), next))
	require.NoError(s, s.Release(s.Context(), guard.Lease{Request: first}))
}

func (s *suite) minHoldQueue() {
	r := s.request()
	r.MinHold = 300 * time.Millisecond
	l := s.acquire(r)
	w := s.queued()
	held := s.waits(w)
	require.NoError(s, s.Release(s.Context(), l))
	next := s.woken(w, held, 2*time.Second)
	assert.Less(s, time.Since(l.Since), r.MinHold+300*time.Millisecond, "not at the end of the old lease")
	require.NoError(s, s.Release(s.Context(), next))
}

func (s *suite) concurrent() {
	const owners, rounds = 8, 25
	var inside atomic.Int32
	var mu sync.Mutex
	var last fence.Token
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for range owners {
		wg.Go(func() {
			for range rounds {
				r := s.request()
				var l guard.Lease
				for {
					var err error
					if l, err = s.Acquire(ctx, r); err == nil {
						break
					}
					if !assert.ErrorIs(s, err, guard.ErrHeld) {
						return
					}
					time.Sleep(rand.N(2 * time.Millisecond))
				}
				assert.Equal(s, int32(1), inside.Add(1))
				mu.Lock()
				assert.Greater(s, l.Token, last)
				last = l.Token
				mu.Unlock()
				inside.Add(-1)
				assert.NoError(s, s.Release(ctx, l))
			}
		})
	}
	wg.Wait()
}
