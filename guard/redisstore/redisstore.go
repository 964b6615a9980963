// Package redisstore keeps locks on one logical Redis: a single server, a
// primary with replicas (Sentinel), Cluster or Ring, through any
// redis.UniversalClient. Redis 6.2 or newer with eviction off
// (maxmemory-policy noeviction): an evicted lease is a lost lease.
//
// # Format
//
// All keys of a name share one hash tag, so they lie in one Cluster slot. The
// format is stable.
//
//	lock:{order/42}            the lease: flag, owner, "|", token, "|", trace, "|", label
//	lock:{order/42}:fence      the mark: first token of the last grant, and "|" until when to look further
//	lock:{order/42}:q  :w      who waits (sorted set), until when they count as alive (hash)
//	lock:{order/42}:x:<owner>  tombstone, 60 s: a late request of this owner is refused
//
// The flag is "-" if nobody waits, "+" if somebody does, "~" while a minimum hold
// runs. A plain SET lock:{order/42} x NX PX of another program excludes these
// locks and is excluded by them; its value is never touched.
//
// # Fencing tokens
//
// A grant owns 64 consecutive tokens. Its first one is the largest of the mark
// plus 64 and the server's time in µs. The mark lives until its token, read as
// time, is one hour past, so memory is bounded by the names of an hour. Tokens of
// a name rise as long as the server's clock steps back by less than an hour. If
// the mark is lost (FLUSHALL, eviction, a failover that lost writes) they still
// rise if no mark was ahead of the clock that mints next; a mark is ahead of its
// own server's clock by 60 s at most.
//
// # Commands
//
// A lone acquire is one script call, and so is its release. Requests that are made
// while others are on their way go together, without a timer that holds any back:
// in a pipeline, and with [OneServer] in calls for many names.
//
// # Rights
//
// An ACL user needs
//
//	~lock:* resetchannels &lock:* -@all +eval +evalsha +time +get +set +del +exists +pexpire +pttl
//	+setrange +hget +hset +hdel +zadd +zrem +zrange +zrank +zscore +publish +subscribe +unsubscribe
//	+ping +hello +info +lastsave
//
// with the prefix before lock: if one is set. Without channels waiters poll;
// without INFO restart grace cannot be given; LASTSAVE makes it cheaper.
package redisstore

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
)

// Limits and times of the store.
const (
	handOffs     = 13 // more would save round trips, and let other processes wait longer
	tombLife     = time.Minute
	liveness     = 2 * time.Second        // a waiter counts as alive this long after it asked
	awake        = 50 * time.Millisecond  // and is taken to be there this long, see leave.lua
	refreshEvery = 600 * time.Millisecond // a waiter asks again
	headEvery    = 200 * time.Millisecond // the head of the queue asks again
	spread       = 50 * time.Millisecond  // those behind it ask this much later, when a lease may have run out
	maxLabel     = 128
	resends      = 2
)

// Option configures a Store. New refuses a value out of range.
type Option interface{ storeOption() }

type option func(*engine) error

func (option) storeOption() {}

// Prefix is put before every key and channel. It must not contain braces, which
// would move the hash tag, nor spaces, control characters or "|". At most 64
// bytes; default none.
func Prefix(p string) Option {
	return option(func(e *engine) error {
		if len(p) > 64 || strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '{' || r == '}' || r == '|' }) {
			return fmt.Errorf("%w: Prefix(%q): want at most 64 printable ASCII characters without {, }, | and spaces", guard.ErrInvalid, p)
		}
		e.prefix = p
		return nil
	})
}

// ClaimWindow is how long a lease handed to a waiter waits to be claimed; a
// waiter that died costs this much. At least 50 ms, and longer than the head's
// poll (200 ms) plus two round trips if messages may be lost; at most 10 s,
// default 300 ms.
func ClaimWindow(d time.Duration) Option {
	return option(func(e *engine) error {
		if d < 50*time.Millisecond || d > 10*time.Second || d%time.Millisecond != 0 {
			return fmt.Errorf("%w: ClaimWindow(%v): want 50ms to 10s in whole milliseconds", guard.ErrInvalid, d)
		}
		e.claim = d
		return nil
	})
}

// OneServer says that all keys are on one server, whatever their names: the client
// is a *redis.Client, Sentinel's included, and no proxy that spreads keys over
// servers (Envoy, twemproxy) stands behind it. Then up to 32 requests for different
// names that are made at once share a script call, which names the keys of all and
// does for each what a call of its own would have done: a third less work for the
// server. If it is not true, two processes may hold one name at once, since such a
// proxy sends a call to where its first key belongs.
//
// A call for many names that is refused, for want of the right to one of them say,
// is made again name by name, and for a minute no other is tried.
func OneServer() Option {
	return option(func(e *engine) error {
		switch e.rdb.(type) {
		case *redis.ClusterClient, *redis.Ring:
			return fmt.Errorf("%w: OneServer: a %T spreads keys over servers", guard.ErrInvalid, e.rdb)
		}
		e.oneServer = true
		return nil
	})
}

// Store is one logical Redis: the exclusive lock, and the way to its other
// kinds. It needs no Close: its subscription opens with the first waiter and
// closes 10 s after the last. All methods may be called concurrently.
type Store struct {
	guard.Locker
	engine *engine
}

// New returns a Store on rdb, which stays the caller's to configure and close. It
// sends no command; see [Store.Check]. To a *redis.Client it adds a hook, which
// concerns its own commands only; hooks of the caller's that are to see those are
// added before.
func New(rdb redis.UniversalClient, opts ...Option) (*Store, error) {
	if rdb == nil {
		return nil, fmt.Errorf("%w: New: the client is nil", guard.ErrInvalid)
	}
	e := &engine{rdb: rdb, claim: 300 * time.Millisecond, maxTTL: time.Minute}
	for _, o := range opts {
		set, ok := o.(option)
		if !ok {
			return nil, fmt.Errorf("%w: New: option is nil", guard.ErrInvalid)
		}
		if err := set(e); err != nil {
			return nil, err
		}
	}
	e.lanes.init(rdb, e.oneServer)
	e.wakes.init(e)
	return &Store{Locker: &locker{e, handOffs}, engine: e}, nil
}

// Fair is the exclusive lock without hand-off inside a process: processes get
// the name in the order in which their lines arrive at the server. A process with
// 64 waiting goroutines and one with a single one take turns.
func (s *Store) Fair() guard.Locker { return &locker{s.engine, 0} }

// engine is what all kinds of a Store share.
type engine struct {
	rdb       redis.UniversalClient
	prefix    string
	oneServer bool
	claim     time.Duration
	maxTTL    time.Duration
	grace     bool // RestartGrace

	lanes    lanes
	wakes    wakes
	late     memo        // owners of which a request may still be on its way
	hot      memo        // names that were contended a moment ago
	withText atomic.Bool // the server has no EVALSHA
	degraded atomic.Bool // the server denies INFO
}

// memo remembers strings for a while. It holds what is unusual, so the usual
// question costs one atomic read.
type memo struct {
	n     atomic.Int32
	mu    sync.Mutex
	until map[string]time.Time
	sweep int
}

func (m *memo) add(s string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.until == nil {
		m.until = map[string]time.Time{}
	}
	if len(m.until) >= m.sweep {
		for k, until := range m.until {
			if now.After(until) {
				delete(m.until, k)
			}
		}
		m.sweep = 2*len(m.until) + 64
	}
	m.until[s] = now.Add(d)
	m.n.Store(int32(len(m.until)))
}

func (m *memo) has(s string) bool {
	if m.n.Load() == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	until, ok := m.until[s]
	return ok && time.Now().Before(until)
}

func (m *memo) drop(s string) {
	if m.n.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.until, s)
	m.n.Store(int32(len(m.until)))
}
