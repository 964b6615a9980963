package redisstore

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/base64"
	"errors"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// wakes knows the owners of this process that stand in a queue at the server,
// and takes in what is published for them.
//
// The script that hands the lock to a waiter publishes the grant. It counts as
// the script's answer, which saves a round trip, only if all of this holds:
//   - the owner, 128 random bits, is one that waits here;
//   - its token is above the mark that the owner's last "you are queued" answer
//     reported, so it is not the grant of an earlier turn of the same owner;
//   - the claim window, counted from before that request was sent (the grant
//     came after it), still has half of its length ahead: time for a renewal.
//
// Otherwise the waiter asks by script. internal/model finds two holders, or
// tokens out of order, when one of them is left out.
type wakes struct {
	engine *engine
	id     string // names the channel of this process

	n       atomic.Int32 // owners in byOwner: nearly every lock is free, and asks whether it is one of them
	mu      sync.Mutex
	byOwner map[string]*waiter
	sweep   int
	subs    map[string]*subscription // by node, see lanes.node; one for Cluster
}

// waiter is an owner that asked to be queued, until its release is done.
type waiter struct {
	wakes   *wakes
	request guard.Request
	wake    chan struct{} // has room for one

	// wakes.mu
	state  waiterState
	asked  time.Time   // before the last request answered "queued" was sent; zero if none
	mark   fence.Token // in that answer
	server fence.Token // time in that answer
	ticket string
	grant  *grant
	timer  *time.Timer
	sub    *subscription
	gone   time.Time // since when it is leaving
}

type waiterState uint8

const (
	waiting waiterState = iota
	holding
	leaving
)

// grant is what was published.
type grant struct {
	token, server fence.Token
	claim         time.Duration
}

func (ws *wakes) init(e *engine) {
	ws.engine, ws.id = e, newOwner()
	ws.byOwner, ws.subs = map[string]*waiter{}, map[string]*subscription{}
}

func (ws *wakes) find(owner string) *waiter {
	if ws.n.Load() == 0 {
		return nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byOwner[owner]
}

// expect registers an owner that is about to ask for a place in the queue.
func (ws *wakes) expect(r guard.Request) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byOwner) >= ws.sweep {
		for owner, w := range ws.byOwner { // releases that were never confirmed
			if w.state == leaving && time.Since(w.gone) > 2*tombLife {
				ws.removeLocked(owner)
			}
		}
		ws.sweep = 2*len(ws.byOwner) + 64
	}
	w := &waiter{wakes: ws, request: r, wake: make(chan struct{}, 1), ticket: ""}
	ws.byOwner[r.Owner] = w
	ws.n.Store(int32(len(ws.byOwner)))
	if w.sub = ws.subs[ws.node(r.Name)]; w.sub != nil {
		w.sub.useLocked()
	}
	return w
}

// queued takes in a "held" answer and returns what to wait for; nil means poll.
func (ws *wakes) queued(r guard.Request, w *waiter, res result) <-chan struct{} {
	a := res.answer
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w == nil || a.rank < 0 || ws.byOwner[r.Owner] != w {
		return nil
	}
	w.state = waiting
	w.asked, w.mark, w.server, w.ticket = res.sent, a.mark, a.time, a.ticket
	every := refreshEvery
	if a.rank == 0 {
		every = headEvery
	}
	w.wakeInLocked(every*9/10 + mathrand.N(every/5))
	if w.grant != nil {
		w.fire()
	}
	return w.wake
}

func (w *waiter) wakeInLocked(d time.Duration) {
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.fire)
	} else {
		w.timer.Reset(d)
	}
}

func (w *waiter) fire() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// claimed turns a published grant into the lease of r, if it counts.
func (w *waiter) claimed(r guard.Request) (guard.Lease, bool) {
	w.wakes.mu.Lock()
	defer w.wakes.mu.Unlock()
	g := w.grant
	w.grant = nil
	if g == nil || w.asked.IsZero() || w.state != waiting || g.token <= w.mark {
		return guard.Lease{}, false
	}
	until := guard.Until(w.asked, g.claim)
	now := time.Now()
	if until.Sub(now) < g.claim/2 { // the script gives all of the TTL
		return guard.Lease{}, false
	}
	w.holdLocked()
	// The grant came this much later than the answer, by the server's clock. It
	// only says when to renew and how long to pass the lease on.
	since := w.asked.Add(max(0, time.Duration(g.server-w.server)*time.Microsecond))
	if since.After(now) {
		since = now
	}
	return guard.Lease{Request: r, Token: g.token, Granted: g.server, Since: since, Until: until, Waiters: true}, true
}

func (w *waiter) holdLocked() {
	w.state = holding
	w.grant = nil
	if w.timer != nil {
		w.timer.Stop()
	}
	w.unuseLocked()
}

func (w *waiter) unuseLocked() {
	if w.sub != nil {
		w.sub.unuseLocked()
		w.sub = nil
	}
}

// hold notes that an owner got the lock by script.
func (ws *wakes) hold(owner string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byOwner[owner]; w != nil {
		w.holdLocked()
	}
}

// leaving notes that a release of owner is under way.
func (ws *wakes) leaving(owner string) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byOwner[owner]; w != nil {
		w.holdLocked()
		w.state, w.gone = leaving, time.Now()
	}
}

// drop forgets an owner after its release is done.
func (ws *wakes) drop(owner string) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.removeLocked(owner)
}

func (ws *wakes) removeLocked(owner string) {
	if w := ws.byOwner[owner]; w != nil {
		w.holdLocked()
		delete(ws.byOwner, owner)
		ws.n.Store(int32(len(ws.byOwner)))
	}
}

// deliver takes in a message: "G owner token claim sec usec key" is a grant,
// "T owner ms" says when asking makes sense.
func (ws *wakes) deliver(payload string) {
	f := fields{rest: payload}
	kind, owner := f.next(), f.next()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byOwner[owner]
	switch kind {
	case "G":
		g := &grant{token: fence.Token(f.int()), claim: f.millis(), server: 0}
		g.server = f.time()
		name, ok := ws.name(f.rest)
		switch {
		case f.bad || !ok || len(owner) != ownerLen || g.claim <= 0:
		case w == nil: // granted to nobody
			go ws.giveBack(guard.Lease{Request: guard.Request{Name: name, Owner: owner}, Token: g.token})
		case w.state == waiting && w.request.Name == name:
			w.grant = g
			w.fire()
		}
	case "T":
		if rest := f.millis(); !f.bad && w != nil && w.state == waiting && w.timer != nil {
			w.wakeInLocked(max(0, rest) + time.Millisecond)
		}
	}
}

func (ws *wakes) name(key string) (string, bool) {
	key, ok := strings.CutPrefix(key, ws.engine.prefix+"lock:{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "}")
}

// giveBack releases a grant of which the owner is not of this process any more.
func (ws *wakes) giveBack(l guard.Lease) {
	ctx, cancel := context.WithTimeout(background, 2*time.Second)
	defer cancel()
	_ = (&locker{ws.engine, 0}).leave(ctx, l, true) // it ends with its claim window at the latest
}

// fireAll makes every waiter of a subscription ask once.
func (ws *wakes) fireAll(s *subscription) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byOwner {
		if w.state == waiting && w.sub == s {
			w.fire()
		}
	}
}

// newOwner makes 128 random bits.
func newOwner() string {
	var b [16]byte
	cryptorand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func isLost(err error) bool { return errors.Is(err, guard.ErrLost) }
