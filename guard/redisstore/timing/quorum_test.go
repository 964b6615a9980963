package timing_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// noGrace is a layer without restart grace, so that new servers grant at once.
type noGrace struct{ guard.Locker }

func (l noGrace) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	r.Grace = 0
	return l.Locker.Acquire(ctx, r)
}

func newQuorum(t *testing.T, servers []*redistest.Server, layers ...guard.Layer) guard.Locker {
	t.Helper()
	var nodes []guard.Locker
	for _, s := range servers {
		store, err := redisstore.New(s.Client(t))
		require.NoError(t, err)
		nodes = append(nodes, guard.Stack(noGrace{store}, layers...))
	}
	q, err := guard.Quorum(nodes)
	require.NoError(t, err)
	return q
}

// round is what one lock took.
type costs struct{ acquire, renew, release []time.Duration }

// measure locks n names, each once.
func (c *costs) measure(t *testing.T, q guard.Locker, prefix string, n int) {
	t.Helper()
	lap := func(list *[]time.Duration, f func() error) {
		start := time.Now()
		err := f()
		*list = append(*list, time.Since(start))
		require.NoError(t, err)
	}
	for i := range n {
		var l guard.Lease
		r := guard.Request{Name: fmt.Sprint(prefix, i), Owner: newOwner(), TTL: 10 * time.Second}
		lap(&c.acquire, func() (err error) { l, err = q.Acquire(t.Context(), r); return err })
		lap(&c.renew, func() (err error) { l, err = q.Renew(t.Context(), l); return err })
		lap(&c.release, func() error { return q.Release(t.Context(), l) })
	}
}

// within is how many locks were begun in the first d.
func (c *costs) within(d time.Duration) int {
	for i := range c.acquire {
		if d < 0 {
			return i
		}
		d -= c.acquire[i] + c.renew[i] + c.release[i]
	}
	return len(c.acquire)
}

// worst is the 99th of 100.
func worst(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)*99/100]
}

// waiting is how many goroutines wait for a node of a quorum.
func waiting() (n int) {
	stacks := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "/guard.(*node)") {
			n++
		}
	}
	return n
}

func leases(s *redistest.Server, prefix string) (n int) {
	for key := range s.Keys(leaseKey(prefix)[:len("lock:{")+len(prefix)]) {
		if strings.HasSuffix(key, "}") {
			n++
		}
	}
	return n
}

const (
	locks      = 300
	quorumCost = 20 * time.Millisecond // more than without the fault
)

// One node is frozen, later thawed. Nobody waits for it, and nothing is left on it.
func TestAFrozenNodeOfAQuorumCostsNobodyAnything(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			servers := redistest.Nodes(t, n)
			q := newQuorum(t, servers)
			var healthy, frozen costs
			healthy.measure(t, q, "warm", 20)
			healthy = costs{}
			healthy.measure(t, q, "healthy", locks)
			for fault := range 5 { // 12 locks in each of 5 freezes are 60 chances of an orphan
				victim := servers[fault%n]
				victim.Freeze()
				frozen.measure(t, q, fmt.Sprint("orphan", fault, "-"), 12)
				victim.Thaw()
				soon(t, func() bool { return leases(victim, "orphan") == 0 })
				time.Sleep(300 * time.Millisecond) // whatever was on its way has arrived
				assert.Zero(t, leases(victim, "orphan"), "orphans")
			}
			servers[n-1].Freeze()
			frozen.measure(t, q, "frozen", locks)
			servers[n-1].Thaw()
			for verb, pair := range map[string][2][]time.Duration{
				"acquire": {healthy.acquire, frozen.acquire}, "renew": {healthy.renew, frozen.renew}, "release": {healthy.release, frozen.release},
			} {
				assert.LessOrEqual(t, worst(pair[1]), worst(pair[0])+quorumCost, verb)
				t.Logf("%s p99: %v, with a frozen node %v", verb, worst(pair[0]), worst(pair[1]))
			}
			soon(t, func() bool { return leases(servers[n-1], "frozen") == 0 })
			soon(t, func() bool { return waiting() == 0 }) // before the servers end, or the cleaning goes on into the next test
		})
	}
}

// Of five nodes one is a black hole, then two, then three.
func TestBlackHolesOfAQuorum(t *testing.T) {
	servers := redistest.Nodes(t, 5)
	var links []*redistest.Proxy
	var nodes []guard.Locker
	for _, s := range servers {
		p := redistest.NewProxy(t, s.Addr())
		store, err := redisstore.New(p.Client(t, patient))
		require.NoError(t, err)
		links, nodes = append(links, p), append(nodes, noGrace{store})
	}
	q, err := guard.Quorum(nodes)
	require.NoError(t, err)
	g, err := guard.New(q, guard.TTL(10*time.Second))
	require.NoError(t, err)
	var healthy costs
	healthy.measure(t, q, "warm", 20)
	healthy = costs{}
	healthy.measure(t, q, "healthy", 200)
	patience := max(50*time.Millisecond, 4*slices.Max(slices.Concat(healthy.acquire, healthy.renew, healthy.release)))
	const few = 4 // one request at a time, one that cleans up, and what it waits for
	for dead := 1; dead <= 2; dead++ {
		links[dead-1].Stall()
		var c costs
		c.measure(t, q, fmt.Sprint("dead", dead, "-"), 200)
		assert.LessOrEqual(t, worst(c.acquire), 2*worst(healthy.acquire)+quorumCost)
		assert.LessOrEqual(t, worst(c.release), 2*worst(healthy.release)+quorumCost)
		t.Logf("%d dead: p99 of acquire %v, release %v", dead, worst(c.acquire), worst(c.release))
		// A node gets acquires and renewals while its patience lasts; releases wait for the acquire to be answered.
		// A node known to be dead has its few.
		most := max(16, 2*c.within(patience+10*time.Millisecond)) + few*(dead-1)
		wait := waiting()
		t.Logf("%d wait, at most %d", wait, most)
		assert.LessOrEqual(t, wait, most, "requests that wait for an answer")
		soon(t, func() bool { return waiting() <= few*dead }) // the node limit is over
		c.measure(t, q, fmt.Sprint("later", dead, "-"), 200)
		// Requests to other nodes end sooner than those to the dead.
		assert.Less(t, soon(t, func() bool { return waiting() <= few*dead }), 200*time.Millisecond)
	}
	links[2].Stall()
	start := time.Now()
	err = guard.Do(t.Context(), g.Name("three").Wait(2*time.Second), nothing)
	require.ErrorIs(t, err, guard.ErrUnavailable)
	assert.Less(t, took(start), 3*time.Second)
	for _, p := range links {
		p.Pass()
	}
	undone := soon(t, func() bool {
		for _, s := range servers {
			if leases(s, "") > 0 {
				return false
			}
		}
		return true
	})
	assert.Less(t, undone, 2*time.Second, "late grants are undone")
	soon(t, func() bool { return waiting() == 0 })
}
