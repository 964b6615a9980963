package guard

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firstAcquire calls see at the first acquire, and then grants all of them.
type firstAcquire struct {
	Locker
	calls *atomic.Int32
	see   func(owner string)
	saw   chan struct{}
}

func (f firstAcquire) Acquire(_ context.Context, r Request) (Lease, error) {
	if f.calls.Add(1) == 1 {
		f.see(r.Owner)
		close(f.saw)
	}
	<-f.saw
	now := time.Now()
	return Lease{Request: r, Token: max(r.Propose, 1), Since: now, Until: Until(now, r.TTL)}, nil
}

// A majority may have answered before the last request was sent. The release that
// follows must not overtake it.
func TestAQuorumExpectsEveryAcquireBeforeItSendsTheFirst(t *testing.T) {
	var q *quorum
	var calls atomic.Int32
	seen := 0
	node := firstAcquire{calls: &calls, saw: make(chan struct{}), see: func(owner string) {
		for _, n := range q.nodes {
			n.mu.Lock()
			if n.acquiring[owner].n > 0 {
				seen++
			}
			n.mu.Unlock()
		}
	}}
	l, err := Quorum([]Locker{node, node, node, node, node})
	require.NoError(t, err)
	q = l.(*quorum)
	_, err = q.Acquire(t.Context(), Request{Name: "a", Owner: newOwner(), TTL: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, 5, seen)
	for _, n := range q.nodes {
		assert.Eventually(t, func() bool { n.mu.Lock(); defer n.mu.Unlock(); return len(n.acquiring) == 0 }, 10*time.Second, time.Millisecond)
	}
}

func TestAReleaseWaitsForAnExpectedAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		assert.True(t, n.landed(t.Context(), "a"), "none is expected")
		n.expect("a")
		n.expect("a")
		time.AfterFunc(time.Millisecond, func() { n.arrived("a") })
		time.AfterFunc(2*time.Millisecond, func() { n.arrived("a") })
		start := time.Now()
		assert.True(t, n.landed(t.Context(), "a"))
		assert.Equal(t, 2*time.Millisecond, time.Since(start))
		n.expect("a")
		assert.False(t, n.landed(t.Context(), "a"), "not for ever")
		assert.Equal(t, 2*time.Millisecond+silentFirst, time.Since(start))
		n.arrived("a")
		assert.Empty(t, n.acquiring)
	})
}
