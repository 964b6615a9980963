// Package retry says how long to pause between attempts, and makes attempts.
//
// A [Policy] is a recipe: every acquisition of a lock, and every [Do], starts a
// fresh run of it, so one Policy serves any number of goroutines. Policies are
// built from a schedule and what is put on top of it:
//
//	retry.Exponential(50*time.Millisecond, 2*time.Second, 2).FullJitter().Attempts(6)
//
// No pause is shorter than 1 ms: jitter, a schedule that begins at 0 and a
// backoff that answers 0 would otherwise turn into a busy loop on a server. For
// the same reason a duration below 1 ms, where a policy takes one for a pause,
// counts as 1 ms.
//
// The schedules are those of github.com/cenkalti/backoff/v4, and [From] takes
// any other backoff made for that package.
package retry

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff is one run of a [Policy]. It is what backoff/v4 calls a BackOff, and
// a value of backoff/v5 fits as well. A run has state and is not safe for
// concurrent use.
type Backoff interface {
	// NextBackOff returns the pause before the next attempt, or [Stop] if there
	// should be none. Any other negative duration means Stop, too.
	NextBackOff() time.Duration

	// Reset begins the run anew.
	Reset()
}

// Stop is the answer of a [Backoff] that allows no further attempt.
const Stop = backoff.Stop

// Policy starts a run. It must return a new Backoff each time; then it is safe
// for concurrent use, as all policies of this package are. Their methods return
// a new Policy and leave the old one as it is.
//
// A nil Policy, and one that returns nil, allows no further attempt.
type Policy func() Backoff

// minPause is the shortest pause between two attempts.
const minPause = time.Millisecond

// start begins a run of p, whatever p is.
func (p Policy) start() Backoff {
	if p != nil {
		if b := p(); b != nil {
			return b
		}
	}
	return &backoff.StopBackOff{}
}

// From makes a Policy of a backoff/v4 schedule. f must return a new value each
// time, since values of that package have state and may not be shared; From
// resets what it gets. Limits set on the value hold: note that
// backoff.NewExponentialBackOff stops after 15 minutes unless told otherwise. If
// f is nil or returns nil, the Policy allows no further attempt.
func From(f func() backoff.BackOff) Policy {
	return Policy(func() Backoff {
		if f == nil {
			return nil
		}
		b := f()
		if b == nil {
			return nil
		}
		b.Reset() // a literal of backoff/v4 has no interval before
		return b
	}).each(func(d time.Duration) time.Duration { return d })
}

// Constant pauses for d each time.
func Constant(d time.Duration) Policy {
	d = max(d, minPause)
	return func() Backoff { return backoff.NewConstantBackOff(d) }
}

// Exponential pauses for first, then for factor times the pause before, up to
// ceiling. A ceiling below first counts as first, a factor below 1 (or not a
// number) as 1, and either duration as 104 days (2^53 ns) if it is longer.
func Exponential(first, ceiling time.Duration, factor float64) Policy {
	const most = 1 << 53 // up to here the float64 of backoff/v4 is exact
	first = min(max(first, minPause), most)
	ceiling = min(max(ceiling, first), most)
	if factor < 1 || math.IsNaN(factor) {
		factor = 1
	}
	return func() Backoff {
		b := &backoff.ExponentialBackOff{
			InitialInterval: first,
			Multiplier:      factor,
			MaxInterval:     ceiling,
			Stop:            Stop,
			Clock:           backoff.SystemClock,
		}
		b.Reset()
		return b
	}
}

// Decorrelated pauses for a random time between base and three times the pause
// before, or ceiling where that is less; the first pause counts base as the one
// before. A ceiling below base counts as base.
//
// The method is "decorrelated jitter" of the AWS Architecture Blog, except that
// the range and not the result is cut at the ceiling. Otherwise most runs would
// end up pausing for exactly the ceiling, in step with each other.
//
// Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
func Decorrelated(base, ceiling time.Duration) Policy {
	base = max(base, minPause)
	ceiling = max(ceiling, base)
	return func() Backoff { return &decorrelated{base, ceiling, base} }
}

type decorrelated struct{ base, ceiling, last time.Duration }

func (b *decorrelated) NextBackOff() time.Duration {
	top := b.ceiling
	if b.last < top/3 {
		top = 3 * b.last
	}
	b.last = between(b.base, top)
	return b.last
}

func (b *decorrelated) Reset() { b.last = b.base }

// between returns a random duration from low to high, both included.
func between(low, high time.Duration) time.Duration {
	return low + rand.N(high-low+1)
}

// Default is the [Policy] of a lock that has not been given another:
// Exponential(10*time.Millisecond, 250*time.Millisecond, 2).FullJitter(). It has
// no limit of its own.
func Default() Backoff { return lockPolicy() }

var lockPolicy = Exponential(10*time.Millisecond, 250*time.Millisecond, 2).FullJitter()
