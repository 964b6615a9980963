package guard

import (
	"sync/atomic"
	"time"
)

// Go's clock stands still while the machine sleeps, and so do its timers. The
// server's clock does not. suspended is how long the machine has slept since
// the process started, so that deadlines can be shortened by it.
func suspended() time.Duration { return readSleep() }

// sleptSince is how much longer the machine has slept than asleep. What two
// clocks differ by for being read one after the other does not count.
func sleptSince(asleep time.Duration) time.Duration {
	if d := suspended() - asleep; d > 2*time.Millisecond {
		return d
	}
	return 0
}

// measureSleep is the time that passed on the boot clock less the time that
// passed on Go's clock. In a testing/synctest bubble Go's clock is fake, decades
// away, and there is no sleep.
func measureSleep() time.Duration {
	if bootAtStart == 0 {
		return 0
	}
	boot := readBoot() - bootAtStart
	awake := time.Since(started)
	if boot <= 0 || awake < 0 || awake > boot+time.Hour {
		return 0
	}
	// A pause between the two readings makes the sleep look shorter, so the
	// longest reading so far is the best one.
	now := int64(max(0, boot-awake))
	for {
		longest := longestSleep.Load()
		if now <= longest {
			return time.Duration(longest)
		}
		if longestSleep.CompareAndSwap(longest, now) {
			return time.Duration(now)
		}
	}
}

var (
	readSleep    = measureSleep // replaced in tests
	started      = time.Now()
	bootAtStart  = readBoot()
	longestSleep atomic.Int64
)
