package nodes_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// secondHolder restarts a node empty that a lease needs for its majority, and
// tells whether another process gets the name while the lease stands.
func (ns nodes) secondHolder(t *testing.T, name string, layer guard.Layer) (second bool) {
	t.Helper()
	a, b := ns.process(t, layer), ns.process(t, layer)
	a.cut(2)
	first := acquire(t, a, request(name)) // by nodes 0 and 1
	ns[1].Restart()
	r := request(name)
	var l guard.Lease
	eventually(t, "free again", func() bool {
		var err error
		l, err = b.Acquire(t.Context(), r)
		return err == nil
	})
	second = time.Now().Before(first.Until)
	if !second {
		assert.Greater(t, l.Token, first.Token)
	}
	require.NoError(t, b.Release(t.Context(), l))
	return second
}

func TestANodeRestartedEmptyGivesNoLeaseAwayTwice(t *testing.T) {
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			ns := start(t, 3)
			for run := range 2 {
				ns.inService(t)
				assert.False(t, ns.secondHolder(t, fmt.Sprint("x", run), nil), "two holders")
			}
		})
	}
}

// The same harness finds two holders where it should.
func TestWithoutGraceANodeRestartedEmptyGivesALeaseAway(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	found := 0
	for run := range 5 {
		if ns.secondHolder(t, fmt.Sprint("x", run), noGrace) {
			found++
		}
	}
	assert.Positive(t, found)
	t.Logf("two holders in %d of 5 runs", found)
}

// Nodes lose their data one after the other: a restarted node gets the lease back
// once its grace is over, and the work goes on until no majority is left. Another
// process asks all the time.
func TestARestartedNodeGetsTheLeaseBackAfterItsGrace(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	ns.inService(t)
	a, b := ns.process(t, nil), ns.process(t, nil)
	var oracle redistest.Oracle
	var over atomic.Bool
	rival := make(chan struct{})
	go func() {
		defer close(rival)
		for !over.Load() {
			_, _ = guard.Try(t.Context(), b.g.Name("x"), func(context.Context) error { oracle.Enter("x")(); return nil })
			time.Sleep(5 * time.Millisecond)
		}
	}()
	var told time.Duration
	err := guard.Do(t.Context(), a.g.Name("x"), func(ctx context.Context) error {
		defer oracle.Enter("x")()
		var mine string
		eventually(t, "all nodes have it", func() bool { // the rival may have had one of them for a moment
			mine = ns.holder(t, 0, "x")
			return mine != "" && ns.holder(t, 1, "x") == mine && ns.holder(t, 2, "x") == mine
		})
		for i := range 2 {
			ns[i].Restart()
			restarted := time.Now()
			assert.Empty(t, ns.holder(t, i, "x"))
			eventually(t, "given back", func() bool { return ns.holder(t, i, "x") == mine })
			assert.Greater(t, time.Since(restarted), (grace-1)*time.Second, "not in its grace")
			assert.Less(t, time.Since(restarted), (grace+1)*time.Second+ttl, "two renewals after it")
			assert.LessOrEqual(t, ns[i].Keys(leaseKey("x"))[leaseKey("x")], ttl)
			if !assert.NoError(t, ctx.Err()) {
				return nil
			}
		}
		ns[1].Stop()
		ns[2].Stop()
		dead := time.Now()
		err := untilDone(ctx)
		told = time.Since(dead)
		return err
	})
	over.Store(true)
	<-rival
	ns[1].Restart() // for what is owed to it
	ns[2].Restart()
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, guard.LostDeadline, lost.Reason, "no majority answers")
	assert.Less(t, told, ttl+500*time.Millisecond)
	assert.Equal(t, 1, oracle.Max())
}

// Five nodes, of which two missed the acquisition; then one of the other three
// loses its data, before or after a renewal has repaired what was missed.
func TestMissedNodesAreRepairedAndNeverTwoHold(t *testing.T) {
	for wiped := range 3 {
		for _, repaired := range []bool{false, true} {
			t.Run(fmt.Sprintf("node %d repaired=%v", wiped, repaired), func(t *testing.T) {
				t.Parallel()
				ns := start(t, 5)
				ns.inService(t)
				a, b := ns.process(t, nil), ns.process(t, nil)
				a.cut(3)
				a.cut(4)
				var oracle redistest.Oracle
				var entered atomic.Int32
				rival := make(chan error, 1)
				err := guard.Do(t.Context(), a.g.Name("x"), func(ctx context.Context) error {
					leave := oracle.Enter("x")
					defer leave()
					go func() {
						rival <- guard.Do(t.Context(), b.g.Name("x"), func(context.Context) error {
							defer oracle.Enter("x")()
							entered.Add(1)
							return nil
						})
					}()
					a.mend(3)
					a.mend(4)
					if repaired {
						for _, i := range []int{3, 4} {
							eventually(t, "repaired", func() bool { return ns.holder(t, i, "x") == ns.holder(t, 0, "x") })
						}
					}
					ns[wiped].Restart()
					select {
					case <-ctx.Done():
					case <-time.After(2 * ttl):
					}
					assert.Zero(t, entered.Load())
					return ctx.Err()
				})
				if repaired {
					require.NoError(t, err, "four of five have it")
				} else if err != nil { // two of five: lost, unless the repair came first
					require.ErrorIs(t, err, guard.ErrLost)
				}
				require.NoError(t, <-rival)
				assert.Equal(t, 1, oracle.Max())
			})
		}
	}
}
