package redisstore

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

// MaxTTL is the ceiling of TTL and MinHold for all programs that use this Redis,
// whole seconds from 1 s to 24 h, default 60 s. It counts only where restart
// grace is on, which is as long as the longest lease may be.
func MaxTTL(d time.Duration) Option {
	return option(func(e *engine) error {
		if d < time.Second || d > guard.MaxTTL || d%time.Second != 0 {
			return fmt.Errorf("%w: MaxTTL(%v): want 1s to 24h in whole seconds", guard.ErrInvalid, d)
		}
		e.maxTTL = d
		return nil
	})
}

// RestartGrace makes a server that was started less than MaxTTL ago, and a
// little, grant nothing: it may have lost leases that still stand. Acquire
// returns [guard.ErrUnavailable] naming what is left. guard.Quorum switches it on
// by itself. A TTL above [MaxTTL] is refused then.
//
// Source: "delayed restarts",
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
func RestartGrace() Option {
	return option(func(e *engine) error { e.grace = true; return nil })
}

// graceError says how long a restarted server grants nothing.
type graceError struct{ left time.Duration }

func (e *graceError) Error() string {
	return fmt.Sprintf("the server was restarted and grants nothing for %v (restart grace)", e.left)
}

// RetryAfter is what is left of the grace.
func (e *graceError) RetryAfter() time.Duration { return e.left }

// graceSeconds is how long a server must be up to grant r, 0 for any. Uptime
// counts whole seconds, and the longest lease may have been granted just before
// the restart: two seconds and 1 % on top.
func (e *engine) graceSeconds(r guard.Request) int64 {
	if (!e.grace && r.Grace == 0) || e.degraded.Load() {
		return 0
	}
	g := max(r.Grace, e.maxTTL+e.maxTTL/100+2*time.Second)
	return int64((g + time.Second - 1) / time.Second)
}

func (e *engine) checkGrace(r *guard.Request) error {
	if e.grace && r.Grace == 0 {
		r.Grace = time.Millisecond // the store's own is longer
	}
	if r.Grace == 0 {
		return nil
	}
	if longest := max(r.TTL, r.MinHold); longest > e.maxTTL {
		return fmt.Errorf("%w: TTL or MinHold of %v with restart grace; raise redisstore.MaxTTL (%v) for all programs that use this Redis",
			guard.ErrInvalid, longest, e.maxTTL)
	}
	return nil
}
