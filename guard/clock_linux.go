package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// readBoot is the time since boot including sleep; 0 if it cannot be read.
func readBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
