package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Setting is a lock service, the faults it is put under, and what is claimed then.
type Setting struct {
	Topology string
	Name     string // what happens to it
	Servers  []Fault
	Excludes bool // at most one holder at a time; tokens rise everywhere
	Grace    time.Duration
	TTL      time.Duration
	Lasts    time.Duration

	nodes    int  // of a quorum
	replica  bool // of a primary, with nobody to promote it
	args     []string
	clock    bool
	announce bool // RestartGrace
}

const (
	shortTTL  = 400 * time.Millisecond
	quorumTTL = 800 * time.Millisecond // a node may take a quarter of it
	// graceLimit is what redisstore makes of a MaxTTL of 1 s, in whole seconds.
	graceLimit = 4 * time.Second
	// age is how long a server claims to be up when it starts, so that its first
	// grace is over.
	age = 3 * time.Hour
)

var (
	// Without fsync a file keeps what its process had written when it was killed.
	durable = []string{"--appendonly", "yes", "--appendfsync", "no", "--lua-time-limit", "50"}
	loose   = []string{"--lua-time-limit", "50"}
	calm    = []Fault{Freeze, ScriptFlush, Pause, Busy, Memory}
)

// Settings are all there are. A fault that loses data, or a clock that jumps, has
// its own, since less is claimed then.
var Settings = []Setting{
	{Topology: "single", Name: "data kept", Servers: with(calm, RestartKeeps, RestartKeeps), Excludes: true, args: durable},
	{Topology: "single", Name: "restarted empty, with grace", Servers: with(calm, RestartLoses), Excludes: true,
		args: loose, clock: true, announce: true, Grace: graceLimit, Lasts: 7 * time.Second},
	{Topology: "single", Name: "data lost, no grace", Servers: with(calm, Flush, RestartLoses), args: loose},
	{Topology: "single", Name: "clock stepped", Servers: with(calm, ClockBack, ClockForward, ClockBack, ClockForward), args: durable, clock: true},

	{Topology: "primary and replica", Name: "failover by hand", Servers: []Fault{Promote, ReplicaLag}, args: loose, replica: true},
	{Topology: "sentinel", Name: "failover", Servers: []Fault{SentinelKill, SentinelStop}, args: loose, Lasts: 7 * time.Second},
	{Topology: "cluster", Name: "failover", Servers: []Fault{ClusterManual, ClusterKill, Migrate, Migrate},
		args: append([]string{"--cluster-node-timeout", "2000"}, loose...), Lasts: 4 * time.Second},

	{Topology: "quorum-3", Name: "minority down or wiped", Servers: with(calm, RestartLoses, RestartLoses), Excludes: true,
		nodes: 3, args: loose, clock: true, Grace: graceLimit, Lasts: 6 * time.Second},
	{Topology: "quorum-3", Name: "minority's clock stepped back", Servers: with(calm, ClockBack, ClockBack), Excludes: true,
		nodes: 3, args: loose, clock: true},
	{Topology: "quorum-3", Name: "minority's clock stepped", Servers: with(calm, ClockBack, ClockForward), nodes: 3, args: loose, clock: true},
	{Topology: "quorum-5", Name: "minority down or wiped", Servers: with(calm, RestartLoses, RestartLoses), Excludes: true,
		nodes: 5, args: loose, clock: true, Grace: graceLimit, Lasts: 6 * time.Second},
	{Topology: "quorum-5", Name: "minority's clock stepped back", Servers: with(calm, ClockBack, ClockBack), Excludes: true,
		nodes: 5, args: loose, clock: true},
	{Topology: "quorum-5", Name: "minority's clock stepped", Servers: with(calm, ClockBack, ClockForward), nodes: 5, args: loose, clock: true},
}

// Three and Five are quorums to which nothing happens by itself.
var (
	Three = Setting{Topology: "quorum-3", TTL: time.Second, Excludes: true, nodes: 3, args: loose, clock: true, Grace: graceLimit}
	Five  = Setting{Topology: "quorum-5", TTL: time.Second, Excludes: true, nodes: 5, args: loose, clock: true, Grace: graceLimit}
)

// Counters, Brief and Crowd are the names that clients use: some that all of them
// want, many that are mostly free, and one that goes from hand to hand.
var (
	Counters = []string{"stock", "ledger", "quota"}
	Brief    = brief(30)
)

// Crowd is described beside Counters.
const Crowd = "till"

func brief(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("order-%d", i))
	}
	return names
}

func with(list []Fault, more ...Fault) []Fault { return append(append([]Fault{}, more...), list...) }

func (s Setting) String() string { return s.Topology + ", " + s.Name }

// Steps tells whether clocks are stepped. A lease then ends when it likes.
func (s Setting) Steps() bool { return slices.Contains(s.Servers, ClockBack) }

// Live tells whether everybody gets the lock again once the faults are over, and
// how soon. A server whose clock was stepped back keeps the lease of a holder
// that was killed; a majority does without it.
func (s Setting) Live() (within time.Duration, claimed bool) {
	return s.lease() + s.Grace + 2*time.Second, !s.Steps() || s.nodes > 0
}

func (s Setting) lease() time.Duration {
	switch {
	case s.TTL > 0:
		return s.TTL
	case s.nodes > 0:
		return quorumTTL
	}
	return shortTTL
}

// Length is how long faults are injected.
func (s Setting) Length() time.Duration { return max(s.Lasts, 3*time.Second) }

// World is a lock service that runs.
type World struct {
	Setting

	Servers []*redistest.Server // that keep locks
	Storage *redistest.Server

	tb       testing.TB
	watch    *redistest.Watch
	masters  redistest.Masters
	replicas []*redistest.Server
	sides    [2][]*redistest.Proxy // links to Servers, of every other client
	feeds    []*redistest.Proxy    // links of a replica to each of the Servers
	primary  int                   // of a pair: which of the Servers
	turn     int                   // which shard of a Cluster fails over next
	clocks   map[int]clock
}

// Open starts the servers of s for the rest of the test.
func (s Setting) Open(t testing.TB) *World {
	w := &World{Setting: s, tb: t, Storage: redistest.Start(t), clocks: map[int]clock{}}
	w.TTL = s.lease()
	switch {
	case s.Topology == "sentinel":
		w.watch = redistest.Sentinel(t, 1, 250, s.args...)
		w.Servers = w.watch.Servers
	case s.Topology == "cluster":
		w.masters, w.replicas = redistest.ClusterWithReplicas(t, s.args...)
		w.Servers = append(append(w.Servers, w.masters...), w.replicas...)
	case s.clock:
		w.Servers = redistest.NodesWithClock(t, max(s.nodes, 1), -age, s.args...)
		for _, server := range w.Servers {
			server.SetClock(0)
		}
	default:
		w.Servers = redistest.Nodes(t, max(s.nodes, 1), s.args...)
	}
	for side := range w.sides {
		for _, server := range w.Servers {
			w.sides[side] = append(w.sides[side], redistest.NewProxy(t, server.Addr()))
		}
	}
	if s.replica {
		w.pair()
	}
	return w
}

// Store is how clients of a side reach the service. Those of one side share calls.
func (w *World) Store(side int) client.Store {
	s := client.Store{Kind: client.Single, Via: map[string]string{}, Grace: w.announce, OneServer: side == 1 && w.masters == nil}
	if w.Grace > 0 || w.nodes > 0 {
		s.MaxTTL = time.Second
	}
	for i, link := range w.sides[side] { // of a pair there is one, which leads to the primary
		addr := w.Servers[i].Addr()
		s.Addrs = append(s.Addrs, addr)
		s.Via[addr] = link.Addr()
	}
	switch {
	case w.nodes > 0:
		s.Kind = client.Quorum
	case w.masters != nil:
		s.Kind = client.Cluster
	case w.watch != nil:
		s.Kind, s.Addrs = client.Sentinel, nil
		for _, sentinel := range w.watch.Sentinels {
			s.Addrs = append(s.Addrs, sentinel.Addr())
		}
	}
	return s
}

// Direct is the way to the service without links.
func (w *World) Direct() client.Store {
	s := w.Store(0)
	s.Via = nil
	return s
}

// Link is the link of a side to a server.
func (w *World) Link(side, server int) *redistest.Proxy { return w.sides[side][server] }

// Keepers are the servers that answer for their keys now.
func (w *World) Keepers() (list []*redistest.Server) {
	for i, s := range w.Servers {
		if w.masters == nil || w.isMaster(i) {
			list = append(list, s)
		}
	}
	return list
}

// Minority is how many servers may lose data or time.
func (w *World) Minority() int { return max(1, (w.nodes-1)/2) }
