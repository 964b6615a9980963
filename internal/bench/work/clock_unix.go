//go:build !windows

package work

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads the machine's monotonic clock, which all processes share. Go reads
// the same clock without a system call, but counts from its own start.
func clock() int64 { return origin.shared + int64(time.Since(origin.own)) }

var origin = together()

type reading struct {
	own    time.Time
	shared int64
}

// together reads both clocks together: the best of some tries, since there may be a
// pause in between.
func together() (best reading) {
	closest := time.Hour
	for range 100 {
		own := time.Now()
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
		if d := time.Since(own); d < closest {
			closest, best = d, reading{own, t.Nano()}
		}
	}
	return best
}
