package guard

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// What observers are told of a hold. A Guard without observers does none of it.

func (h *hold) call() Call {
	return Call{Name: h.name, Class: h.class.label, TTL: h.class.policy.ttl, At: h.seen.at}
}

func (h *hold) event(e Event) {
	e.Call, e.At = h.call(), time.Now()
	h.guard().obs.event(h.ctx, e)
}

// tellLost tells of a loss that was found with the lock held.
func (h *hold) tellLost(lost *LostError) {
	if lost == nil || h.seen == nil {
		return
	}
	<-h.seen.granted
	h.event(Event{Kind: Lost, Token: lost.Token, Err: lost})
	h.seen.telling.Done()
}

func (h *hold) tellStale(err *fence.StaleError) {
	h.guard().mu.Lock()
	h.stale = true
	h.guard().mu.Unlock()
	h.event(Event{Kind: Stale, Token: err.Presented, Err: err})
}

// tellEnd tells how a call ended that held its lease.
func (h *hold) tellEnd(lost *LostError, releaseErr error) {
	h.seen.telling.Wait()
	o := h.outcome(ResultAcquired)
	if h.waits != nil && h.waits.met {
		o.Result = ResultAfterWait
	}
	o.Waited, o.HeldFor = h.granted.sub(h.began), now().sub(h.granted)
	switch {
	case !h.returned:
		o.ErrorType = "panic"
	case lost != nil:
		o.ErrorType, o.Err = lost.ErrorType(), lost
	case h.stale:
		o.ErrorType = "fence_stale"
	case releaseErr != nil:
		o.ErrorType, o.Err = "release_failed", releaseErr
	}
	h.guard().obs.end(h.ctx, o)
}

// tellRefused tells of a call that did not get the lease.
func (h *hold) tellRefused(err error) {
	h.seen.telling.Wait()
	o := h.outcome(ResultFailed)
	o.Waited, o.Err = now().sub(h.began), err
	held := errors.Is(err, ErrHeld)
	switch {
	case errors.Is(h.ctx.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded):
		o.Result, o.ErrorType = ResultTimeout, "timeout"
	case h.ctx.Err() != nil && errors.Is(err, h.ctx.Err()):
		o.Result = ResultCanceled
	case held && (h.limit == 0 || h.away):
		o.Result = ResultRefused
	case held:
		o.Result, o.ErrorType = ResultTimeout, "timeout"
	default:
		o.ErrorType = errorType(err)
	}
	h.guard().obs.end(h.ctx, o)
}

func (h *hold) outcome(result string) Outcome {
	return Outcome{Call: h.call(), Result: result, Token: h.token(), Attempts: int(h.attempts), Nodes: int(h.nodes)}
}

func errorType(err error) string {
	var typed interface{ ErrorType() string }
	if errors.As(err, &typed) {
		return typed.ErrorType()
	}
	return "other"
}

// meet tells whom a call that joins a line waits for.
func (h *hold) meet() {
	h.guard().mu.Lock()
	l := h.line
	var he *HeldError
	switch {
	case l == nil || h.state != queued: // its turn has come already
	case l.held() != nil:
		he = l.held()
	case !l.asks:
		he = l.heldHere()
	}
	h.guard().mu.Unlock()
	if he != nil {
		h.waiting(he)
	}
}

// waiting tells of a holder that the observers have not heard of.
func (h *hold) waiting(he *HeldError) {
	if h.guard().obs == nil {
		return
	}
	w := h.wait()
	if w.met && w.holder == he.Token {
		return
	}
	w.met, w.holder = true, he.Token
	h.event(Event{Kind: Waiting, Holder: he})
}
