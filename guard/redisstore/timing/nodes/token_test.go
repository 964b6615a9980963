package nodes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
)

// mark sets the mark of a name on node i.
func (ns nodes) mark(t *testing.T, i int, name string, mark fence.Token) {
	t.Helper()
	store, err := redisstore.New(ns[i].rdb)
	require.NoError(t, err)
	r := request(name)
	r.Floor = mark
	l := acquire(t, store, r)
	require.Equal(t, mark, l.Token)
	require.NoError(t, store.Release(t.Context(), l))
}

// Nodes disagree, and the highest token is written back. All 64 tokens from it on
// belong to the grant, also where the node's own grant was lower.
func TestTokensOfAWrittenBackGrantAreItsOwn(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	ahead := fence.Token(time.Now().Add(40 * time.Second).UnixMicro())
	ns.mark(t, 0, "x", ahead)
	ns.mark(t, 1, "x", ahead+5)
	a, b := ns.process(t, noGrace), ns.process(t, noGrace)
	a.cut(2)
	first := acquire(t, a, request("x"))
	assert.Equal(t, ahead+5+guard.TokensPerGrant, first.Token)
	require.NoError(t, a.Release(t.Context(), first))
	b.cut(1)
	second := acquire(t, b, request("x"))
	assert.GreaterOrEqual(t, second.Token, first.Token+guard.TokensPerGrant)
	require.NoError(t, b.Release(t.Context(), second))
}

// Every node is restarted empty once, one after the other. The mark that a node
// lost is made up for by its clock.
func TestTokensRiseWhileEveryNodeLosesItsData(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	ns.inService(t)
	var last fence.Token
	next := func(lost int) {
		for out := range ns { // each majority grants once
			p := ns.process(t, nil)
			p.cut(out)
			l := acquire(t, p, request("x"))
			assert.GreaterOrEqual(t, l.Token, last+guard.TokensPerGrant, "node %d restarted, node %d unreachable", lost, out)
			last = l.Token
			require.NoError(t, p.Release(t.Context(), l))
			p.mend(out)
		}
	}
	next(-1)
	for i := range ns {
		ns[i].Restart()
		ns.inService(t)
		next(i)
	}
}

// spy notes what is asked of the nodes.
type spy struct {
	guard.Locker
	*notes
}

type notes struct {
	mu     sync.Mutex
	owners map[string]bool // true once released
	again  int             // acquires after the release
}

func (n *notes) layer(next guard.Locker) guard.Locker { return spy{graceless{next}, n} }

func (s spy) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	s.mu.Lock()
	if s.owners[r.Owner] {
		s.again++
	} else {
		s.owners[r.Owner] = false
	}
	s.mu.Unlock()
	return s.Locker.Acquire(ctx, r)
}

func (s spy) Release(ctx context.Context, l guard.Lease) error {
	s.mu.Lock()
	s.owners[l.Owner] = true
	s.mu.Unlock()
	return s.Locker.Release(ctx, l)
}

// A round that failed was released, so its owner is not used again: a release on
// its way could end the next grant.
func TestEveryRoundHasItsOwnOwner(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	seen := &notes{owners: map[string]bool{}}
	p := ns.process(t, seen.layer)
	p.cut(1)
	p.cut(2)
	r := request("x")
	for range 3 {
		_, err := p.Acquire(t.Context(), r)
		require.ErrorIs(t, err, guard.ErrUnavailable)
	}
	p.mend(1)
	p.mend(2)
	l := acquire(t, p, r)
	assert.NotEqual(t, r.Owner, l.Owner)
	seen.mu.Lock()
	assert.GreaterOrEqual(t, len(seen.owners), 4)
	assert.Zero(t, seen.again)
	seen.mu.Unlock()
	eventually(t, "earlier rounds are undone", func() bool { return ns[0].rdb.Exists(t.Context(), leaseKey("x")+":x:"+r.Owner).Val() == 1 })
	require.NoError(t, p.Release(t.Context(), l))
}
