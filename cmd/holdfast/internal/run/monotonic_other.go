//go:build unix && !(linux || darwin || freebsd || openbsd || dragonfly)

package run

import "time"

// monotonic is the wall clock where no other one is known that processes share.
func monotonic() time.Duration { return time.Duration(time.Now().UnixNano()) }
