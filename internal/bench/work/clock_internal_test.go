//go:build !windows

package work

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheClockIsTheMachines(t *testing.T) {
	machine := func() int64 {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
		return t.Nano()
	}
	for range 100 {
		before := machine()
		got := clock()
		after := machine()
		if early, late := before-got, got-after; max(early, late) > int64(50*time.Microsecond) {
			t.Fatalf("%d µs early, %d µs late", early/1000, late/1000)
		}
	}
}
