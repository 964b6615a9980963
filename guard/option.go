package guard

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

// Option configures a Guard. A value out of range is refused by the function
// that takes it, with an [ErrInvalid] that names option and range.
type Option interface{ guardOption() }

// Policy is an Option that a class takes too: it says how long leases last and
// how calls wait.
type Policy interface {
	Option
	policyOption()
}

// Limits of the policies.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour

	maxLabel = 128 // bytes
)

// TTL sets how long a lease lasts without renewal: 100 ms to 24 h, whole
// milliseconds, default 30 s. A live holder renews every third of it; a holder
// that died blocks the name for at most TTL.
func TTL(d time.Duration) Policy {
	return policyOf(func(p *policy) error {
		if d < MinTTL || d > MaxTTL || d%time.Millisecond != 0 {
			return rangeError("TTL", d, "100ms to 24h in whole milliseconds")
		}
		p.ttl = d
		return nil
	})
}

// Wait limits how long a call waits for the name, and how long it goes on
// asking a lock service that does not answer. More than 0; without it a call
// waits as long as its context allows, like a mutex.
func Wait(d time.Duration) Policy {
	return policyOf(func(p *policy) error {
		if d <= 0 {
			return rangeError("Wait", d, "more than 0; use NoWait for not waiting at all")
		}
		p.wait = d
		return nil
	})
}

// NoWait makes calls return [ErrHeld] at once while another holds the name, as
// Try does. A lock service that does not answer is given 1 s.
func NoWait() Policy {
	return policyOf(func(p *policy) error { p.wait = 0; return nil })
}

// MaxWaiters limits how many calls of this Guard wait for one name at the same
// time; more are refused with [ErrHeld] at once. At least 1; default no limit.
func MaxWaiters(n int) Policy {
	return policyOf(func(p *policy) error {
		if n < 1 {
			return rangeError("MaxWaiters", n, "at least 1; use NoWait for none")
		}
		p.maxWaiters = n
		return nil
	})
}

// Backoff paces attempts where the store cannot wake a waiter, and retries of a
// lock service that does not answer. When it stops, the wait ends with
// [ErrHeld] or [ErrUnavailable], whichever was last. The default is
// retry.Default. Pauses are cut to what is left of the holder's lease.
func Backoff(r retry.Policy) Policy {
	return policyOf(func(p *policy) error {
		if r == nil {
			return rangeError("Backoff", "nil", "a retry.Policy")
		}
		p.backoff = r
		return nil
	})
}

// MaxHold ends a hold that takes longer than d: the work's context ends with a
// [*LostError] of reason max_hold and renewal stops. The name is free once the
// work returns, at the latest one TTL later. More than 0; default no limit.
func MaxHold(d time.Duration) Policy {
	return policyOf(func(p *policy) error {
		if d <= 0 {
			return rangeError("MaxHold", d, "more than 0")
		}
		p.maxHold = d
		return nil
	})
}

// MinHold keeps the name taken for at least d after the grant, also when the
// work is done earlier, so that replicas with shifted clocks do not run a short
// job twice. 1 ms to 24 h in whole milliseconds; default none.
func MinHold(d time.Duration) Policy {
	return policyOf(func(p *policy) error {
		if d < time.Millisecond || d > MaxTTL || d%time.Millisecond != 0 {
			return rangeError("MinHold", d, "1ms to 24h in whole milliseconds")
		}
		p.minHold = d
		return nil
	})
}

// ReleaseWithin limits how long a call waits, after the work is done, for the
// release to be confirmed; it goes on in the background after that, and the
// lease ends by itself at the latest. 1 ms to 1 min, default 2 s.
func ReleaseWithin(d time.Duration) Policy {
	return policyOf(func(p *policy) error {
		if d < time.Millisecond || d > time.Minute {
			return rangeError("ReleaseWithin", d, "1ms to 1m")
		}
		p.releaseWithin = d
		return nil
	})
}

// Label says who holds a lease: others see it in HeldError.Holder and in the
// inspector. At most 128 bytes without control characters; default the host's
// name and the process id.
func Label(s string) Policy {
	return policyOf(func(p *policy) error {
		if len(s) > maxLabel || hasControl(s) {
			return rangeError("Label", fmt.Sprintf("%q", s), "at most 128 bytes without control characters")
		}
		p.label = s
		return nil
	})
}

// Observe adds observers; the first one listed begins first and ends last. A
// nil observer is skipped.
func Observe(o ...Observer) Option { return observeOption(o) }

type observeOption []Observer

func (observeOption) guardOption() {}

type policyOf func(*policy) error

func (policyOf) guardOption()  {}
func (policyOf) policyOption() {}

// policy is what a Name carries; wait is -1 for no limit, 0 for not at all.
type policy struct {
	ttl, wait, maxHold, minHold, releaseWithin time.Duration
	maxWaiters                                 int
	backoff                                    retry.Policy
	label                                      string
}

func (p policy) with(ps []Policy) (policy, error) {
	for _, o := range ps {
		f, ok := o.(policyOf)
		if !ok {
			return p, invalid("policy is nil")
		}
		if err := f(&p); err != nil {
			return p, err
		}
	}
	return p, nil
}

func rangeError(option string, got any, want string) error {
	return invalid("%s(%v): want %s", option, got, want)
}
