package guard

import (
	"sync/atomic"
	"time"
)

// instant is a reading of Go's clock: how long ago the process started. It takes a
// third of the space of a time.Time and half the time to read.
// The zero instant is none: in a testing/synctest bubble all are negative.
type instant int64

func now() instant { return instant(time.Since(started)) }

func instantOf(t time.Time) instant { return instant(t.Sub(started)) }

func (i instant) add(d time.Duration) instant   { return i + instant(d) }
func (i instant) sub(j instant) time.Duration   { return time.Duration(i - j) }
func (i instant) until(r reading) time.Duration { return time.Duration(i - r.at) }

// time is i with the wall clock as it is set now.
func (i instant) time() time.Time { return time.Now().Add(i.sub(now())) }

// reading is Go's clock and what it does not show, read together: Go's clock
// stands still while the machine sleeps, and so do its timers. The server's clock
// does not. slept is how long the machine has slept since the process started, so
// that deadlines can be shortened by it.
type reading struct {
	at    instant
	slept time.Duration
}

func look() reading {
	t := time.Now()
	return reading{instantOf(t), readSleep(t, false)}
}

// sleptSince is how much longer the machine has slept than asleep. What two
// clocks differ by for being read one after the other does not count.
func (r reading) sleptSince(asleep time.Duration) time.Duration {
	if d := r.slept - asleep; d > 2*time.Millisecond {
		return d
	}
	return 0
}

// measureSleep is the time that passed on the boot clock less the time that
// passed on Go's clock. In a testing/synctest bubble Go's clock is fake, decades
// away, and there is no sleep.
//
// Reading the boot clock is a system call. Sleep moves the wall clock on too, so
// unless exact is asked for the boot clock is read only when the wall clock has
// left Go's clock behind, or was set: time.Now reads both of them at little cost.
// A wall clock that is set back by just as much as the machine slept hides the
// sleep until the next exact reading.
func measureSleep(now time.Time, exact bool) time.Duration {
	if bootAtStart == 0 {
		return 0
	}
	apart := now.UnixNano() - started.UnixNano() - int64(now.Sub(started))
	if d := apart - lastApart.Load(); !exact && d > -int64(time.Millisecond) && d < int64(time.Millisecond) {
		return time.Duration(longestSleep.Load())
	}
	lastApart.Store(apart)
	boot := readBoot() - bootAtStart
	awake := time.Since(started)
	if boot <= 0 || awake < 0 || awake > boot+time.Hour {
		return 0
	}
	// A pause between the two readings makes the sleep look shorter, so the
	// longest reading so far is the best one.
	slept := int64(max(0, boot-awake))
	for {
		longest := longestSleep.Load()
		if slept <= longest {
			return time.Duration(longest)
		}
		if longestSleep.CompareAndSwap(longest, slept) {
			return time.Duration(slept)
		}
	}
}

var (
	readSleep    = measureSleep // replaced in tests
	started      = time.Now()
	bootAtStart  = readBoot()
	longestSleep atomic.Int64
	lastApart    atomic.Int64 // wall clock less Go's clock at the last reading, since the start
)
