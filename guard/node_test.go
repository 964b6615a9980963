package guard_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

// A node whose answer is owed gets one request at a time, and none of what it was
// never asked for has to be released there.
func TestQuorumFrozenNodeGetsOneRequestAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		g := newGuard(t, q, guard.TTL(4*time.Second))
		require.NoError(t, guard.Do(t.Context(), g.Name("warm"), nothing))
		nodes[1].mode.Store(frozen)
		require.NoError(t, guard.Do(t.Context(), g.Name("first"), nothing))
		time.Sleep(2 * time.Second) // the limit is one
		before := nodes[1].acquires.Load()
		for i := range 1000 {
			require.NoError(t, guard.Do(t.Context(), g.Name(fmt.Sprint(i)), nothing))
		}
		assert.LessOrEqual(t, nodes[1].acquires.Load()-before, int32(1))
		nodes[1].mode.Store(passes)
		time.Sleep(3 * time.Second)
		released := nodes[1].releases.Load()
		assert.LessOrEqual(t, released, int32(50))
		require.NoError(t, guard.Do(t.Context(), g.Name("warm"), nothing))
		synctest.Wait()
		assert.Greater(t, nodes[1].releases.Load(), released, "it is in use again")
	})
}

// A node thaws after the release and answers a renewal that it has no lease: what
// is put there then does not stay.
func TestQuorumNodeThatThawsAfterTheReleaseKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		acquire := func(name string) guard.Lease {
			l, err := q.Acquire(t.Context(), guard.Request{Name: name, Owner: "owner-of-lease-" + name, TTL: 4 * time.Second})
			require.NoError(t, err)
			return l
		}
		nodes[1].mode.Store(frozen)
		acquire("first")
		time.Sleep(2 * time.Second) // the limit is one
		acquire("asked")
		synctest.Wait()
		x := acquire("x") // node 2 still owes an answer, and is not asked
		time.Sleep(1500 * time.Millisecond)
		thaw := make(chan struct{})
		nodes[1].renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
			<-thaw
			return nodes[1].Locker.Renew(ctx, l)
		}
		nodes[1].mode.Store(passes)
		x, err := q.Renew(t.Context(), x)
		require.NoError(t, err)
		synctest.Wait()
		nodes[1].mode.Store(frozen)
		require.NoError(t, q.Release(t.Context(), x))
		synctest.Wait() // it is not sent to node 2, which owes an answer
		nodes[1].mode.Store(passes)
		close(thaw)
		time.Sleep(1500 * time.Millisecond)
		assert.True(t, free(t, nodes[1].Locker, "x"))
	})
}
