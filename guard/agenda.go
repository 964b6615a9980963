package guard

import (
	"container/heap"
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
	holds  []*hold // heap by wakeAt
	timer  *time.Timer
	rings  time.Time // when the timer fires; zero if it is stopped
	asleep time.Duration
}

func (a *agenda) init(g *Guard) { a.guard = g }

func (a *agenda) Len() int           { return len(a.holds) }
func (a *agenda) Less(i, j int) bool { return a.holds[i].wakeAt.Before(a.holds[j].wakeAt) }
func (a *agenda) Swap(i, j int) {
	a.holds[i], a.holds[j] = a.holds[j], a.holds[i]
	a.holds[i].slot, a.holds[j].slot = i, j
}

func (a *agenda) Push(x any) {
	h := x.(*hold)
	h.slot = len(a.holds)
	a.holds = append(a.holds, h)
}

func (a *agenda) Pop() any {
	last := len(a.holds) - 1
	h := a.holds[last]
	a.holds[last], a.holds = nil, a.holds[:last]
	h.slot = -1
	return h
}

// add puts h on the agenda, or moves it after one of its times changed.
func (a *agenda) add(h *hold) {
	h.wakeAt = h.nextEvent()
	if h.slot >= 0 {
		heap.Fix(a, h.slot)
	} else {
		if len(a.holds) == 0 {
			a.asleep = suspended()
		}
		heap.Push(a, h)
	}
	a.arm(time.Now())
}

// remove leaves the timer alone: it rings once more at most, which costs less than
// stopping and starting it with every lease.
func (a *agenda) remove(h *hold) {
	if h.slot >= 0 {
		heap.Remove(a, h.slot)
	}
}

// arm sets the timer to the next event, at most sleepCheck away. A timer that
// fires too early is left alone: moving it costs more than looking twice.
func (a *agenda) arm(now time.Time) {
	if len(a.holds) == 0 {
		return
	}
	next := a.holds[0].wakeAt
	if check := now.Add(sleepCheck); bootAtStart != 0 && check.Before(next) {
		next = check
	}
	if !a.rings.IsZero() && !next.Before(a.rings) {
		return
	}
	a.rings = next
	if a.timer == nil {
		a.timer = time.AfterFunc(next.Sub(now), a.guard.tick)
	} else {
		a.timer.Reset(next.Sub(now))
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
	a.rings = time.Time{}
	now := time.Now()
	readSleep(true)
	if slept := sleptSince(a.asleep); slept > 0 {
		a.asleep += slept
		g.sleptLocked(now)
	}
	for len(a.holds) > 0 && a.holds[0].isDue(now) {
		h := a.holds[0]
		lost := h.checkLocked()
		limit := h.maxUntil()
		switch {
		case h.lost != nil:
		case !limit.IsZero() && !now.Before(limit):
			lost = g.loseLocked(h, LostMaxHold, nil)
		default:
			g.renewSoonLocked(h, now)
		}
		if lost != nil {
			losses = append(losses, loss{h, lost})
		}
	}
	g.due.help(g, now)
	a.arm(now)
	g.mu.Unlock()
	for _, l := range losses {
		l.h.tellLost(l.lost)
	}
}

// sleptLocked is called when the machine has slept: every deadline has moved
// closer, and a renewal tells what is still held.
func (g *Guard) sleptLocked(now time.Time) {
	for _, h := range g.agenda.holds {
		h.renewAt = now
		h.wakeAt = now
	}
	heap.Init(&g.agenda)
}

// isDue tells whether h is to be looked at now. Renewals go out a little early
// together with others, so that many leases share wake-ups and round trips.
func (h *hold) isDue(now time.Time) bool {
	if h.wakeAt.After(now) && h.wakeAt.Equal(h.renewAt) {
		return !h.wakeAt.After(now.Add(min(h.lease.Until.Sub(h.lease.Since)/150, renewTogether)))
	}
	return !h.wakeAt.After(now)
}

// renewTogether is how early a renewal may go out, to go with others.
const renewTogether = 100 * time.Millisecond

// nextEvent is when h needs attention next.
func (h *hold) nextEvent() time.Time {
	next := h.untilLocked()
	if h.renewAt.Before(next) {
		next = h.renewAt
	}
	if limit := h.maxUntil(); !limit.IsZero() && limit.Before(next) {
		next = limit
	}
	return next
}

// maxUntil is when MaxHold ends the work; zero without it.
func (h *hold) maxUntil() time.Time {
	if d := h.class.policy.maxHold; d > 0 {
		return h.granted.Add(d)
	}
	return time.Time{}
}

// nextRenewal is a third of the lease after it was last confirmed, 8 % more or
// less so that leases taken together do not all renew at once for ever. With
// what isDue allows that stays within 10 %.
func nextRenewal(l Lease) time.Time {
	third := l.TTL / 3
	if life := l.Until.Sub(l.Since); life < l.TTL*9/10 { // to be claimed within a window
		third = life / 3
	}
	return l.Since.Add(third*92/100 + time.Duration(rand.Int64N(int64(third*16/100)+1)))
}
