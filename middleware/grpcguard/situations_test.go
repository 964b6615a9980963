package grpcguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// situation is a row of the table of what may happen to a call.
type situation struct {
	name     string
	policies []guard.Policy
	prepare  func(t *testing.T, w *world)
	during   func(t *testing.T, w *world) // in the handler
	handler  func(w *world, ctx context.Context) error
	want     want
}

func situations() []situation {
	ok := want{handlerRan: true, releasedBefore: true}
	down := func(ctx context.Context, r guard.Request) (guard.Lease, error) {
		return guard.Lease{}, errors.Join(guard.ErrUnavailable, errors.New("dial tcp secret:6379: refused"))
	}
	return []situation{
		{name: "free lock runs the handler", want: ok},
		{
			name: "lock that becomes free runs the handler",
			prepare: func(t *testing.T, w *world) {
				l := w.store.rival(t, time.Minute)
				go func() {
					for !w.seen.saw(guard.Waiting) {
						time.Sleep(time.Millisecond)
					}
					_ = w.store.Locker.Release(context.Background(), l)
				}()
			},
			want: ok,
		},
		{
			name: "lock held without waiting", policies: []guard.Policy{guard.NoWait()},
			prepare: func(t *testing.T, w *world) { w.store.rival(t, time.Minute) },
			want:    heldFor5s,
		},
		{
			name: "wait used up", policies: []guard.Policy{guard.Wait(30 * time.Millisecond)},
			prepare: func(t *testing.T, w *world) { w.store.rival(t, time.Minute) },
			want:    heldFor5s,
		},
		{
			name: "lock held of which little is left is worth a short delay", policies: []guard.Policy{guard.NoWait()},
			prepare: func(t *testing.T, w *world) {
				w.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
					return guard.Lease{}, &guard.HeldError{Name: lockName, RetryIn: 300 * time.Millisecond}
				}
			},
			want: want{code: codes.Aborted, reason: "CONTENDED", retryFrom: 300 * time.Millisecond, retryTo: 375 * time.Millisecond, pushback: true, is: guard.ErrHeld},
		},
		{
			name: "lock held of which nothing is known is worth 100 ms", policies: []guard.Policy{guard.NoWait()},
			prepare: func(t *testing.T, w *world) {
				w.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
					return guard.Lease{}, &guard.HeldError{Name: lockName}
				}
			},
			want: want{code: codes.Aborted, reason: "CONTENDED", retryFrom: 100 * time.Millisecond, retryTo: 125 * time.Millisecond, pushback: true, is: guard.ErrHeld},
		},
		{
			name: "lock service refuses", policies: []guard.Policy{guard.Wait(30 * time.Millisecond)},
			prepare: func(t *testing.T, w *world) { w.store.acquire = down },
			want:    noService,
		},
		{
			name: "reply of the acquisition is lost", policies: []guard.Policy{guard.Wait(30 * time.Millisecond)},
			prepare: func(t *testing.T, w *world) {
				w.store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
					_, _ = w.store.Locker.Acquire(ctx, r)
					return down(ctx, r)
				}
			},
			want: noService,
		},
		{
			name: "lock service lacks a command",
			prepare: func(t *testing.T, w *world) {
				w.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
					return guard.Lease{}, guard.ErrUnsupported
				}
			},
			want: want{code: codes.Internal, reason: "UNSUPPORTED", is: guard.ErrUnsupported},
		},
		{
			name: "name is taken by another kind of lock",
			prepare: func(t *testing.T, w *world) {
				w.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
					return guard.Lease{}, guard.ErrInvalid
				}
			},
			want: want{code: codes.Internal, reason: "INVALID", is: guard.ErrInvalid},
		},
		{
			name: "handler's status passes",
			handler: func(*world, context.Context) error {
				return status.Error(codes.NotFound, "no such thing")
			},
			want: want{code: codes.NotFound, message: "no such thing", handlerRan: true, releasedBefore: true},
		},
		{
			name:    "handler's plain error passes",
			handler: func(*world, context.Context) error { return errPlain },
			want:    want{code: codes.Unknown, message: errPlain.Error(), handlerRan: true, releasedBefore: true, is: errPlain},
		},
		{
			name:    "handler's own cancellation passes",
			handler: func(*world, context.Context) error { return context.Canceled },
			want:    want{code: codes.Canceled, handlerRan: true, releasedBefore: true, is: context.Canceled},
		},
		{
			name: "handler's trouble with another lock is not ours",
			handler: func(*world, context.Context) error {
				return &guard.HeldError{Name: "other"}
			},
			want: want{code: codes.Unknown, handlerRan: true, releasedBefore: true, is: guard.ErrHeld},
		},
		{
			name: "renewal that fails once is not seen", policies: []guard.Policy{guard.TTL(300 * time.Millisecond)},
			prepare: func(t *testing.T, w *world) {
				failed := false
				w.store.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
					if !failed {
						failed = true
						return guard.Lease{}, guard.ErrUnavailable
					}
					return w.store.Locker.Renew(ctx, l)
				}
			},
			during: func(t *testing.T, w *world) {
				eventually(t, "renewal failed and then worked", func() bool {
					return w.seen.saw(guard.RenewFailed) && w.seen.saw(guard.Renewed)
				})
			},
			want: ok,
		},
		lossOf("handler returns the context's error", func(ctx context.Context) error { return ctx.Err() }),
		lossOf("handler returns the cause", context.Cause),
		lossOf("handler returns CANCELLED", func(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }),
		lossOf("handler succeeds", func(context.Context) error { return nil }),
		lossOf("handler returns a plain error", func(context.Context) error { return errPlain }),
		lossOf("handler's storage found the token stale", func(context.Context) error { return fence.ErrStale }),
		func() situation {
			s := lossOf("handler chose a status", func(context.Context) error { return status.Error(codes.NotFound, "chosen") })
			s.want = want{code: codes.NotFound, message: "chosen", forbidden: true, handlerRan: true}
			return s
		}(),
		{
			name: "loss found at the release drops the reply",
			prepare: func(t *testing.T, w *world) {
				w.store.release = func(_ context.Context, l guard.Lease) error { return over(l) }
			},
			want: lostLease,
		},
		{
			name: "release that fails changes nothing", policies: []guard.Policy{guard.TTL(300 * time.Millisecond), guard.ReleaseWithin(10 * time.Millisecond)},
			prepare: func(t *testing.T, w *world) {
				w.store.release = func(context.Context, guard.Lease) error { return guard.ErrUnavailable }
			},
			want: want{handlerRan: true},
		},
		{
			name: "own token is stale",
			handler: func(w *world, ctx context.Context) error {
				var gate fence.Gate
				later := fence.Grant{Name: lockName, Token: fence.From(ctx) + 1, Owner: "later"}
				return errors.Join(gate.Raise(fence.NewContext(ctx, later, nil)), gate.Raise(ctx))
			},
			want: want{code: codes.Internal, reason: "FENCE_STALE", forbidden: true, handlerRan: true, releasedBefore: true, is: fence.ErrStale},
		},
		{
			name: "token presented by the client is stale",
			handler: func(*world, context.Context) error {
				return fence.Check(fence.Grant{Name: "theirs", Token: 9}, fence.Grant{Name: "theirs", Token: 8})
			},
			want: want{code: codes.Aborted, reason: "FENCE_STALE", forbidden: true, handlerRan: true, releasedBefore: true, is: fence.ErrStale},
		},
		{
			name: "storage called without a token",
			handler: func(*world, context.Context) error {
				_, err := fence.Require(context.Background())
				return err
			},
			want: want{code: codes.Internal, reason: "OTHER", handlerRan: true, releasedBefore: true, is: fence.ErrMissing},
		},
		{
			name: "handler takes the lock that it holds",
			handler: func(w *world, ctx context.Context) error {
				return guard.Do(ctx, w.class.Name("7"), func(context.Context) error { return nil })
			},
			want: want{code: codes.Internal, reason: "NESTED", handlerRan: true, releasedBefore: true, is: guard.ErrNested},
		},
		{
			name: "guard closed while waiting",
			prepare: func(t *testing.T, w *world) {
				w.store.rival(t, time.Minute)
				go func() {
					for !w.seen.saw(guard.Waiting) {
						time.Sleep(time.Millisecond)
					}
					_ = w.locks.Close(context.Background())
				}()
			},
			want: want{code: codes.Unavailable, reason: "CLOSED", retryFrom: time.Second, retryTo: 2 * time.Second, is: guard.ErrClosed},
		},
		{
			name: "too many wait already", policies: []guard.Policy{guard.MaxWaiters(1)},
			prepare: func(t *testing.T, w *world) {
				w.store.rival(t, time.Minute)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() {
					done <- guard.Do(ctx, w.class.Name("7"), func(context.Context) error { return nil })
				}()
				t.Cleanup(func() {
					cancel()
					require.ErrorIs(t, <-done, context.Canceled)
				})
				eventually(t, "somebody waits", func() bool { return w.seen.saw(guard.Waiting) })
			},
			want: want{code: codes.Aborted, reason: "CONTENDED", retryFrom: 100 * time.Millisecond, retryTo: 6250 * time.Millisecond, pushback: true, is: guard.ErrHeld},
		},
	}
}

// lossOf is a lease that is lost while the handler runs, which then returns what
// end says.
func lossOf(what string, end func(context.Context) error) situation {
	return situation{
		name:     "lease lost and the " + what,
		policies: []guard.Policy{guard.TTL(100 * time.Millisecond)},
		prepare: func(_ *testing.T, w *world) {
			w.store.renew = func(_ context.Context, l guard.Lease) (guard.Lease, error) { return guard.Lease{}, over(l) }
		},
		handler: func(_ *world, ctx context.Context) error {
			<-ctx.Done()
			return end(ctx)
		},
		want: lostLease,
	}
}
