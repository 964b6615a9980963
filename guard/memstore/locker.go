package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

// locker is the exclusive lock on a Store's data.
type locker struct {
	*data
	handOffs int
}

func (l *locker) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	if err := contextError(ctx); err != nil {
		return guard.Lease{}, err
	}
	now := time.Now()
	switch {
	case r.Name == "" || r.Owner == "" || r.TTL < time.Millisecond:
		return guard.Lease{}, fmt.Errorf("%w: a request needs a name, an owner and a TTL", guard.ErrInvalid)
	case r.Floor > micros(now.Add(maxFloor)):
		return guard.Lease{}, fmt.Errorf("%w: floor %d is more than 1h ahead", guard.ErrInvalid, r.Floor)
	case r.Once != 0:
		return guard.Lease{}, fmt.Errorf("%w: memstore keeps no record of runs", guard.ErrUnsupported)
	}
	r.Label = r.Label[:min(len(r.Label), maxLabel)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, dead := l.tombs[r.Owner]; dead && now.Before(until) {
		return guard.Lease{}, &guard.LostError{Name: r.Name, Reason: guard.LostGone}
	}
	e := l.entryLocked(r.Name, now)
	switch at := e.find(r.Owner); {
	case !e.free(now) && e.holder.Owner == r.Owner: // asked again, or claims what it was handed
		if until := now.Add(r.TTL); until.After(e.expiry) {
			e.expiry = until
		}
		return l.lease(e, now, r.TTL), nil
	case !e.taken && (at >= 0 || !e.next(now)):
		// A waiter that finds the name free may have it: the head had its window.
		if at >= 0 {
			e.drop(at)
		}
		e.grant(r, e.base(r, now), r.TTL, now)
		return l.lease(e, now, r.TTL), nil
	}
	return guard.Lease{}, e.refuse(r, now)
}

// refuse queues r if it wants that, and says who has the name.
func (e *entry) refuse(r guard.Request, now time.Time) *guard.HeldError {
	held := &guard.HeldError{
		Name: r.Name, Holder: e.holder.Label, Trace: e.holder.Trace, Token: e.holder.Token, Mark: e.mark,
		ServerTime: micros(now), RetryIn: e.expiry.Sub(now),
	}
	if !r.Queue {
		return held
	}
	at := e.find(r.Owner)
	if at < 0 {
		at = len(e.queue)
		e.queue = append(e.queue, &waiter{request: r, wake: make(chan struct{}, 1)})
	}
	w := e.queue[at]
	w.until = now.Add(e.expiry.Sub(now) + live)
	held.Wake = w.wake
	return held
}

func (l *locker) Renew(ctx context.Context, old guard.Lease) (guard.Lease, error) {
	if err := contextError(ctx); err != nil {
		return guard.Lease{}, err
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.mineLocked(old, now)
	if err != nil {
		return guard.Lease{}, err
	}
	if old.Token > micros(now.Add(maxFloor)) {
		return guard.Lease{}, fmt.Errorf("%w: token %d is more than 1h ahead", guard.ErrInvalid, old.Token)
	}
	e.holder.Token, e.mark = max(e.holder.Token, old.Token), max(e.mark, old.Token)
	if until := now.Add(old.TTL); until.After(e.expiry) {
		e.expiry = until
	}
	lease := l.lease(e, now, old.TTL)
	lease.Request = old.Request
	return lease, nil
}

func (l *locker) Release(ctx context.Context, lease guard.Lease) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.mineLocked(lease, now)
	if err != nil || lease.Token == 0 {
		l.tombs[lease.Owner] = now.Add(tombLife)
	}
	if err != nil {
		if e != nil {
			if at := e.find(lease.Owner); at >= 0 {
				e.drop(at)
			}
		}
		if lease.Token == 0 {
			return nil
		}
		return err
	}
	if rest := lease.MinHold - now.Sub(time.UnixMicro(int64(e.holder.Granted))); rest > 0 && lease.Token != 0 {
		e.holder.Request.Owner, e.expiry = "", now.Add(rest)
		if len(e.queue) > 0 {
			e.queue[0].fire() // to learn when the rest ends
		}
		return nil
	}
	e.taken = false
	e.next(now)
	return nil
}

// mineLocked finds the entry that the lease's owner holds; the error says why
// there is none.
func (d *data) mineLocked(l guard.Lease, now time.Time) (*entry, error) {
	e := d.names[l.Name]
	lost := &guard.LostError{Name: l.Name, Token: l.Token, Reason: guard.LostGone}
	if e == nil || e.free(now) {
		return e, lost
	}
	if l.Owner == "" || e.holder.Owner != l.Owner {
		lost.Reason = guard.LostTaken
		return e, lost
	}
	return e, nil
}

// lease is what the holder gets to know. No network lies between, so Since is
// now.
func (l *locker) lease(e *entry, now time.Time, ttl time.Duration) guard.Lease {
	lease := e.holder
	lease.TTL, lease.Since, lease.Until = ttl, now, guard.Until(now, ttl)
	lease.Waiters, lease.HandOffs = len(e.queue) > 0, l.handOffs
	return lease
}
