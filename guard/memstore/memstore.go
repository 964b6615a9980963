// Package memstore keeps locks in the memory of this process: for tests, which
// need no Redis then, and for programs that run once. It keeps the whole
// contract of a store (package guardtest), with fencing tokens, a queue and
// expiry by Go's clock, so it works inside a testing/synctest bubble, with exact
// durations.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

const (
	claim     = 300 * time.Millisecond // a grant that was not asked for ends after this
	live      = 2 * time.Second        // a waiter that does not ask again leaves the queue after this
	tombLife  = time.Minute
	keepMark  = time.Hour
	maxFloor  = time.Hour
	maxPropos = time.Minute
	handOffs  = 13 // as many as redisstore
	maxLabel  = 128
)

// Store is one embedded lock service. Make one with [New]; all methods may be
// called concurrently.
type Store struct {
	guard.Locker
	data *data
}

// New returns an empty Store.
func New() *Store {
	d := &data{names: map[string]*entry{}, tombs: map[string]time.Time{}}
	return &Store{Locker: &locker{d, handOffs}, data: d}
}

// Fair returns the exclusive lock without local hand-off: calls of different
// Guards get the name in the order in which their lines arrived here.
func (s *Store) Fair() guard.Locker { return &locker{s.data, 0} }

// data is what the store knows. Time is Go's clock; the server time in tokens is
// the same clock in µs.
type data struct {
	mu    sync.Mutex
	names map[string]*entry
	tombs map[string]time.Time // released owners, and until when they are refused
	sweep int                  // how large names and tombs may get before the next sweep
}

// entry is one name: its holder, its mark and its queue.
type entry struct {
	holder guard.Lease // zero if free; Owner "" while a minimum hold runs
	taken  bool
	expiry time.Time
	mark   fence.Token
	queue  []*waiter
}

type waiter struct {
	request guard.Request
	wake    chan struct{} // has room for one
	until   time.Time     // asks again before this, or is dead
}

func micros(t time.Time) fence.Token { return fence.Token(t.UnixMicro()) }

// freeLocked tells whether the name can be had, after dropping what is over.
func (e *entry) free(now time.Time) bool {
	if e.taken && !now.Before(e.expiry) {
		e.taken = false
	}
	return !e.taken
}

func (e *entry) find(owner string) int {
	for i, w := range e.queue {
		if w.request.Owner == owner {
			return i
		}
	}
	return -1
}

func (e *entry) drop(i int) { e.queue = append(e.queue[:i], e.queue[i+1:]...) }

// grant gives the name to r for ttl.
func (e *entry) grant(r guard.Request, base fence.Token, ttl time.Duration, now time.Time) {
	e.taken, e.expiry, e.mark = true, now.Add(ttl), base
	e.holder = guard.Lease{Request: r, Token: base, Granted: micros(now)}
}

// next grants the name to the first live waiter, for the time it may take to
// claim it, and wakes it.
func (e *entry) next(now time.Time) bool {
	for len(e.queue) > 0 {
		w := e.queue[0]
		e.drop(0)
		if now.Before(w.until) {
			e.grant(w.request, e.base(w.request, now), claim, now)
			w.fire()
			if len(e.queue) > 0 { // the next one asks when the window is over
				time.AfterFunc(claim+time.Millisecond, e.queue[0].fire)
			}
			return true
		}
	}
	return false
}

func (w *waiter) fire() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// base is the first token of the next grant.
func (e *entry) base(r guard.Request, now time.Time) fence.Token {
	b := max(micros(now), r.Floor)
	if e.mark > 0 {
		b = max(b, e.mark+guard.TokensPerGrant)
	}
	if r.Propose <= micros(now.Add(maxPropos)) {
		b = max(b, r.Propose)
	}
	return b
}

// entryLocked finds or makes the entry of a name, and sweeps once the maps have
// doubled, so that memory follows the names of the last hour.
func (d *data) entryLocked(name string, now time.Time) *entry {
	if e := d.names[name]; e != nil {
		return e
	}
	if len(d.names)+len(d.tombs) >= d.sweep {
		for n, e := range d.names {
			if e.free(now) && len(e.queue) == 0 && now.UnixMicro() > int64(e.mark)+keepMark.Microseconds() {
				delete(d.names, n)
			}
		}
		for o, until := range d.tombs {
			if !now.Before(until) {
				delete(d.tombs, o)
			}
		}
		d.sweep = 2*(len(d.names)+len(d.tombs)) + 64
	}
	e := &entry{}
	d.names[name] = e
	return e
}

func contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
