package guard

import "time"

// Sleep makes the machine look as if it had slept for d more, for the rest of
// the test binary's life.
func Sleep(d time.Duration) {
	slept += d
	readSleep = func(time.Time, bool) time.Duration { return slept }
}

var slept time.Duration
