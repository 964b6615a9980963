package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	renewers   = 64                    // goroutines that renew at a time
	renewDelay = 50 * time.Millisecond // a renewal that waited longer for one gets its own
	renewTwice = 3                     // requests on their way for one lease, at most
)

// renewals is the queue of leases whose renewal is due. The goroutines that
// work it off live as long as it is not empty, so many leases share few
// goroutines, and the store can send their requests together. Guard.mu protects
// it.
type renewals struct {
	queue   []*hold
	since   time.Time // since when the first one waits
	workers int
}

// renewSoonLocked queues a renewal of h and says when to look at h again: a
// request may be lost, so another is sent, with the first one still on its way,
// after a sixth of the TTL.
func (g *Guard) renewSoonLocked(h *hold, now time.Time) {
	h.renewAt = now.Add(max(h.lease.TTL/6, time.Millisecond))
	h.line.stopPassing()
	if h.renewal == nil {
		h.renewal = &renewal{}
	}
	if r := h.renewal; r.flying < renewTwice && !r.due {
		r.due = true
		r.flying++
		d := &g.due
		if len(d.queue) == 0 {
			d.since = now
		}
		d.queue = append(d.queue, h)
		if d.workers < renewers {
			d.start(g)
		}
	}
	g.agenda.add(h)
}

func (d *renewals) start(g *Guard) {
	d.workers++
	g.backgroundLocked(g.renewDue)
}

// help adds a goroutine when requests that hang keep the others busy.
func (d *renewals) help(g *Guard, now time.Time) {
	if len(d.queue) > 0 && now.Sub(d.since) > renewDelay {
		for range min(len(d.queue), renewers) {
			d.start(g)
		}
	}
}

func (g *Guard) renewDue() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for d := &g.due; ; {
		if len(d.queue) == 0 {
			d.workers--
			return
		}
		h := d.queue[0]
		d.queue = d.queue[1:]
		d.since = time.Now()
		h.renewal.due = false
		if h.state != holding || h.lost != nil {
			h.renewal.flying--
			continue
		}
		lease, r, ctx := h.lease, h.renewal, h.renewalContextLocked()
		g.mu.Unlock()
		_ = h.renew(ctx, lease, r)
		g.mu.Lock()
	}
}

// renewal is what a hold needs from its first renewal on. Guard.mu protects it.
type renewal struct {
	due    bool  // in the queue
	flying int   // requests in the queue or on their way
	tries  int   // in a row without success
	err    error // of the last one
	ctx    context.Context
	stop   context.CancelFunc
}

// renewalContextLocked keeps the values of the caller's context, so that traces
// of the store's client have a parent, and ends with the hold.
func (h *hold) renewalContextLocked() context.Context {
	r := h.renewal
	if r.ctx == nil {
		r.ctx, r.stop = context.WithCancel(context.WithoutCancel(h.ctx))
	}
	return r.ctx
}

func (h *hold) stopRenewalLocked() {
	if h.renewal != nil && h.renewal.stop != nil {
		h.renewal.stop()
	}
}

// renewErrLocked is what the renewals of a lost lease failed with.
func (h *hold) renewErrLocked() error {
	if h.renewal == nil {
		return nil
	}
	return h.renewal.err
}

// renew sends one renewal and takes its answer into account.
func (h *hold) renew(ctx context.Context, old Lease, r *renewal) error {
	g := h.guard
	asleep := suspended()
	lease, err := g.store.Renew(ctx, old)

	g.mu.Lock()
	r.flying--
	if h.state != holding || h.lost != nil || h.renewal != r { // over, or back in line since
		g.mu.Unlock()
		return ErrLost
	}
	var lost *LostError
	var known *LostError
	switch {
	case err == nil:
		lost = h.renewedLocked(lease, asleep)
	case errors.As(err, &known):
		lost = g.loseLocked(h, known.Reason, nil)
	case errors.Is(err, ErrLost):
		lost = g.loseLocked(h, LostGone, nil)
	default:
		r.tries++
		r.err = err
		again := time.Now().Add(renewPause(h.lease.TTL, r.tries))
		if again.Before(h.renewAt) && r.flying == 0 {
			h.renewAt = again
			g.agenda.add(h)
		}
	}
	telling := g.obs != nil && lost == nil
	token := h.token
	if telling {
		h.telling.Add(1)
	}
	g.mu.Unlock()

	if telling {
		kind := Renewed
		if err != nil {
			kind = RenewFailed
		}
		h.event(Event{Kind: kind, Token: token, Err: err})
		h.telling.Done()
	}
	h.tellLost(lost)
	if lost != nil {
		return lost
	}
	return err
}

// renewedLocked takes over a confirmed renewal. An answer that comes after the
// deadline is discarded: it must not bring back what others were told is over.
func (h *hold) renewedLocked(lease Lease, asleep time.Duration) *LostError {
	if lost := h.checkLocked(); lost != nil || h.lost != nil {
		return lost
	}
	h.renewal.tries, h.renewal.err = 0, nil
	if lease.Until.Add(-sleptSince(asleep)).After(h.untilLocked()) { // answers may overtake each other
		h.lease, h.asleep = lease, asleep
		h.renewAt = nextRenewal(lease)
		h.guard.agenda.add(h)
	}
	return nil
}

// renewPause doubles from 50 ms to a tenth of the TTL, with jitter, and is
// never longer than a sixth of the TTL.
func renewPause(ttl time.Duration, tries int) time.Duration {
	d := min(50*time.Millisecond<<min(tries-1, 10), max(ttl/10, time.Millisecond))
	return d*3/4 + time.Duration(rand.Int64N(int64(d/4)+1))
}

// extend renews at once, for Held.Extend.
func (h *hold) extend(ctx context.Context) error {
	g := h.guard
	g.mu.Lock()
	lost := h.checkLocked()
	if h.lost != nil || h.state != holding {
		err := error(h.lost)
		if h.lost == nil {
			err = fmt.Errorf("%w: %q was released", ErrLost, h.name)
		}
		g.mu.Unlock()
		h.tellLost(lost)
		return err
	}
	if h.renewal == nil {
		h.renewal = &renewal{}
	}
	h.renewal.flying++
	h.line.stopPassing()
	lease, r := h.lease, h.renewal
	g.mu.Unlock()
	return h.renew(ctx, lease, r)
}
