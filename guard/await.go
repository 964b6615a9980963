package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// await waits for h's turn: h has become the asker, or holds the lease. On error
// h has left the line.
func (h *hold) await() (asks bool, err error) {
	g := h.guard()
	if g.obs != nil && h.limit != 0 {
		h.meet()
	}
	limit, stop := h.limitTimer()
	defer stop()
	var why error
	select {
	case <-h.waits.turn:
	case <-h.ctx.Done():
		why = h.ended(h.standing())
	case <-limit:
		if why = h.standing(); why == nil {
			why = fmt.Errorf("%w: no answer about %q within %v", ErrUnavailable, h.name, h.patience())
		}
	case <-g.closed:
		why = &endedError{h.name, []error{ErrClosed}}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if why == nil {
		if h.waits.verdict != nil {
			g.leaveLocked()
		}
		return h.state == asking, h.waits.verdict
	}
	// The turn may have come in the same moment; then it must be passed on.
	switch h.state {
	case queued:
		h.line.remove(h)
	case asking:
		g.askNextLocked(h.ctx, h.line)
	case holding:
		g.passOnLocked(h)
	}
	h.state, h.line = over, nil
	g.leaveLocked()
	return false, why
}

// standing is what is known of the name while h stands in line behind others of
// this process, nil if their request has no answer yet.
func (h *hold) standing() error {
	g := h.guard()
	g.mu.Lock()
	defer g.mu.Unlock()
	l := h.line
	if l == nil {
		return h.waits.verdict
	}
	var held *HeldError
	if l.q != nil {
		held = l.q.answerFor(h)
	}
	if l.asks && held == nil {
		return nil
	}
	he := l.heldHere()
	if held != nil {
		*he = *held
	}
	he.Wake, he.Waited, he.Attempts = nil, now().sub(h.began), int(h.attempts)
	return he
}

// limitTimer ends the wait of a call that has a limit; a call that does not
// wait is given the time a verdict may take.
func (h *hold) limitTimer() (<-chan time.Time, func() bool) {
	if h.limit < 0 {
		return nil, func() bool { return true }
	}
	t := time.NewTimer(h.began.add(h.patience()).sub(now()))
	return t.C, t.Stop
}

// patience is how long the call may take to be answered, from its beginning.
func (h *hold) patience() time.Duration {
	if h.limit == 0 {
		return tryLimit
	}
	return h.limit
}

func (h *hold) ended(last error) error { return ended(h.ctx, h.name, last) }

var errOver = errors.New("guard: the wait is over")

// limited is ctx, ended when the call's wait is over.
func (h *hold) limited() (context.Context, context.CancelFunc) {
	if h.limit < 0 {
		return h.ctx, func() {}
	}
	return context.WithDeadlineCause(h.ctx, h.began.add(h.patience()).time(), errOver)
}
