package guard

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// passFor is how long after the store's grant a lease may be passed on inside
// this process, so that others wait no longer for their turn than that and one
// piece of work.
const passFor = 50 * time.Millisecond

// finish gives the lease back after the work has ended, with fnErr if it
// returned. It returns what the verb returns.
func (h *hold) finish(fnErr error) error {
	g := h.guard
	h.cancel(nil) // before the next holder may start
	g.mu.Lock()
	lost := h.checkLocked()
	g.agenda.remove(h)
	h.stopRenewalLocked()
	if h.lost != nil {
		h.state = over
		g.releaseLaterLocked(h)
		g.leaveLocked()
		g.mu.Unlock()
		h.tellLost(lost)
		return h.tellEnd(fnErr, h.lost, false, nil)
	}
	if next := g.nextHolderLocked(h); next != nil {
		h.state = over
		g.handOnLocked(h, next)
		g.leaveLocked()
		g.mu.Unlock()
		if g.obs != nil {
			h.event(Event{Kind: HandedOn, Token: h.token})
		}
		return h.tellEnd(fnErr, nil, false, nil)
	}
	h.state = releasing
	g.mu.Unlock()

	err := h.release()

	g.mu.Lock()
	h.state = over
	if h.line != nil {
		g.askNextLocked(h.ctx, h.line)
		h.line = nil
	}
	if err != nil && !errors.Is(err, ErrLost) && !permanent(err) {
		g.releaseLaterLocked(h)
	}
	g.leaveLocked()
	g.mu.Unlock()
	var gone *LostError
	switch {
	case errors.Is(err, ErrLost):
		gone, err = h.lostAtRelease(err), nil
	case err != nil && g.obs != nil:
		h.event(Event{Kind: ReleaseFailed, Token: h.token, Err: err})
	}
	return h.tellEnd(fnErr, gone, true, err)
}

// lostAtRelease is nil if the lease may just have run out after the work.
func (h *hold) lostAtRelease(err error) *LostError {
	if !time.Now().Before(h.lease.Until.Add(-sleptSince(h.asleep))) {
		return nil
	}
	lost := &LostError{Name: h.name, Token: h.token, Reason: LostGone}
	if known, ok := errors.AsType[*LostError](err); ok {
		lost.Reason = known.Reason
	}
	if h.guard.obs != nil {
		h.event(Event{Kind: Lost, Token: lost.Token, Err: lost})
	}
	return lost
}

// release ends the lease at the store, within the policy's limit. A request
// that gets no answer is followed by another after a quarter of the limit.
func (h *hold) release() error {
	within := h.class.policy.releaseWithin
	by := time.Now().Add(within)
	unsure := false
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		ctx := &limit{Context: h.ctx, until: time.Now().Add(min(time.Until(by), max(within/4, time.Millisecond)))}
		err := h.guard.store.Release(ctx, h.lease)
		ctx.stop()
		if unsure && errors.Is(err, ErrLost) {
			return nil // an earlier copy of this request did it
		}
		if err == nil || errors.Is(err, ErrLost) || permanent(err) {
			return err
		}
		unsure = true
		if time.Until(by) <= wait {
			return err
		}
		time.Sleep(wait)
	}
}

// tellEnd tells the observers how the call ended and returns what the verb
// returns. A lease found gone at the release matters only if fn succeeded: an
// error of fn stands for itself.
func (h *hold) tellEnd(fnErr error, lost *LostError, atRelease bool, releaseErr error) error {
	h.telling.Wait()
	if h.guard.obs != nil {
		o := h.outcome(ResultAcquired)
		if h.waits != nil && h.waits.met {
			o.Result = ResultAfterWait
		}
		o.Waited, o.HeldFor = h.granted.Sub(h.at), time.Since(h.granted)
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
		h.guard.obs.end(h.ctx, o)
	}
	switch {
	case lost == nil, atRelease && fnErr != nil, errors.Is(fnErr, lost):
		return fnErr
	case fnErr == nil:
		return lost
	}
	return errors.Join(fnErr, lost)
}

// tellRefused tells the observers of a call that did not get the lease.
func (h *hold) tellRefused(err error) {
	h.telling.Wait()
	o := h.outcome(ResultFailed)
	o.Waited, o.Err = time.Since(h.at), err
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
	h.guard.obs.end(h.ctx, o)
}

func (h *hold) outcome(result string) Outcome {
	return Outcome{Call: h.call(), Result: result, Token: h.token, Attempts: h.attempts}
}

func errorType(err error) string {
	var typed interface{ ErrorType() string }
	if errors.As(err, &typed) {
		return typed.ErrorType()
	}
	return "other"
}

// releaseLaterLocked releases in the background, as long as the store may still
// have the lease.
func (g *Guard) releaseLaterLocked(h *hold) {
	ctx, lease := context.WithoutCancel(h.ctx), h.lease
	g.backgroundLocked(func() {
		g.insist(ctx, lease, time.Now().Add(lease.TTL))
	})
}

// nextHolderLocked is the waiting call that h's lease may be passed on to. Every
// condition protects somebody: others at the store (number and time), the next
// holder (it starts with a fresh lease of the length it asked for), and MinHold.
func (g *Guard) nextHolderLocked(h *hold) *hold {
	l := h.line
	if l == nil || l.first == nil || l.used >= min(h.lease.HandOffs, TokensPerGrant-1) || !time.Now().Before(l.passBy) {
		return nil
	}
	next := l.first
	a, b := &h.class.policy, &next.class.policy
	if a.ttl != b.ttl || a.minHold != 0 || b.minHold != 0 || next.limit == 0 {
		return nil
	}
	return next
}

func (g *Guard) handOnLocked(h, next *hold) {
	l := h.line
	h.line = nil
	g.behindLocked(l, next)
	l.remove(next)
	l.used++
	l.holder = next
	next.holdLocked(h.lease, h.lease.Token+fence.Token(l.used), h.asleep)
	next.wake()
}

// passOnLocked gets rid of a lease that was handed to h in the moment in which
// h stopped waiting.
func (g *Guard) passOnLocked(h *hold) {
	_ = h.checkLocked()
	g.agenda.remove(h)
	h.stopRenewalLocked()
	if h.lost != nil {
		g.releaseLaterLocked(h)
		return
	}
	if next := g.nextHolderLocked(h); next != nil {
		g.handOnLocked(h, next)
		return
	}
	l, lease, ctx := h.line, h.lease, context.WithoutCancel(h.ctx)
	g.backgroundLocked(func() {
		g.insist(ctx, lease, lease.Until)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.askNextLocked(ctx, l)
	})
}
