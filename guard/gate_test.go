package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

// Who was refused asks one node after the other, and leaves alone the nodes that
// are free: another may be collecting them.
func TestQuorumContendersDoNotSplitTheVotes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 5)
		asked := func(f func()) (counts [5]int32) {
			for _, n := range nodes {
				n.acquires.Store(0)
			}
			f()
			synctest.Wait()
			for i, n := range nodes {
				counts[i] = n.acquires.Load()
			}
			return counts
		}
		held := make([]guard.Lease, 5)
		for i, n := range nodes[:4] {
			held[i] = rival(t, n.Locker, "a", time.Minute)
		}
		r := guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute, Queue: true}
		refused := func() {
			_, err := q.Acquire(t.Context(), r)
			require.ErrorIs(t, err, guard.ErrHeld)
		}
		assert.Equal(t, [5]int32{1, 1, 1, 1, 1}, asked(refused))
		assert.Equal(t, [5]int32{1, 1, 1, 0, 0}, asked(refused), "the same holder: a majority says so")
		require.NoError(t, nodes[0].Locker.Release(t.Context(), held[0]))
		time.Sleep(time.Millisecond)
		held[0] = rival(t, nodes[0].Locker, "a", time.Minute)
		assert.Equal(t, [5]int32{1, 0, 0, 0, 0}, asked(refused), "another holder: the name moves")
		assert.Equal(t, [5]int32{1, 1, 1, 0, 0}, asked(refused))
		for i := range 3 {
			require.NoError(t, nodes[i].Locker.Release(t.Context(), held[i]))
		}
		assert.Equal(t, [5]int32{2, 1, 1, 1, 1}, asked(func() {
			_, err := q.Acquire(t.Context(), r)
			require.NoError(t, err, "node 4 missed the release")
		}))
	})
}

func TestQuorumDoesNotTakeOneNodesWordForThatANameIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		for _, n := range nodes[:2] {
			rival(t, n.Locker, "a", time.Minute)
		}
		r := guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute, Queue: true}
		for range 2 {
			_, err := q.Acquire(t.Context(), r)
			require.ErrorIs(t, err, guard.ErrHeld)
			synctest.Wait()
		}
		nodes[1].wipe() // its lease is gone, node 1's is a trace
		l, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, q.Release(t.Context(), l))
	})
}

// contended is a quorum of three that knows who holds the name "a" at each node:
// r was refused it twice.
func contended(t *testing.T) (nodes []*faults, held []guard.Lease, q guard.Locker, r guard.Request) {
	t.Helper()
	nodes, q = newQuorum(t, 3)
	for _, n := range nodes {
		held = append(held, rival(t, n.Locker, "a", time.Minute))
	}
	r = guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute}
	for range 2 {
		_, err := q.Acquire(t.Context(), r)
		require.ErrorIs(t, err, guard.ErrHeld)
		synctest.Wait()
	}
	return nodes, held, q, r
}

// A release returns while a node has yet to hear of it. That node tells of a holder
// that others do not know, and the name is free all the same.
func TestQuorumReleasedNameIsFreeForWhoDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, held, q, r := contended(t)
		for i, n := range nodes {
			require.NoError(t, n.Locker.Release(t.Context(), held[i]))
		}
		time.Sleep(time.Millisecond)
		rival(t, nodes[0].Locker, "a", time.Minute) // its release is on the way
		l, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, q.Release(t.Context(), l))
	})
}

// A node that is slow is passed over while rivals are told apart, and asked for its
// vote all the same: the node limit has not passed.
func TestQuorumSlowNodeHasItsVoteUntilTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, held, q, r := contended(t)
		for i, n := range nodes[:2] {
			require.NoError(t, n.Locker.Release(t.Context(), held[i]))
		}
		nodes[0].acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			select {
			case <-ctx.Done():
				return guard.Lease{}, context.Cause(ctx)
			case <-time.After(200 * time.Millisecond): // four times the patience
				return nodes[0].Locker.Acquire(ctx, r)
			}
		}
		var others sync.WaitGroup
		for i := range 4 {
			others.Go(func() { // so that an answer is owed all the time
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				b := guard.Request{Name: "b", Owner: "bbbbbbbbbbbbbbbbbbbbbb", TTL: time.Minute}
				_, _ = q.Acquire(context.Background(), b)
			})
		}
		synctest.Wait()
		l, err := q.Acquire(t.Context(), r)
		others.Wait()
		time.Sleep(time.Second) // what is left is answered
		require.NoError(t, err)
		require.NoError(t, q.Release(t.Context(), l))
	})
}
