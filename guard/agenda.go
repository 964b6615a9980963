package guard

import (
	"math/rand/v2"
	"time"
)

// sleepCheck is how often a Guard that holds something looks whether the
// machine has slept, since no timer runs during sleep.
const sleepCheck = 250 * time.Millisecond

// agenda is one timer for all that a Guard holds: renewals, deadlines, limits.
// A held lease costs a place in the heap, no goroutine and no timer of its own.
// Guard.mu protects it.
type agenda struct {
	guard  *Guard
	dates  dates
	timer  *time.Timer
	rings  instant // when the timer fires; 0 if it is stopped
	asleep time.Duration
}

func (a *agenda) init(g *Guard) { a.guard = g }

// add puts h on the agenda, or moves it after one of its times changed.
func (a *agenda) add(h *hold, r reading) {
	if len(a.dates) == 0 {
		a.asleep = r.slept
	}
	a.dates.set(h, h.nextEvent(r))
	a.arm(r)
}

// remove leaves the timer alone: it rings once more at most, which costs less than
// stopping and starting it with every lease.
func (a *agenda) remove(h *hold) { a.dates.remove(h) }

// arm sets the timer to the next event, at most sleepCheck away. A timer that
// fires too early is left alone: moving it costs more than looking twice.
func (a *agenda) arm(r reading) {
	if len(a.dates) == 0 {
		return
	}
	next := a.dates[0].at
	if bootAtStart != 0 {
		next = min(next, r.at.add(sleepCheck))
	}
	if a.rings != 0 && next >= a.rings {
		return
	}
	a.rings = next
	if a.timer == nil {
		a.timer = time.AfterFunc(next.until(r), a.guard.tick)
	} else {
		a.timer.Reset(next.until(r))
	}
}

// tick does what is due. Losses come before renewals, and are told after the
// lock is free.
func (g *Guard) tick() {
	type loss struct {
		h    *hold
		lost *LostError
	}
	var losses []loss
	g.mu.Lock()
	a := &g.agenda
	a.rings = 0
	readSleep(time.Now(), true)
	r := look()
	if slept := r.sleptSince(a.asleep); slept > 0 {
		a.asleep += slept
		g.sleptLocked(r)
	}
	for len(a.dates) > 0 && a.dates[0].due(r) {
		h := a.dates[0].h
		lost := h.checkLocked(r)
		limit, limited := h.maxUntil()
		switch {
		case h.lost != nil:
		case limited && r.at >= limit:
			lost = g.loseLocked(h, LostMaxHold, nil)
		default:
			g.renewSoonLocked(h, r)
		}
		if lost != nil {
			losses = append(losses, loss{h, lost})
		}
	}
	g.due.help(g, r.at)
	a.arm(r)
	g.mu.Unlock()
	for _, l := range losses {
		l.h.tellLost(l.lost)
	}
}

// sleptLocked is called when the machine has slept: every deadline has moved
// closer, and a renewal tells what is still held.
func (g *Guard) sleptLocked(r reading) {
	for i := range g.agenda.dates { // all at one time are a heap
		d := &g.agenda.dates[i]
		d.at, d.h.renewAt = r.at, r.at
	}
}

// renewTogether is how early a renewal may go out, to go with others.
const renewTogether = 100 * time.Millisecond

// due tells whether the hold is to be looked at now. Renewals go out a little
// early together with others, so that many leases share wake-ups and round trips.
func (d *date) due(r reading) bool {
	if d.at > r.at && d.at == d.h.renewAt {
		return d.at <= r.at.add(min(d.h.grant.life/75, renewTogether))
	}
	return d.at <= r.at
}

// nextEvent is when h needs attention next.
func (h *hold) nextEvent(r reading) instant {
	next := min(h.renewAt, h.ends(r))
	if limit, limited := h.maxUntil(); limited {
		next = min(next, limit)
	}
	return next
}

// maxUntil is when MaxHold ends the work.
func (h *hold) maxUntil() (at instant, limited bool) {
	d := h.class.policy.maxHold
	return h.granted.add(d), d > 0
}

// nextRenewal is a third of the lease after it was last confirmed, up to 6 % less
// or 8 % more so that leases taken together do not all renew at once for ever. With
// the 4 % that due allows that stays within 10 %.
func (h *hold) nextRenewal() instant {
	ttl := h.class.policy.ttl
	third := ttl / 3
	if h.grant.life < ttl*9/10 { // to be claimed within a window
		third = h.grant.life / 3
	}
	return instantOf(h.grant.since).add(third*94/100 + time.Duration(rand.Int64N(int64(third*14/100)+1)))
}
