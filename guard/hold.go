package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/retry"
)

// hold is one call, from taking its place in the line to giving the lease back.
// Guard.mu protects the fields below it; the others are the calling goroutine's.
type hold struct {
	guard *Guard
	class *Class
	name  string
	ctx   context.Context // the caller's, as the observers changed it
	trace string
	at    time.Time     // when the call began
	limit time.Duration // of the wait; -1 none, 0 does not wait

	attempts int
	returned bool // fn returned
	away     bool // turned away at the line: it was full, or the call does not wait
	waits    *waits

	// Guard.mu
	state state
	line  *line

	lease   Lease
	token   fence.Token   // of this holder: lease.Token and what was handed on
	asleep  time.Duration // suspended() when lease was asked for
	granted time.Time
	work    work
	cancel  context.CancelCauseFunc
	lost    *LostError
	stale   bool
	telling sync.WaitGroup // events that come before the end

	slot    int // place in the agenda, -1 if none
	wakeAt  time.Time
	renewAt time.Time
	renewal *renewal
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
	downSince  time.Time   // first unanswered request in a row
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

// work is the context of fn. It is part of its hold, so that carrying the hold
// costs no allocation.
type work struct {
	context.Context
	hold *hold
}

type holdKey struct{}

func (w *work) Value(key any) any {
	if key == (holdKey{}) {
		return w.hold
	}
	return w.Context.Value(key)
}

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
	h := &hold{guard: n.class.guard, class: n.class, name: n.name, ctx: ctx, at: time.Now(), limit: n.waits(), slot: -1}
	if try {
		h.limit = 0
	}
	if h.guard.obs != nil {
		h.ctx = h.guard.obs.begin(ctx, h.call())
		h.trace = traceOf(h.ctx)
	}
	err := n.check()
	switch {
	case err != nil:
	case h.ctx.Err() != nil:
		err = h.ended(nil)
	case nested(h.ctx, h.guard, h.name):
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
	if h != nil && h.guard.obs != nil {
		h.tellRefused(err)
	}
	return nil, err
}

// take waits until the call holds the lease and its work can begin. On failure
// h has left its line.
func (h *hold) take() error {
	asks, err := h.guard.join(h)
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

// start gives h the lease that its line was granted.
func (h *hold) start(lease Lease, asleep time.Duration) error {
	g, l := h.guard, h.line
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
	l.used = 0
	l.passBy = lease.Since.Add(min(passFor, lease.Until.Sub(lease.Since)/4))
	h.holdLocked(lease, lease.Token, asleep)
	if lease.Shared {
		h.line = nil
		g.askNextLocked(h.ctx, l)
		return nil
	}
	l.asker, l.holder = nil, h
	if l.impatient > 0 {
		l.dismissLocked(l.heldHere())
	}
	return nil
}

// holdLocked makes h the holder of lease and puts it on the agenda.
func (h *hold) holdLocked(lease Lease, token fence.Token, asleep time.Duration) {
	h.state, h.lease, h.token, h.asleep = holding, lease, token, asleep
	h.granted = time.Now()
	h.renewAt = nextRenewal(lease)
	h.guard.agenda.add(h)
}

// enter makes the work's context. It fails if the lease, handed on by another
// call of this process, was lost before the work could begin; then h is back at
// the head of its line, and asks tells whether it is the asker.
func (h *hold) enter() (entered, asks bool) {
	g := h.guard
	base, cancel := context.WithCancelCause(h.ctx)
	var stale func(*fence.StaleError)
	if g.obs != nil {
		stale = h.tellStale
	}
	g.mu.Lock()
	_ = h.checkLocked() // it may have taken long to get here; its work has not begun, so nobody is told
	if h.lost != nil {
		asks = g.rejoinLocked(h)
		g.mu.Unlock()
		cancel(nil)
		return false, asks
	}
	h.work = work{fence.NewContext(base, fence.Grant{Name: h.name, Token: h.token, Owner: h.lease.Owner}, stale), h}
	h.cancel = cancel
	token := h.token
	g.mu.Unlock()
	if g.obs != nil {
		if w := h.waits; w != nil && w.behind != nil && !w.met { // it stood behind a call that had no answer yet
			h.waiting(w.behind)
		}
		h.event(Event{Kind: Granted, Token: token})
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
		l = newLine(h.name, h)
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

// nested tells whether ctx already holds the name on g's store.
func nested(ctx context.Context, g *Guard, name string) bool {
	outer := holdOf(ctx, g, name)
	return outer != nil
}

// holdOf finds the hold of a name that ctx carries and that is not over.
func holdOf(ctx context.Context, g *Guard, name string) *hold {
	for {
		h, _ := ctx.Value(holdKey{}).(*hold)
		if h == nil {
			return nil
		}
		if h.name == name && (h.guard == g || h.guard.identity == g.identity) {
			h.guard.mu.Lock()
			live := h.state == holding
			h.guard.mu.Unlock()
			if live {
				return h
			}
		}
		ctx = h.ctx
	}
}

// valid tells whether the lease stands now, by the clock and not by a timer. A
// lease found to be over is lost on the spot.
func (h *hold) valid() bool {
	g := h.guard
	g.mu.Lock()
	lost := h.checkLocked()
	ok := h.state == holding && h.lost == nil
	g.mu.Unlock()
	h.tellLost(lost)
	return ok
}

// checkLocked ends a lease that is over by the clock. It returns the loss if it
// found one; the caller passes it to tellLost.
func (h *hold) checkLocked() *LostError {
	if h.state == holding && h.lost == nil && !time.Now().Before(h.untilLocked()) {
		return h.guard.loseLocked(h, LostDeadline, h.renewErrLocked())
	}
	return nil
}

// untilLocked is the local end of the lease on Go's clock, which stood still
// while the machine slept.
func (h *hold) untilLocked() time.Time {
	return h.lease.Until.Add(-sleptSince(h.asleep))
}

// loseLocked ends the work's context and lets the next call of the line ask with
// a fresh owner. The caller passes what it returns to tellLost.
func (g *Guard) loseLocked(h *hold, reason string, cause error) *LostError {
	h.lost = &LostError{Name: h.name, Token: h.token, Reason: reason, Err: cause}
	g.agenda.remove(h)
	h.stopRenewalLocked()
	if l := h.line; l != nil {
		h.line = nil
		g.askNextLocked(h.ctx, l)
	}
	if h.cancel == nil { // its work has not begun: it goes back into line
		return nil
	}
	h.cancel(h.lost)
	h.telling.Add(1)
	return h.lost
}

func (h *hold) tellLost(lost *LostError) {
	if lost == nil {
		return
	}
	if h.guard.obs != nil {
		h.event(Event{Kind: Lost, Token: lost.Token, Err: lost})
	}
	h.telling.Done()
}

func (h *hold) tellStale(err *fence.StaleError) {
	h.guard.mu.Lock()
	h.stale = true
	h.guard.mu.Unlock()
	h.event(Event{Kind: Stale, Token: err.Presented, Err: err})
}

func (h *hold) call() Call {
	return Call{Name: h.name, Class: h.class.label, TTL: h.class.policy.ttl, At: h.at}
}

func (h *hold) event(e Event) {
	e.Call, e.At = h.call(), time.Now()
	h.guard.obs.event(h.ctx, e)
}
