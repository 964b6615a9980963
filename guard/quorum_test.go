package guard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/guardtest"
)

func newQuorum(t *testing.T, n int) ([]*faults, guard.Locker) {
	t.Helper()
	nodes := make([]*faults, n)
	lockers := make([]guard.Locker, n)
	for i := range nodes {
		nodes[i] = &faults{Locker: newWipeable()}
		lockers[i] = nodes[i]
	}
	q, err := guard.Quorum(lockers)
	require.NoError(t, err)
	return nodes, q
}

func TestQuorumKeepsTheContract(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			guardtest.Run(t, guardtest.Config{NoQueue: true, Bubble: synctest.Test, New: func(t *testing.T) guard.Locker {
				_, q := newQuorum(t, n)
				return q
			}})
		})
	}
}

func TestQuorumRefusesWhatCannotBeAMajority(t *testing.T) {
	s := newFaults()
	for _, nodes := range [][]guard.Locker{nil, {s}, {s, s}, {s, s, s, s}, {s, nil, s}} {
		_, err := guard.Quorum(nodes)
		require.ErrorIs(t, err, guard.ErrInvalid)
	}
	_, err := guard.Quorum([]guard.Locker{s, s, s}, guard.NodeLimit(0))
	require.ErrorIs(t, err, guard.ErrInvalid)
	assert.ErrorContains(t, err, "NodeLimit")
	_, err = guard.Quorum([]guard.Locker{s, s, s}, nil)
	require.ErrorIs(t, err, guard.ErrInvalid)
}

func TestQuorumMinorityThatIsFrozenCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 5)
		nodes[0].mode.Store(frozen)
		nodes[3].mode.Store(frozen)
		g := newGuard(t, q, guard.TTL(3*time.Second))
		start := time.Now()
		for range 20 {
			require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
		}
		assert.Zero(t, time.Since(start))
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			time.Sleep(30 * time.Second)
			return ctx.Err()
		}))
		assert.Equal(t, 30*time.Second, time.Since(start), "renewed by the other three")
		assert.LessOrEqual(t, nodes[0].acquires.Load(), int32(50))
		require.NoError(t, g.Close(t.Context()))
		synctest.Wait()
		for _, n := range nodes { // thaw, and let what is owed to them be done
			n.mode.Store(passes)
		}
		time.Sleep(10 * time.Second)
	})
}

func TestQuorumWithoutAMajorityIsUnavailableNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		nodes[0].mode.Store(refuses)
		nodes[1].mode.Store(refuses)
		g := newGuard(t, q)
		err := guard.Do(t.Context(), g.Name("a").Wait(time.Second), nothing)
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.NotErrorIs(t, err, guard.ErrHeld)
		require.ErrorIs(t, err, errNetwork)
		assert.ErrorContains(t, err, "node 1: ")
		assert.ErrorContains(t, err, "node 2: ")
		require.NoError(t, g.Close(t.Context()))
		time.Sleep(10 * time.Second)
		assert.True(t, free(t, nodes[2].Locker, "a"), "the third node's grant was undone")

		synctest.Wait()
		nodes[0].mode.Store(passes)
		nodes[1].mode.Store(passes)
		time.Sleep(10 * time.Second) // what they were owed is done
		rival(t, nodes[0].Locker, "b", time.Hour)
		rival(t, nodes[1].Locker, "b", time.Hour)
		g = newGuard(t, q)
		err = guard.Do(t.Context(), g.Name("b").Wait(time.Second), nothing)
		var held *guard.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "rival", held.Holder)
		assert.Greater(t, held.RetryIn, 59*time.Minute, "the second smallest of three: one free, two held")
	})
}

func TestQuorumNodeRestartedEmptyGetsTheLeaseBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		g := newGuard(t, q, guard.TTL(3*time.Second))
		lost := func(n *faults) { n.wipe() }
		require.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			synctest.Wait()
			for _, n := range nodes { // one after the other: at no time is a majority gone
				lost(n)
				time.Sleep(2 * time.Second)
				assert.False(t, free(t, n.Locker, "a"), "within two renewals")
			}
			return ctx.Err()
		}))
		err := guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
			synctest.Wait() // or the third node's grant, on its way, would make a majority
			lost(nodes[0])
			lost(nodes[1])
			return untilDone(ctx)
		})
		require.ErrorIs(t, err, guard.ErrLost)
		time.Sleep(time.Minute)
		assert.True(t, free(t, nodes[0].Locker, "a"), "a majority is needed to give it back")
	})
}

func TestQuorumTokensRiseWhileNodesComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 5)
		g := newGuard(t, q, guard.TTL(3*time.Second))
		var last fence.Token
		for i := range 300 {
			down := []*faults{nodes[i%5], nodes[(i*3+1)%5]}
			synctest.Wait()
			for _, n := range down {
				n.mode.Store(refuses)
			}
			require.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
				assert.Greater(t, fence.From(ctx), last)
				last = fence.From(ctx) + 63
				return nil
			}))
			synctest.Wait()
			for _, n := range down {
				n.mode.Store(passes)
			}
			time.Sleep(20 * time.Millisecond) // what was refused is undone
		}
	})
}

// Nodes disagree on the token; the highest one is written to a majority before
// anybody sees it.
func TestQuorumWritesADisputedTokenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		for i, n := range nodes { // marks that differ, far ahead of the clock
			l := rival(t, n.Locker, "a", time.Hour)
			l.Token += fence.Token((i + 1) * 10_000_000)
			_, err := n.Locker.Renew(t.Context(), l)
			require.NoError(t, err)
			require.NoError(t, n.Locker.Release(t.Context(), l))
		}
		r := guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute}
		l, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range nodes {
			assert.Positive(t, n.renews.Load())
			same, err := n.Locker.Acquire(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, l.Token, same.Token)
		}
		require.NoError(t, q.Release(t.Context(), l))
		synctest.Wait()
		r.Owner = "bbbbbbbbbbbbbbbbbbbbbb"
		next, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, next.Token, l.Token+guard.TokensPerGrant)
		assert.Equal(t, int32(1), nodes[0].renews.Load(), "after a write-back nodes agree again")
	})
}

func TestQuorumCancelledRoundIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		for _, n := range nodes {
			n.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
				_, _ = n.Locker.Acquire(context.WithoutCancel(ctx), r)
				return guard.Lease{}, hang(ctx)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		_, err := q.Acquire(ctx, guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		time.Sleep(2 * time.Second)
		for _, n := range nodes {
			assert.True(t, free(t, n.Locker, "a"))
		}
	})
}

func TestQuorumExcludesUnderContention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, q := newQuorum(t, 3)
		inside, runs := 0, 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 6 {
			g := newGuard(t, q)
			wg.Go(func() {
				for range 10 {
					assert.NoError(t, guard.Do(t.Context(), g.Name("a"), func(context.Context) error {
						mu.Lock()
						inside++
						assert.Equal(t, 1, inside)
						mu.Unlock()
						time.Sleep(5 * time.Millisecond)
						mu.Lock()
						inside--
						runs++
						mu.Unlock()
						return nil
					}))
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 60, runs)
	})
}

func TestQuorumOfRefusalsIsPermanent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		for _, n := range nodes[:2] {
			n.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, permanentError{} }
		}
		g := newGuard(t, q)
		start := time.Now()
		err := guard.Do(t.Context(), g.Name("a"), nothing)
		require.ErrorIs(t, err, guard.ErrUnavailable)
		assert.Zero(t, time.Since(start))
		var p permanentError
		assert.ErrorAs(t, err, &p)
	})
}

// A second copy of a node's acquire was granted there, higher, after the first
// grant had ended: the node has another token than the one written back.
func TestQuorumCountsOnlyNodesThatHaveTheTokenWrittenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		for i, n := range nodes {
			n.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
				l, err := n.Locker.Acquire(ctx, r)
				l.Token += fence.Token(i) // so that nobody agrees
				return l, err
			}
			n.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
				if i < 2 {
					l.Token += 1000
				}
				return n.Locker.Renew(ctx, l)
			}
		}
		r := guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute}
		_, err := q.Acquire(t.Context(), r)
		require.ErrorIs(t, err, guard.ErrUnavailable)
		time.Sleep(10 * time.Second)
		for _, n := range nodes {
			assert.True(t, free(t, n.Locker, "a"))
		}
	})
}

// The round took longer than its lease lasts.
func TestQuorumGrantThatComesTooLateIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, _ := newQuorum(t, 3)
		lockers := make([]guard.Locker, 3)
		for i, n := range nodes {
			n.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
				time.Sleep(time.Second)
				return n.Locker.Acquire(ctx, r)
			}
			lockers[i] = n
		}
		q, err := guard.Quorum(lockers, guard.NodeLimit(10*time.Second))
		require.NoError(t, err)
		_, err = q.Acquire(t.Context(), guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Second})
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.ErrorContains(t, err, "TTL of 1s")
		time.Sleep(20 * time.Millisecond)
		for _, n := range nodes {
			assert.True(t, free(t, n.Locker, "a"))
		}
	})
}

// A renewal that is given up says why, and one without a majority is no loss.
func TestQuorumRenewalErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, q := newQuorum(t, 3)
		l, err := q.Acquire(t.Context(), guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Minute})
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range nodes {
			n.mode.Store(frozen)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = q.Renew(ctx, l)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = q.Renew(t.Context(), l)
		require.ErrorIs(t, err, guard.ErrUnavailable, "at the node limit")
		require.NotErrorIs(t, err, guard.ErrLost)
		nodes[0].mode.Store(passes)
		nodes[0].wipe()
		nodes[1].mode.Store(refuses)
		nodes[2].mode.Store(passes)
		_, err = q.Renew(t.Context(), l)
		require.ErrorIs(t, err, guard.ErrUnavailable, "one has it, one lost it, one does not say")
		require.NotErrorIs(t, err, guard.ErrLost)
		nodes[1].mode.Store(passes)
		renewed, err := q.Renew(t.Context(), l)
		require.NoError(t, err)
		assert.Equal(t, l.Token, renewed.Token)
		time.Sleep(time.Second)
		assert.False(t, free(t, nodes[0].Locker, "a"), "given back")
		require.NoError(t, q.Release(t.Context(), renewed))
	})
}

func TestObserversHearHowManyNodesAQuorumHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, q := newQuorum(t, 5)
		seen := &recorder{}
		g := newGuard(t, q, guard.Observe(seen))
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- guard.Do(t.Context(), g.Name("a"), nothing) }()
		synctest.Wait()
		require.NoError(t, h.Release())
		require.NoError(t, <-done)
		for _, o := range seen.outcomes {
			assert.Equal(t, 5, o.Nodes)
		}
		require.ErrorIs(t, guard.Do(t.Context(), g.Name(""), nothing), guard.ErrInvalid)
		assert.Zero(t, seen.last(t).Nodes)
	})
}
