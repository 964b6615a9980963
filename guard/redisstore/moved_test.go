package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// overlap holds x with g, makes the lease vanish, and lets another in. It returns
// how long both were in, by the first one's context, and both tokens.
func overlap(t *testing.T, a, b *guard.Guard, vanish func()) (both time.Duration, first, second fence.Token) {
	t.Helper()
	entered := make(chan time.Time, 1)
	var told time.Time
	rival := make(chan error, 1)
	err := guard.Do(t.Context(), a.Name("x"), func(ctx context.Context) error {
		first = fence.From(ctx)
		vanish()
		go func() {
			rival <- guard.Do(t.Context(), b.Name("x"), func(ctx context.Context) error {
				second = fence.From(ctx)
				entered <- time.Now()
				return nil
			})
		}()
		<-ctx.Done()
		told = time.Now()
		return nil
	})
	require.NoError(t, <-rival)
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	return max(0, told.Sub(<-entered)), first, second
}

// A replica that missed the lease is promoted. The holder is told at its next
// renewal, and no later.
func TestAPromotedReplicaWithoutTheLeaseIsNoticedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Replica(t, primary)
	p := redistest.NewProxy(t, primary.Addr())
	a := newGuard(t, p.Client(t), guard.TTL(1500*time.Millisecond))
	require.NoError(t, guard.Do(t.Context(), a.Name("warm"), nothing))
	require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err()) // detached before the lease
	b := newGuard(t, replica.Client(t))
	both, _, _ := overlap(t, a, b, func() {
		p.Retarget(replica.Addr())
		p.Reset()
	})
	assert.Less(t, both, time.Second, "a third of the TTL, and what a renewal takes")
	assert.Positive(t, both, "nobody promises that two never hold across a failover that loses writes")
}

// Memory runs short and the policy lets Redis throw keys away.
func TestAnEvictedLeaseIsNoticedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory-policy", "allkeys-random")
	rdb := s.Client(t)
	a := newGuard(t, rdb, guard.TTL(1500*time.Millisecond))
	b := newGuard(t, rdb)
	both, first, second := overlap(t, a, b, func() {
		setting(t, rdb, "maxmemory", "2mb")
		for i := 0; value(t, rdb, leaseKey("x")) != ""; i++ {
			_ = rdb.Set(t.Context(), fmt.Sprint("filler", i), make([]byte, 10_000), 0).Err()
		}
		setting(t, rdb, "maxmemory", "0")
	})
	assert.Less(t, both, time.Second)
	assert.Greater(t, second, first, "tokens still rise: the mark follows the clock")
	err := newStore(t, rdb).Check(t.Context())
	require.ErrorContains(t, err, "allkeys-random")
	// Where CONFIG may not be asked nobody complains.
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err())
	require.NoError(t, newStore(t, rdb).Check(t.Context()))
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "+config").Err())
}
