package guard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/retry"
)

// hold is one call, from taking its place in the line to giving the lease back.
// Guard.mu protects the fields below it; the others are the calling goroutine's.
type hold struct {
	class *Class
	name  string
	ctx   context.Context // the caller's, as the observers changed it
	began instant
	limit time.Duration // of the wait; -1 none, 0 does not wait
	waits *waits
	seen  *seen   // only with observers
	end   *ending // of a Held

	attempts uint16
	returned bool // fn returned
	away     bool // turned away at the line: it was full, or the call does not wait

	// Guard.mu
	state   state
	begun   bool  // fn may have begun
	stale   bool  // a storage refused the token
	waiters bool  // others wait at the store
	nth     uint8 // holder of the grant, from 0: it was handed on so often
	most    uint8 // times that the grant may be handed on
	nodes   uint8 // of a quorum
	slot    int32 // place in the agenda, -1 if none
	line    *line

	grant   grant
	asleep  time.Duration // how long the machine had slept when the lease was asked for
	granted instant
	inner   atomic.Pointer[inner] // set with the lock held
	lost    *LostError

	renewAt instant
	renewal *renewal
}

// seen is what a call needs only if it is observed.
type seen struct {
	at      time.Time // when the call began
	trace   string
	granted chan struct{}  // closed once the observers know that the work begins
	telling sync.WaitGroup // events that come before the end
}

// waits is what a call needs only if it cannot have the name at once. Guard.mu
// protects prev, next and verdict; the rest is the calling goroutine's.
type waits struct {
	prev, next *hold
	turn       chan struct{}
	verdict    error       // why the call was dismissed
	met        bool        // observers have heard of a holder
	holder     fence.Token // which one
	behind     *HeldError  // who was before it when its turn came; only with observers
	downSince  instant     // first unanswered request in a row; 0 if the last was answered
	run        retry.Backoff
}

// wait returns h.waits, made on first use by the calling goroutine.
func (h *hold) wait() *waits {
	if h.waits == nil {
		h.waits = &waits{}
	}
	return h.waits
}

type state uint8

const (
	queued state = iota
	asking
	holding
	dismissed
	releasing
	over
)

func (h *hold) guard() *Guard { return h.class.guard }

func (h *hold) trace() string {
	if h.seen == nil {
		return ""
	}
	return h.seen.trace
}

// token is h's own: a grant has one for each of its holders.
func (h *hold) token() fence.Token { return h.grant.token + fence.Token(h.nth) }

func (h *hold) wake() {
	if h.waits != nil && h.waits.turn != nil {
		h.waits.turn <- struct{}{} // has room: a call gets one turn for each time it waits
	}
}

// begin makes the hold of a call and tells the observers. What is wrong is
// reported before any command is sent.
func begin(ctx context.Context, n Name, try bool) (*hold, error) {
	if n.class == nil {
		return nil, n.check()
	}
	h := &hold{class: n.class, name: n.name, ctx: ctx, began: now(), limit: n.waits(), slot: -1}
	if try {
		h.limit = 0
	}
	if g := h.guard(); g.obs != nil {
		h.seen = &seen{at: h.began.time(), granted: make(chan struct{})}
		h.ctx = g.obs.begin(ctx, h.call())
		h.seen.trace = traceOf(h.ctx)
	}
	err := n.check()
	switch {
	case err != nil:
	case h.ctx.Err() != nil:
		err = h.ended(nil)
	case nested(h.ctx, h.guard(), h.name):
		err = fmt.Errorf("%w: %q", ErrNested, h.name)
	}
	return h, err
}

// acquire returns a hold that holds its lease, or has told the observers why
// not.
func acquire(ctx context.Context, n Name, try bool) (*hold, error) {
	h, err := begin(ctx, n, try)
	if err == nil {
		err = h.take()
	}
	if err == nil {
		return h, nil
	}
	if h != nil && h.guard().obs != nil {
		h.tellRefused(err)
	}
	return nil, err
}

// take waits until the call holds the lease and its work can begin. On failure
// h has left its line.
func (h *hold) take() error {
	asks, err := h.guard().join(h)
	for err == nil {
		if !asks {
			asks, err = h.await()
		}
		if err == nil && asks {
			err = h.ask()
		}
		if err == nil {
			var entered bool
			if entered, asks = h.enter(); entered {
				return nil
			}
		}
	}
	return err
}

// start gives h the lease that its line was granted, at a reading of the clock
// that was taken since.
func (h *hold) start(lease Lease, asleep time.Duration, r reading) error {
	g, l := h.guard(), h.line
	g.mu.Lock()
	defer g.mu.Unlock()
	l.answered()
	if g.idle != nil { // closed while the request was on its way
		g.abandonLocked(h.ctx, lease.Request)
		g.askNextLocked(h.ctx, l)
		h.state, h.line = over, nil
		g.leaveLocked()
		return &endedError{h.name, []error{ErrClosed}}
	}
	h.keep(&lease)
	h.holdLocked(asleep, r)
	h.begun = true
	if lease.Shared {
		h.line = nil
		g.askNextLocked(h.ctx, l)
		return nil
	}
	l.asks, l.kept = false, false
	if l.impatient > 0 {
		l.dismissLocked(l.heldHere())
	}
	return nil
}

// holdLocked makes h the holder of its grant and puts it on the agenda.
func (h *hold) holdLocked(asleep time.Duration, r reading) {
	h.state, h.asleep, h.granted = holding, asleep, r.at
	h.renewAt = h.nextRenewal()
	h.guard().agenda.add(h, r)
}

// enter lets the work begin. It fails if the lease, handed on by another call of
// this process, was lost before the work could begin; then h is back at the head
// of its line, and asks tells whether it is the asker.
func (h *hold) enter() (entered, asks bool) {
	g := h.guard()
	if !h.begun { // only this goroutine lets it begin
		g.mu.Lock()
		_ = h.checkLocked(look()) // it may have taken long to get here; its work has not begun, so nobody is told
		if h.lost != nil {
			asks = g.rejoinLocked(h)
			g.mu.Unlock()
			return false, asks
		}
		h.begun = true
		g.mu.Unlock()
	}
	if g.obs != nil {
		if w := h.waits; w != nil && w.behind != nil && !w.met { // it stood behind a call that had no answer yet
			h.waiting(w.behind)
		}
		h.event(Event{Kind: Granted, Token: h.token()})
		close(h.seen.granted)
	}
	return true, false
}

// rejoinLocked puts h, whose lease was lost before its work began, back into
// line.
func (g *Guard) rejoinLocked(h *hold) (asks bool) {
	g.releaseLaterLocked(h)
	h.lost, h.renewal = nil, nil
	l := g.lines[h.name]
	if l == nil {
		l = newLine(h)
		g.lines[h.name] = l
		h.line, h.state = l, asking
		return true
	}
	if w := h.wait(); w.turn == nil {
		w.turn = make(chan struct{}, 1)
	}
	l.pushFront(h)
	return false
}

// valid tells whether the lease stands now, by the clock and not by a timer. A
// lease found to be over is lost on the spot.
func (h *hold) valid() bool {
	g := h.guard()
	g.mu.Lock()
	lost := h.checkLocked(look())
	ok := h.state == holding && h.lost == nil
	g.mu.Unlock()
	h.tellLost(lost)
	return ok
}

// checkLocked ends a lease that is over by the clock. It returns the loss if it
// found one; the caller passes it to tellLost.
func (h *hold) checkLocked(r reading) *LostError {
	if h.state == holding && h.lost == nil && r.at >= h.ends(r) {
		return h.guard().loseLocked(h, LostDeadline, h.renewErrLocked())
	}
	return nil
}

// loseLocked ends the work's context and lets the next call of the line ask with
// a fresh owner. The caller passes what it returns to tellLost.
func (g *Guard) loseLocked(h *hold, reason string, cause error) *LostError {
	h.lost = &LostError{Name: h.name, Token: h.token(), Reason: reason, Err: cause}
	g.agenda.remove(h)
	h.stopRenewalLocked()
	if l := h.line; l != nil {
		h.line = nil
		g.askNextLocked(h.ctx, l)
	}
	if !h.begun { // it goes back into line
		return nil
	}
	h.endWorkLocked(h.lost)
	if h.seen != nil {
		h.seen.telling.Add(1)
	}
	return h.lost
}
