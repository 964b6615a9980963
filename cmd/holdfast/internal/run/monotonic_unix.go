//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads the clock that Go's timers run by; all processes of the machine
// see the same.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // it has no reason to
	}
	return time.Duration(ts.Nano())
}
