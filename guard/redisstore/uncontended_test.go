package redisstore_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestAnUncontendedCallIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	load(t, s.Client(t))
	p := redistest.NewProxy(t, s.Addr())
	g := newGuard(t, p.Client(t))
	for try := range 20 { // until no answer was slow, since that is asked for again
		name := g.Name(fmt.Sprint(try))
		require.NoError(t, guard.Do(t.Context(), name, nothing))
		p.ResetCommands()
		s.ResetStats()
		for range 100 {
			require.NoError(t, guard.Do(t.Context(), name, nothing))
		}
		sent := p.Commands()
		require.GreaterOrEqual(t, sent["evalsha"], int64(200))
		if sent["evalsha"] == 200 {
			assert.Equal(t, map[string]int64{"evalsha": 200}, sent)
			assert.Equal(t, map[string]int64{"evalsha": 200, "get": 100, "time": 100, "set": 200, "del": 100}, s.CommandStats())
			return
		}
	}
	t.Error("never two commands a call")
}

// TestAnUncontendedCallAllocatesLittle is the promise; BenchmarkDo measures.
func TestAnUncontendedCallAllocatesLittle(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	g := newGuard(t, rdb)
	name := g.Name("x")
	for how, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": t.Context()} {
		allocs := math.Inf(1)
		for range 5 { // others allocate too, and the race detector empties pools
			allocs = min(allocs, testing.AllocsPerRun(50, func() {
				if err := guard.Do(ctx, name, nothing); err != nil {
					t.Error(err)
				}
			}))
		}
		assert.LessOrEqual(t, allocs, 30.0, how)
		t.Logf("%s: %v allocations", how, allocs)
	}
}

func TestAnIdleLeaseIsRenewedOncePerInterval(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	load(t, s.Client(t))
	p := redistest.NewProxy(t, s.Addr())
	seen := &recorder{}
	g := newGuard(t, p.Client(t), guard.TTL(1200*time.Millisecond), guard.Observe(seen))
	start := time.Now()
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
		p.ResetCommands()
		time.Sleep(2000 * time.Millisecond)
		return ctx.Err()
	}))
	intervals := time.Since(start).Seconds() / 0.4
	require.Empty(t, seen.of(guard.RenewFailed))
	renewed := len(seen.of(guard.Renewed))
	assert.LessOrEqual(t, float64(renewed), intervals/0.9+1)
	assert.GreaterOrEqual(t, renewed, 3)
	assert.LessOrEqual(t, p.Commands()["evalsha"], int64(renewed+3), "and the release")
}
