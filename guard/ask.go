package guard

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

const (
	tryLimit = time.Second      // a call that does not wait is answered within this
	downFor  = 30 * time.Second // without a deadline, a dead lock service is given this
)

// ask asks the store, as the asker of h's line, until the name is granted or the
// wait ends. On success h holds the lease; otherwise h has left the line and the
// next call goes on where it stopped.
func (h *hold) ask() error {
	q := h.line.q
	ctx, cancel := h.limited()
	defer func() { cancel() }()
	ends := false // with the Guard, too: what that takes is made for calls that have to wait
	var last error
	if answer := q.answerFor(h); answer != nil {
		last = answer
	}
	if q.held != nil && (q.request.Owner == "" || h.same(q.request)) { // taken over from a call that left
		h.waiting(q.held)
		if err := h.pause(q.held); err != nil {
			return h.leave(err)
		}
	}
	for {
		if last != nil && !ends {
			ctx, cancel = h.guard().untilClosed(ctx, cancel)
			ends = true
		}
		sent := look()
		h.fill(q, sent.at)
		before := q.asleep
		q.asleep = sent.slept
		h.attempts = max(h.attempts, h.attempts+1) // stops counting at the end of its range
		lease, err := h.guard().store.Acquire(ctx, q.request)
		asleep := q.asleep
		if err == nil && instantOf(lease.Since) < sent.at { // published to us: it counts from the request before
			asleep = before
		}
		if err == nil {
			at := look()
			if at.sleptSince(asleep) > 0 {
				asleep = at.slept
				lease, at, err = h.confirm(ctx, lease)
			}
			if err == nil {
				err = h.inTime(lease, at)
			}
			if err == nil {
				return h.start(lease, asleep, at)
			}
		}
		err = h.verdictOf(ctx, err, sent.at)
		if err == nil {
			continue
		}
		if h.final(ctx, err) {
			return h.leave(h.explain(ctx, err, last))
		}
		last = err
		if err := h.pause(err); err != nil {
			return h.leave(err)
		}
	}
}

// fill makes sure that the line's request is one h can use.
func (h *hold) fill(q *question, at instant) {
	if q.request.Owner != "" && h.same(q.request) {
		return
	}
	g := h.guard()
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.known { // another TTL: this owner is of no use
		g.abandonLocked(h.ctx, q.request)
	}
	q.restart(h.request(newOwner()), at)
}

// same tells whether r asks for what h wants. Label and trace may differ: they
// only say who was asking when the request was made.
func (h *hold) same(r Request) bool {
	p := &h.class.policy
	return r.TTL == p.ttl && r.MinHold == p.minHold && r.Queue == (h.limit != 0)
}

// confirm renews a lease that was granted while the machine may have slept.
func (h *hold) confirm(ctx context.Context, lease Lease) (Lease, reading, error) {
	renewed, err := h.guard().store.Renew(ctx, lease)
	if err != nil {
		h.retire(lease.Request)
		return lease, look(), err
	}
	return renewed, look(), nil
}

// inTime refuses a lease that is over before it could be used.
func (h *hold) inTime(lease Lease, at reading) error {
	if at.at < instantOf(lease.Until) {
		return nil
	}
	h.retire(lease.Request)
	return fmt.Errorf("%w: the answer for %q took %v, longer than its TTL of %v allows", ErrUnavailable, h.name,
		at.at.sub(instantOf(lease.Since)).Round(time.Millisecond), lease.TTL)
}

// retire gives up the line's owner; the next request is made with a fresh one.
func (h *hold) retire(r Request) {
	g := h.guard()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.abandonLocked(h.ctx, r)
	*h.line.q = question{}
}

// verdictOf keeps what an answer says about the line's owner. It returns nil if
// the owner was refused as such, so that a fresh one can ask at once.
func (h *hold) verdictOf(ctx context.Context, err error, sent instant) error {
	l, g := h.line, h.guard()
	q := l.q
	if errors.Is(err, ErrLost) {
		g.mu.Lock()
		q.restart(Request{}, sent)
		g.mu.Unlock()
		return nil
	}
	var held *HeldError
	if errors.Is(err, ErrHeld) && !errors.As(err, &held) {
		held = &HeldError{Name: h.name}
	}
	if held != nil {
		if h.waits != nil {
			h.waits.downSince = 0
		}
		if h.limit != 0 {
			h.waiting(held)
		}
		g.mu.Lock()
		q.known = q.known || held.Wake != nil
		q.held, q.past = held, nil
		if !q.known {
			q.request = Request{} // it left nothing at the store, so the next one has its own owner
		}
		l.dismissLocked(held)
		g.mu.Unlock()
		return held
	}
	if permanent(err) {
		return err
	}
	if h.wait().downSince == 0 {
		h.wait().downSince = sent
	}
	g.mu.Lock()
	q.known = q.request.Owner != ""
	if q.unanswered(sent); !cutOff(ctx, err) {
		q.past = nil
	}
	if errors.Is(err, ErrUnavailable) {
		l.dismissLocked(err)
	}
	g.mu.Unlock()
	return err
}

// pause waits until asking again makes sense. The error is final.
func (h *hold) pause(last error) error {
	var held *HeldError
	errors.As(last, &held)
	var wake <-chan struct{}
	var again <-chan time.Time
	if held != nil && held.Wake != nil {
		wake = held.Wake
		if held.RetryIn > 0 { // the holder may die without a word
			t := time.NewTimer(held.RetryIn + time.Millisecond)
			defer t.Stop()
			again = t.C
		}
	} else {
		w := h.wait()
		if w.run == nil {
			w.run = h.class.policy.backoff()
		}
		d := retry.Stop
		if w.run != nil {
			d = w.run.NextBackOff()
		}
		if d < 0 { // retry.Stop
			return h.told(last)
		}
		switch {
		case held == nil && !h.hasLimit():
			d = min(d, downFor-now().sub(h.wait().downSince))
		case held != nil && held.RetryIn > 0:
			d = min(d, held.RetryIn+time.Millisecond)
		}
		t := time.NewTimer(max(d, time.Millisecond))
		defer t.Stop()
		again = t.C
	}
	limit, stop := h.limitTimer()
	defer stop()
	select {
	case <-wake:
	case <-again:
	case <-h.ctx.Done():
		return h.ended(h.told(last))
	case <-limit:
		return h.told(last)
	case <-h.guard().closed:
		return &endedError{h.name, []error{ErrClosed}}
	}
	return nil
}

// leave takes h, the asker, out of its line.
func (h *hold) leave(err error) error {
	g := h.guard()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.askNextLocked(h.ctx, h.line)
	h.state, h.line = over, nil
	g.leaveLocked()
	return err
}

// abandonLocked makes the store forget an owner: its place in the queue, a
// grant of which the reply was lost, and a request still on its way.
func (g *Guard) abandonLocked(ctx context.Context, r Request) {
	ctx = context.WithoutCancel(ctx)
	g.backgroundLocked(func() {
		g.insist(ctx, Lease{Request: r}, time.Now().Add(max(r.TTL, downFor)))
	})
}

// insist releases l until it is confirmed or by has come. An ErrLost is a
// confirmation.
func (g *Guard) insist(ctx context.Context, l Lease, by time.Time) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := g.store.Release(one, l)
		cancel()
		if err == nil || errors.Is(err, ErrLost) || permanent(err) || !time.Now().Add(wait).Before(by) {
			return
		}
		time.Sleep(wait)
	}
}

// newOwner makes 128 random bits that nobody can guess.
//
// crypto/rand.Read never fails; it ends the program if the system has no
// randomness, https://pkg.go.dev/crypto/rand#Read
func newOwner() string {
	var b [16]byte
	rand.Read(b[:])
	var s [22]byte
	base64.RawURLEncoding.Encode(s[:], b[:])
	return string(s[:])
}
