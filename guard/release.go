package guard

import (
	"context"
	"errors"
	"time"
)

// passFor is how long after the store's grant a lease may be passed on inside
// this process, so that others wait no longer for their turn than that and one
// piece of work.
const passFor = 50 * time.Millisecond

// finish gives the lease back after the work has ended, with fnErr if it
// returned. It returns what the verb returns.
func (h *hold) finish(fnErr error) error {
	g, at := h.guard(), look()
	g.mu.Lock()
	lost := h.checkLocked(at)
	h.endWorkLocked(nil) // before the next holder may start
	g.agenda.remove(h)
	h.stopRenewalLocked()
	if h.lost != nil {
		h.state = over
		g.releaseLaterLocked(h)
		g.leaveLocked()
		g.mu.Unlock()
		h.tellLost(lost)
		return h.verdict(fnErr, h.lost, false, nil)
	}
	if next := g.nextHolderLocked(h, at.at); next != nil {
		h.state = over
		g.handOnLocked(h, next, at)
		g.leaveLocked()
		g.mu.Unlock()
		if g.obs != nil {
			h.event(Event{Kind: HandedOn, Token: h.token()})
		}
		return h.verdict(fnErr, nil, false, nil)
	}
	h.state = releasing
	next := h.waiters && h.line != nil && h.line.first != nil
	if next { // it can only be queued behind those at the store, and need not wait for the answer
		g.askNextLocked(h.ctx, h.line)
		h.line = nil
	}
	g.mu.Unlock()

	err := h.release(at.at, next)

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
		h.event(Event{Kind: ReleaseFailed, Token: h.token(), Err: err})
	}
	return h.verdict(fnErr, gone, true, err)
}

// lostAtRelease is nil if the lease may just have run out after the work.
func (h *hold) lostAtRelease(err error) *LostError {
	if at := look(); at.at >= h.ends(at) {
		return nil
	}
	lost := &LostError{Name: h.name, Token: h.token(), Reason: LostGone}
	if known, ok := errors.AsType[*LostError](err); ok {
		lost.Reason = known.Reason
	}
	if h.guard().obs != nil {
		h.event(Event{Kind: Lost, Token: lost.Token, Err: lost})
	}
	return lost
}

// release ends the lease at the store, within the policy's limit. A request
// that gets no answer is followed by another after a quarter of the limit. next
// tells whether the next call of the line asks at the same time.
func (h *hold) release(at instant, next bool) error {
	within := h.class.policy.releaseWithin
	by := at.add(within)
	unsure := false
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		ctx := &deadline{limit{Context: h.ctx, until: min(by, at.add(max(within/4, time.Millisecond)))}}
		lease := h.lease()
		lease.Next = next
		err := h.guard().store.Release(ctx, lease)
		ctx.stop()
		if unsure && errors.Is(err, ErrLost) {
			return nil // an earlier copy of this request did it
		}
		if err == nil || errors.Is(err, ErrLost) || permanent(err) {
			return err
		}
		unsure = true
		if by.sub(now()) <= wait {
			return err
		}
		time.Sleep(wait)
		at = now()
	}
}

// verdict tells the observers of the end and returns what the verb returns. A
// lease found gone at the release matters only if fn succeeded: an error of fn
// stands for itself.
func (h *hold) verdict(fnErr error, lost *LostError, atRelease bool, releaseErr error) error {
	if h.guard().obs != nil {
		h.tellEnd(lost, releaseErr)
	}
	switch {
	case lost == nil, atRelease && fnErr != nil, errors.Is(fnErr, lost):
		return fnErr
	case fnErr == nil:
		return lost
	}
	return errors.Join(fnErr, lost)
}

// releaseLaterLocked releases in the background, as long as the store may still
// have the lease.
func (g *Guard) releaseLaterLocked(h *hold) {
	ctx, lease := context.WithoutCancel(h.ctx), h.lease()
	g.backgroundLocked(func() {
		g.insist(ctx, lease, time.Now().Add(lease.TTL))
	})
}

// nextHolderLocked is the waiting call that h's lease may be passed on to. Every
// condition protects somebody: others at the store (number and time), the next
// holder (it starts with a fresh lease of the length it asked for), and MinHold.
func (g *Guard) nextHolderLocked(h *hold, at instant) *hold {
	l := h.line
	if l == nil || l.first == nil || l.kept || h.nth >= h.most || at >= instantOf(h.grant.since).add(min(passFor, h.grant.life/4)) {
		return nil
	}
	next := l.first
	a, b := &h.class.policy, &next.class.policy
	if a.ttl != b.ttl || a.minHold != 0 || b.minHold != 0 || next.limit == 0 {
		return nil
	}
	return next
}

func (g *Guard) handOnLocked(h, next *hold, at reading) {
	l := h.line
	h.line = nil
	g.behindLocked(l, next)
	l.remove(next)
	l.head = next
	next.takeOver(h)
	next.holdLocked(h.asleep, at)
	next.wake()
}

// passOnLocked gets rid of a lease that was handed to h in the moment in which
// h stopped waiting.
func (g *Guard) passOnLocked(h *hold) {
	at := look()
	_ = h.checkLocked(at)
	g.agenda.remove(h)
	h.stopRenewalLocked()
	if h.lost != nil {
		g.releaseLaterLocked(h)
		return
	}
	if next := g.nextHolderLocked(h, at.at); next != nil {
		g.handOnLocked(h, next, at)
		return
	}
	l, lease, ctx := h.line, h.lease(), context.WithoutCancel(h.ctx)
	g.backgroundLocked(func() {
		g.insist(ctx, lease, lease.Until)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.askNextLocked(ctx, l)
	})
}
