package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

// locker is the exclusive lock.
type locker struct {
	*engine
	handOffs int
}

func (l *locker) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	if err := l.check(ctx, &r); err != nil {
		return guard.Lease{}, err
	}
	w := l.wakes.find(r.Owner)
	if w != nil {
		if lease, ok := w.claimed(r); ok {
			lease.HandOffs = l.handOffs
			return lease, nil
		}
	}
	onUnknown := func() { l.late.add(r.Owner, time.Hour) }
	if w == nil && !l.late.has(r.Owner) && !l.hot.has(r.Name) {
		res, err := l.call(ctx, r.Name, l.acquireRequest(r), onUnknown)
		if err != nil {
			return guard.Lease{}, err
		}
		if res.answer.kind == 'G' {
			return l.lease(r, res), nil
		}
		l.hot.add(r.Name, liveness) // the next call goes the right way at once
	}
	return l.stand(ctx, r, w, onUnknown)
}

// check refuses what the scripts could not handle, before anything is sent.
func (l *locker) check(ctx context.Context, r *guard.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case r.Name == "" || strings.IndexByte(r.Name, '{') >= 0 || strings.IndexByte(r.Name, '}') >= 0:
		return fmt.Errorf("%w: name %q", guard.ErrInvalid, r.Name)
	case !isOwner(r.Owner):
		return fmt.Errorf("%w: an owner is 22 characters of base64url", guard.ErrInvalid)
	case r.TTL < time.Millisecond:
		return fmt.Errorf("%w: TTL %v", guard.ErrInvalid, r.TTL)
	case r.Once != 0:
		return fmt.Errorf("%w: redisstore keeps no record of runs", guard.ErrUnsupported)
	case r.Trace != "" && strings.ContainsAny(r.Trace, "| \r\n"):
		r.Trace = ""
	}
	return l.checkGrace(r)
}

// stand asks by the full rule.
func (l *locker) stand(ctx context.Context, r guard.Request, w *waiter, onUnknown func()) (guard.Lease, error) {
	channel, ticket := "", ""
	if r.Queue {
		channel = l.wakes.channel(ctx, r.Name)
	}
	if w != nil {
		ticket = w.ticket
	}
	fresh := channel != "" && w == nil
	if fresh {
		w = l.wakes.expect(r) // before sending: the grant may be published before the answer is read
	}
	unsure := false
	res, err := l.call(ctx, r.Name, l.standRequest(r, l.graceSeconds(r), channel, ticket), func() { unsure = true; onUnknown() })
	if fresh && !unsure && (err != nil || strings.IndexByte("GHI", res.answer.kind) < 0) {
		l.wakes.drop(r.Owner) // it was refused a place, and nobody will release it
	}
	if err != nil {
		return guard.Lease{}, err
	}
	switch res.answer.kind {
	case 'G':
		l.wakes.hold(r.Owner)
		lease := l.lease(r, res)
		if lease.Waiters {
			l.hot.add(r.Name, liveness)
		} else {
			l.hot.drop(r.Name)
		}
		return lease, nil
	case 'H':
		l.hot.add(r.Name, liveness)
		held := res.answer.held(r.Name)
		if r.Queue {
			held.Wake = l.wakes.queued(r, w, res)
			if res.answer.rank > 0 && held.RetryIn > 0 { // the head asks when the lease may run out; the others after it, not all at once
				held.RetryIn += rand.N(spread)
			}
		}
		return guard.Lease{}, held
	case 'T':
		return guard.Lease{}, &guard.LostError{Name: r.Name, Reason: guard.LostGone}
	case 'R':
		return guard.Lease{}, fmt.Errorf("%w: floor %d is more than 1h ahead of the server's time", guard.ErrInvalid, r.Floor)
	case 'U':
		return guard.Lease{}, &serverError{r.Name, &graceError{time.Duration(res.answer.seconds) * time.Second}, false}
	case 'I':
		if !l.degraded.Swap(true) {
			slog.Warn("redisstore: INFO is denied, a server that restarted empty cannot be told: no restart grace")
		}
		return l.stand(ctx, r, w, onUnknown)
	}
	return guard.Lease{}, fmt.Errorf("redisstore: answer %q to stand", res.answer.kind)
}

// lease is what a script granted.
func (l *locker) lease(r guard.Request, res result) guard.Lease {
	return guard.Lease{
		Request: r, Token: res.answer.token, Granted: res.answer.time,
		Since: res.sent, Until: guard.Until(res.sent, r.TTL),
		HandOffs: l.handOffs, Waiters: res.answer.waiting,
	}
}

func (l *locker) Renew(ctx context.Context, old guard.Lease) (guard.Lease, error) {
	if ctx.Err() != nil {
		return guard.Lease{}, context.Cause(ctx)
	}
	res, err := l.call(ctx, old.Name, l.renewRequest(old), func() {})
	if err == nil && res.answer.kind == 'S' {
		q := l.renewRequest(old)
		q.alone = true
		res, err = l.call(ctx, old.Name, q, func() {})
	}
	if err != nil {
		return guard.Lease{}, err
	}
	switch res.answer.kind {
	case 'G':
		old.Since, old.Until, old.Waiters = res.sent, guard.Until(res.sent, old.TTL), res.answer.waiting
		old.Token = res.answer.token
		return old, nil
	case 'N':
		return guard.Lease{}, &guard.LostError{Name: old.Name, Token: old.Token, Reason: guard.LostGone}
	case 'O':
		return guard.Lease{}, &guard.LostError{Name: old.Name, Token: old.Token, Reason: guard.LostTaken}
	case 'R':
		return guard.Lease{}, fmt.Errorf("%w: token %d is more than 1h ahead of the server's time", guard.ErrInvalid, old.Token)
	}
	return guard.Lease{}, fmt.Errorf("redisstore: answer %q to renew", res.answer.kind)
}

func (l *locker) Release(ctx context.Context, lease guard.Lease) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.wakes.leaving(lease.Owner)
	late := lease.Token == 0 || l.late.has(lease.Owner)
	if !late && lease.MinHold == 0 && !lease.Waiters && !l.hot.has(lease.Name) {
		q := l.get(releaseScript)
		l.putKeys(q, lease.Name, lease.Owner)
		q.put("-", lease.Owner, "|")
		res, err := l.call(ctx, lease.Name, q, func() {})
		if err != nil {
			return err
		}
		if res.answer.kind == 'D' {
			l.wakes.drop(lease.Owner)
			return nil
		}
		if res.resent {
			late = true // an unanswered copy may have done it; leave a tombstone for good measure
		}
		err = l.leave(ctx, lease, late)
		if res.resent && isLost(err) {
			return nil
		}
		return err
	}
	return l.leave(ctx, lease, late)
}

// leave releases by the full rule.
func (l *locker) leave(ctx context.Context, lease guard.Lease, late bool) error {
	res, err := l.call(ctx, lease.Name, l.leaveRequest(lease, late), func() {})
	if err != nil {
		return err
	}
	l.wakes.drop(lease.Owner)
	l.late.drop(lease.Owner)
	switch res.answer.kind {
	case 'D', 'P', 'M':
		return nil
	case 'N', 'O':
		if lease.Token == 0 || res.resent {
			return nil // undone, or an unanswered copy of this very release did it
		}
	}
	lost := &guard.LostError{Name: lease.Name, Token: lease.Token, Reason: guard.LostGone}
	if res.answer.kind == 'O' {
		lost.Reason = guard.LostTaken
	}
	return lost
}
