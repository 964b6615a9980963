package nodes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var scripts = redistest.Match{Command: "EVALSHA EVAL", Times: -1}

// Two nodes grant, the third one's request is held up until after the release.
func TestAGrantThatComesAfterTheReleaseIsRefused(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	p := ns.process(t, noGrace, guard.NodeLimit(20*time.Second))
	l := acquire(t, p, request("warm"))
	require.NoError(t, p.Release(t.Context(), l))
	eventually(t, "all released", func() bool { return ns.holder(t, 2, "warm") == "" })
	held := p.links[2].HoldRequest(redistest.Match{Command: "EVALSHA EVAL", Contains: "|test", Times: -1}) // no other script has the label
	l, err := p.Acquire(t.Context(), request("x"))
	require.NoError(t, err)
	held.Wait(t, 1)
	require.NoError(t, p.Release(t.Context(), l))
	tomb := leaseKey("x") + ":x:" + l.Owner
	eventually(t, "released everywhere", func() bool { _, ok := ns[2].Keys(tomb)[tomb]; return ok })
	ns[2].ResetStats()
	held.End()
	eventually(t, "the request arrives", func() bool { s := ns[2].CommandStats(); return s["evalsha"]+s["eval"] > 0 })
	for i := range ns {
		assert.Empty(t, ns.holder(t, i, "x"), "node %d", i)
	}
}

// A holds nodes 1 and 2, B has node 0 and asks the others, slowly. Node 0 loses its
// data, and A's renewal finds the lease missing there; then node 1 loses its data,
// and B's request arrives. If A got node 0 and B got node 1, both would have a
// majority.
func TestARenewalPutsNothingOnANodeThatARivalCounts(t *testing.T) {
	for name, layer := range map[string]guard.Layer{"grace": nil, "no grace": noGrace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := start(t, 3)
			ns.inService(t)
			a := ns.process(t, layer)
			b := ns.process(t, layer, guard.NodeLimit(20*time.Second))
			mine, his := request("x"), request("x")
			if layer != nil { // there is time, and nodes agree on a token
				mine.TTL, his.TTL = 10*ttl, 10*ttl
				his.Propose = fence.Token(time.Now().Add(30 * time.Second).UnixMicro())
			}
			a.cut(0)
			first := acquire(t, a, mine)
			asks1, asks2 := b.links[1].HoldRequest(scripts), b.links[2].HoldRequest(scripts)
			granted := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_, err := b.Acquire(ctx, his)
				granted <- err
			}()
			eventually(t, "B has node 0", func() bool { return ns.holder(t, 0, "x") == his.Owner })
			asks1.Wait(t, 1)
			a.mend(0)
			ns[0].Restart()
			first, err := a.Renew(t.Context(), first)
			require.NoError(t, err)
			if layer != nil {
				eventually(t, "A has node 0", func() bool { return ns.holder(t, 0, "x") == first.Owner })
			}
			ns[1].Restart()
			asks1.End()
			select {
			case err = <-granted:
			case <-time.After(time.Until(first.Until)):
				cancel()
				err = <-granted
			}
			if layer != nil {
				assert.NoError(t, err)
				assert.True(t, time.Now().Before(first.Until), "two holders, as it must be")
			} else {
				assert.Error(t, err, "two holders")
				assert.Empty(t, ns.holder(t, 0, "x"), "in its grace")
			}
			asks2.End()
		})
	}
}

// Servers that keep their data: a restart is noticed by nobody who holds a lease,
// and in their grace they grant nothing.
func TestALeaseThatSurvivesARestartIsRenewedInGrace(t *testing.T) {
	t.Parallel()
	ns := start(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	ns.inService(t)
	p := ns.process(t, nil)
	require.NoError(t, guard.Do(t.Context(), p.g.Name("x"), func(ctx context.Context) error {
		for i := range ns {
			ns[i].Restart()
		}
		_, err := p.Acquire(t.Context(), request("y"))
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.NotErrorIs(t, err, guard.ErrHeld)
		require.ErrorContains(t, err, "grace")
		var after interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, err, &after)
		assert.LessOrEqual(t, after.RetryAfter(), grace*time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(2 * ttl):
		}
		return ctx.Err()
	}))
	require.NoError(t, guard.Do(t.Context(), p.g.Name("y").Wait(10*time.Second), nothing), "after the grace")
}

// A TTL or minimum hold that is longer than the grace would outlive it.
func TestAQuorumRefusesWhatOutlivesTheGrace(t *testing.T) {
	t.Parallel()
	p := start(t, 3).process(t, nil)
	long, hold := request("x"), request("x")
	long.TTL, hold.MinHold = 2*ttl, 2*ttl
	for _, r := range []guard.Request{long, hold} {
		_, err := p.Acquire(t.Context(), r)
		require.ErrorIs(t, err, guard.ErrInvalid)
		require.ErrorContains(t, err, "MaxTTL")
	}
}

// Each node says for itself what went wrong.
func TestEveryNodesErrorIsTold(t *testing.T) {
	t.Parallel()
	ns := start(t, 5)
	p := ns.process(t, noGrace, guard.NodeLimit(20*time.Second))
	p.links[0].Answer(scripts, "-READONLY You can't write against a read only replica.")
	p.links[1].Answer(scripts, "-OOM command not allowed when used memory > 'maxmemory'.")
	p.cut(2)
	_, err := p.Acquire(t.Context(), request("x"))
	require.ErrorIs(t, err, guard.ErrUnavailable)
	for _, want := range []string{"node 1: ", "READONLY", "node 2: ", "OOM", "node 3: "} {
		assert.ErrorContains(t, err, want)
	}
	assert.NotContains(t, err.Error(), "node 4: ")
	eventually(t, "the others' grants are undone", func() bool { return ns.holder(t, 3, "x")+ns.holder(t, 4, "x") == "" })
	p.mend(2)
}
