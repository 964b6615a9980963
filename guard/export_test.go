package guard

import "time"

// Sleep makes the machine look as if it had slept for d more, for the rest of
// the test binary's life.
func Sleep(d time.Duration) {
	slept += d
	readSleep = func(time.Time, bool) time.Duration { return slept }
}

var slept time.Duration

// HandOnALostLease hands h's lease to the next in line, and loses it before that
// one can begin.
func HandOnALostLease(h *Held) {
	from := (*hold)(h)
	g, at := from.guard(), look()
	g.mu.Lock()
	defer g.mu.Unlock()
	from.endWorkLocked(nil)
	g.agenda.remove(from)
	next := g.nextHolderLocked(from, at.at)
	from.state = over
	g.handOnLocked(from, next, at)
	g.leaveLocked()
	g.loseLocked(next, LostGone, nil)
}
