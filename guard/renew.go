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
	queue   []*renewal
	since   instant // since when the first one waits
	workers int
}

// renewSoonLocked queues a renewal of h and says when to look at h again: a
// request may be lost, so another is sent, with the first one still on its way,
// after a sixth of the TTL.
func (g *Guard) renewSoonLocked(h *hold, now reading) {
	h.renewAt = now.at.add(max(h.class.policy.ttl/6, time.Millisecond))
	h.line.stopPassing()
	if r := h.renewalLocked(); r.flying < renewTwice && !r.due {
		r.due = true
		r.flying++
		d := &g.due
		if len(d.queue) == 0 {
			d.since = now.at
		}
		d.queue = append(d.queue, r)
		if d.workers < renewers {
			d.start(g)
		}
	}
	g.agenda.add(h, now)
}

func (d *renewals) start(g *Guard) {
	d.workers++
	g.backgroundLocked(g.renewDue)
}

// help adds a goroutine when requests that hang keep the others busy.
func (d *renewals) help(g *Guard, now instant) {
	if len(d.queue) > 0 && now.sub(d.since) > renewDelay {
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
		r := d.queue[0]
		d.queue = d.queue[1:]
		d.since = now()
		r.due = false
		h := r.hold
		if h.renewal != r || h.state != holding || h.lost != nil {
			r.flying--
			continue
		}
		lease := h.lease()
		g.mu.Unlock()
		_ = h.renew(r, lease, r)
		g.mu.Lock()
	}
}

// renewal is what a hold needs while it is being renewed, or could not be. As a
// context it keeps the values of the caller's, so that traces of the store's client
// have a parent, and ends with the hold. Guard.mu protects its own fields.
type renewal struct {
	limit
	hold   *hold
	due    bool  // in the queue
	flying int8  // requests in the queue or on their way
	tries  int32 // in a row without success
	err    error // of the last one
}

func (h *hold) renewalLocked() *renewal {
	if h.renewal == nil {
		h.renewal = &renewal{limit: limit{Context: h.ctx}, hold: h}
	}
	return h.renewal
}

func (h *hold) stopRenewalLocked() {
	if h.renewal != nil {
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
	g := h.guard()
	asleep := look().slept
	lease, err := g.store.Renew(ctx, old)
	at := look()

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
		lost = h.renewedLocked(&lease, asleep, at)
	case errors.As(err, &known):
		lost = g.loseLocked(h, known.Reason, nil)
	case errors.Is(err, ErrLost):
		lost = g.loseLocked(h, LostGone, nil)
	default:
		r.tries++
		r.err = err
		again := at.at.add(renewPause(h.class.policy.ttl, int(r.tries)))
		if again < h.renewAt && r.flying == 0 {
			h.renewAt = again
			g.agenda.add(h, at)
		}
	}
	telling := g.obs != nil && lost == nil
	token := h.token()
	if telling {
		h.seen.telling.Add(1)
	}
	g.mu.Unlock()

	if telling {
		<-h.seen.granted
		kind := Renewed
		if err != nil {
			kind = RenewFailed
		}
		h.event(Event{Kind: kind, Token: token, Err: err})
		h.seen.telling.Done()
	}
	h.tellLost(lost)
	if lost != nil {
		return lost
	}
	return err
}

// renewedLocked takes over a confirmed renewal. An answer that comes after the
// deadline is discarded: it must not bring back what others were told is over.
func (h *hold) renewedLocked(lease *Lease, asleep time.Duration, at reading) *LostError {
	if lost := h.checkLocked(at); lost != nil || h.lost != nil {
		return lost
	}
	r := h.renewal
	r.tries, r.err = 0, nil
	if r.flying == 0 {
		h.renewal = nil
	}
	if instantOf(lease.Until).add(-at.sleptSince(asleep)) > h.ends(at) { // answers may overtake each other
		h.extendTo(lease)
		h.asleep = asleep
		h.renewAt = h.nextRenewal()
		h.guard().agenda.add(h, at)
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
	g := h.guard()
	g.mu.Lock()
	lost := h.checkLocked(look())
	if h.lost != nil || h.state != holding {
		err := error(h.lost)
		if h.lost == nil {
			err = fmt.Errorf("%w: %q was released", ErrLost, h.name)
		}
		g.mu.Unlock()
		h.tellLost(lost)
		return err
	}
	r := h.renewalLocked()
	r.flying++
	h.line.stopPassing()
	lease := h.lease()
	g.mu.Unlock()
	return h.renew(ctx, lease, r)
}
