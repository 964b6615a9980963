package retry

import "time"

// A patient run is told of a time that passes before its next pause begins, so
// that a limit on the whole holds whatever a server asks for.
type patient interface {
	next(after time.Duration) time.Duration
}

// next is the pause that b allows once after has passed, or Stop.
func next(b Backoff, after time.Duration) time.Duration {
	if b, ok := b.(patient); ok {
		return b.next(after)
	}
	d := b.NextBackOff()
	if d < 0 {
		return Stop
	}
	return max(d, minPause)
}

// changed is a run with its pauses made shorter, or left alone, by change.
type changed struct {
	Backoff
	change func(time.Duration) time.Duration
}

func (c changed) NextBackOff() time.Duration { return c.next(0) }

func (c changed) next(after time.Duration) time.Duration {
	d := next(c.Backoff, after)
	if d < 0 {
		return Stop
	}
	return max(c.change(d), minPause)
}

func (p Policy) each(change func(time.Duration) time.Duration) Policy {
	return func() Backoff { return changed{p.start(), change} }
}

// FullJitter replaces each pause d by a random one between 1 ms and d. It
// spreads attempts best and asks more often than p: on average after half the
// time.
func (p Policy) FullJitter() Policy {
	return p.each(func(d time.Duration) time.Duration { return between(minPause, d) })
}

// EqualJitter replaces each pause d by a random one between d/2 and d.
func (p Policy) EqualJitter() Policy {
	return p.each(func(d time.Duration) time.Duration { return between(d/2, d) })
}

// Cap cuts pauses at d, after the jitter of p; nothing put on top of it makes
// them longer again. All pauses that were longer are then exactly d: where many
// wait for the same thing, let jitter come after Cap, or use a schedule with a
// ceiling.
func (p Policy) Cap(d time.Duration) Policy {
	return p.each(func(pause time.Duration) time.Duration { return min(pause, d) })
}

// Attempts allows n attempts in all, the first one included, which is n-1
// pauses. Less than 1 counts as 1.
func (p Policy) Attempts(n int) Policy {
	pauses := max(n, 1) - 1
	return func() Backoff { return &attempts{p.start(), pauses, pauses} }
}

type attempts struct {
	Backoff
	allowed, left int
}

func (a *attempts) NextBackOff() time.Duration { return a.next(0) }

func (a *attempts) next(after time.Duration) time.Duration {
	if a.left == 0 {
		return Stop
	}
	a.left--
	return next(a.Backoff, after)
}

func (a *attempts) Reset() {
	a.left = a.allowed
	a.Backoff.Reset()
}

// Elapsed allows no pause that would end later than d after the run began, so
// the last attempt begins within d. With d of 0 or less there is no second
// attempt.
func (p Policy) Elapsed(d time.Duration) Policy {
	d = max(d, 0)
	return func() Backoff { return &elapsed{p.start(), d, time.Now()} }
}

type elapsed struct {
	Backoff
	limit time.Duration
	began time.Time
}

func (e *elapsed) NextBackOff() time.Duration { return e.next(0) }

func (e *elapsed) next(after time.Duration) time.Duration {
	d := next(e.Backoff, after)
	if left := e.limit - time.Since(e.began); after > left || d > left-after {
		return Stop
	}
	return d
}

func (e *elapsed) Reset() {
	e.began = time.Now()
	e.Backoff.Reset()
}
