//go:build !linux

package guard

import "time"

// readBoot reports that sleep cannot be detected here.
func readBoot() time.Duration { return 0 }
