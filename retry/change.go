package retry

import "time"

// A bounded run can take a lower bound for its next pause into account, so that
// a time limit below holds whatever a server asks for.
type bounded interface {
	next(atLeast time.Duration) time.Duration
}

// next is the pause that b allows when the server asked for atLeast, or Stop.
func next(b Backoff, atLeast time.Duration) time.Duration {
	if b, ok := b.(bounded); ok {
		return b.next(atLeast)
	}
	d := b.NextBackOff()
	if d < 0 {
		return Stop
	}
	return max(d, atLeast, minPause)
}

// changed is a run with its pauses made shorter, or left alone, by change.
type changed struct {
	Backoff
	change func(time.Duration) time.Duration
}

func (c changed) NextBackOff() time.Duration { return c.next(0) }

func (c changed) next(atLeast time.Duration) time.Duration {
	d := next(c.Backoff, atLeast)
	if d < 0 {
		return Stop
	}
	return max(c.change(d), atLeast, minPause)
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

// Cap cuts pauses at d. Put it last: jitter or a schedule that comes before it
// never leads to a longer pause. Only what an error's RetryAfter asks for does,
// see [Do].
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

func (a *attempts) next(atLeast time.Duration) time.Duration {
	if a.left == 0 {
		return Stop
	}
	a.left--
	return next(a.Backoff, atLeast)
}

func (a *attempts) Reset() {
	a.left = a.allowed
	a.Backoff.Reset()
}

// Elapsed allows no pause that would end later than d after the run began, so
// the last attempt begins within d. With d of 0 or less there is no second
// attempt.
func (p Policy) Elapsed(d time.Duration) Policy {
	return func() Backoff { return &elapsed{p.start(), d, time.Now()} }
}

type elapsed struct {
	Backoff
	limit time.Duration
	began time.Time
}

func (e *elapsed) NextBackOff() time.Duration { return e.next(0) }

func (e *elapsed) next(atLeast time.Duration) time.Duration {
	d := next(e.Backoff, atLeast)
	if d > e.limit-time.Since(e.began) {
		return Stop
	}
	return d
}

func (e *elapsed) Reset() {
	e.began = time.Now()
	e.Backoff.Reset()
}
