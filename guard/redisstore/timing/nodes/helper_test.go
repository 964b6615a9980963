// Package nodes has the tests of guard.Quorum over real servers. Leases of a second
// and five servers for each test leave no room for other work: run it alone and
// without the race detector.
package nodes_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	ttl   = time.Second
	grace = 4 // seconds that a node must be up with MaxTTL(ttl)
)

// TestMain runs a few tests at a time: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = flag.Set("test.parallel", "4") // it is a number
	}
	os.Exit(m.Run())
}

// nodes are servers that know nothing of each other.
type nodes []node

type node struct {
	*redistest.Server
	rdb *redis.Client
}

func start(t *testing.T, n int, args ...string) (ns nodes) {
	t.Helper()
	for _, s := range redistest.Nodes(t, n, args...) {
		ns = append(ns, node{s, s.Client(t)})
	}
	return ns
}

// inService waits until the servers are up for longer than the grace.
func (ns nodes) inService(t *testing.T) {
	t.Helper()
	for _, n := range ns {
		eventually(t, "grace", func() bool {
			_, after, _ := strings.Cut(n.rdb.Info(t.Context(), "server").Val(), "uptime_in_seconds:")
			up, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
			return err == nil && up >= grace
		})
	}
}

// holder is the start of the value of a lease on node i, "" if there is none.
func (ns nodes) holder(t *testing.T, i int, name string) string {
	t.Helper()
	v := ns[i].rdb.Get(context.Background(), leaseKey(name)).Val()
	return v[min(1, len(v)):min(23, len(v))]
}

func leaseKey(name string) string { return "lock:{" + name + "}" }

// process looks to the nodes like a program of its own, on links of its own.
type process struct {
	guard.Locker
	links []*redistest.Proxy
	g     *guard.Guard
}

// process returns a new one. The layer, if not nil, is put around each node.
func (ns nodes) process(t *testing.T, layer guard.Layer, opts ...guard.QuorumOption) *process {
	t.Helper()
	p := &process{}
	var lockers []guard.Locker
	for _, s := range ns {
		link := redistest.NewProxy(t, s.Addr())
		store, err := redisstore.New(link.Client(t), redisstore.MaxTTL(ttl))
		require.NoError(t, err)
		lockers, p.links = append(lockers, guard.Stack(store, layer)), append(p.links, link)
	}
	var err error
	p.Locker, err = guard.Quorum(lockers, opts...)
	require.NoError(t, err)
	p.g, err = guard.New(p.Locker, guard.TTL(ttl))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, p.g.Close(ctx), "nothing is left of the guard")
	})
	return p
}

// cut makes node i unreachable for the process; mend makes it reachable again.
func (p *process) cut(i int)  { p.links[i].Refuse(); p.links[i].Reset() }
func (p *process) mend(i int) { p.links[i].Pass() }

// noGrace is a layer without restart grace.
func noGrace(next guard.Locker) guard.Locker { return graceless{next} }

type graceless struct{ guard.Locker }

func (l graceless) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	r.Grace = 0
	return l.Locker.Acquire(ctx, r)
}

func newOwner() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func request(name string) guard.Request {
	return guard.Request{Name: name, Owner: newOwner(), TTL: ttl, Label: "test"}
}

// acquire asks until it is granted.
func acquire(t *testing.T, l guard.Locker, r guard.Request) (lease guard.Lease) {
	t.Helper()
	var err error
	eventually(t, "granted", func() bool {
		lease, err = l.Acquire(t.Context(), r)
		return err == nil
	})
	return lease
}

// eventually waits for a condition that should come soon.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "in vain: "+what)
		}
	}
}

func nothing(context.Context) error { return nil }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
