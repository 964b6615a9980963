package timing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// One node of a Cluster stands still while many ask it: those who want names on
// other nodes do not notice.
func TestAFrozenNodeOfAClusterDoesNotHoldUpOthers(t *testing.T) {
	cluster := redistest.Cluster(t)
	g := newGuard(t, cluster.Client(t, func(o *redis.ClusterOptions) {
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout = 30*time.Second, 30*time.Second, 30*time.Second
	}))
	var stuck, fine []string
	for i := 0; len(stuck) < 100 || len(fine) < 100; i++ {
		name := fmt.Sprint("n", i)
		if cluster.Of(leaseKey(name)) == cluster[0] {
			stuck = append(stuck, name)
		} else {
			fine = append(fine, name)
		}
	}
	for _, name := range append(stuck[:5:5], fine[:5]...) {
		require.NoError(t, guard.Do(t.Context(), g.Name(name), nothing))
	}
	cluster[0].Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var callers sync.WaitGroup
	for _, name := range stuck {
		callers.Go(func() { assert.ErrorIs(t, guard.Do(ctx, g.Name(name), nothing), guard.ErrUnavailable) })
	}
	var over durations
	var done int
	var mu sync.Mutex
	spread(16, 16, func(w int) {
		for i := w; ctx.Err() == nil; i += 16 {
			start := time.Now()
			if assert.NoError(t, guard.Do(t.Context(), g.Name(fine[i%len(fine)]), nothing)) {
				over.add(time.Since(start))
			}
			mu.Lock()
			done++
			mu.Unlock()
		}
	})
	callers.Wait()
	over.within(t, 100*time.Millisecond)
	assert.Greater(t, done, 1000)
	cluster[0].Thaw()
	soon(t, func() bool { // what the frozen node was asked for is undone
		for key := range cluster.Keys("lock:{") {
			if key[len(key)-1] == '}' {
				return false
			}
		}
		return true
	})
}

// A server that says nothing is given 10 s by a store that is asked without a
// deadline, however many ask; a release is given what it says.
func TestASilentServerIsGivenUp(t *testing.T) {
	s := redistest.Start(t)
	store, err := redisstore.New(s.Client(t, patient))
	require.NoError(t, err)
	g := newGuard(t, s.Client(t, patient), guard.ReleaseWithin(time.Second))
	held := make([]*guard.Held, 20)
	for i := range held {
		held[i], err = guard.Acquire(t.Context(), g.Name("held", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	owner := "AAAAAAAAAAAAAAAAAAAAA"
	s.Freeze()
	var asked, released durations
	spread(300, 300, func(i int) {
		start := time.Now()
		if i < len(held) {
			assert.NoError(t, held[i].Release(), "it goes on in the background")
			released.add(time.Since(start))
			return
		}
		_, err := store.Acquire(context.Background(), guard.Request{
			Name: fmt.Sprint("n", i), Owner: owner + string(rune('A'+i%26)), TTL: 20 * time.Second,
		})
		asked.add(time.Since(start))
		assert.ErrorIs(t, err, guard.ErrUnavailable)
		assert.ErrorContains(t, err, "no answer within 10s")
	})
	released.within(t, time.Second+slack)
	asked.within(t, 10*time.Second+slack)
	assert.GreaterOrEqual(t, asked.list[0], 10*time.Second)
	s.Thaw()
}
