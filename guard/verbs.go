package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// Do runs fn while it holds the lock n, and returns what fn returns.
//
// It waits for the lock as n's policy says, in the order of arrival within this
// process. The context that fn gets ends when ctx ends and, with a
// [*LostError] as its cause, when the lease is lost, even if the network hangs
// and no answer ever comes. It carries the fencing token: see package fence.
// fn runs on the caller's goroutine and Do never returns while fn runs. When fn
// returns, panics or calls runtime.Goexit the lease is given back, also if ctx
// has ended; a panic goes on with its value and stack.
//
// If the lease was lost while fn ran, Do returns fn's error joined with an
// [ErrLost]. If fn succeeded and its lease stood, Do returns nil, also when the
// release could not be confirmed: the work is done, and the lease ends by itself.
//
// If the lock is not acquired fn does not run, and the error matches
//   - [ErrHeld] when another holds it and the wait is over; when ctx ended it
//     matches ctx's cause as well,
//   - [ErrUnavailable] when the lock service did not answer, within 30 s
//     without a deadline and without Wait,
//   - [ErrNested] when ctx already holds the name, [ErrClosed] after Close,
//     [ErrInvalid] for a bad name, [ErrUnsupported] for an unfit server,
//   - ctx's cause, when ctx ended.
//
// Whatever the error, nothing of the call stays behind, except that what could
// not be undone in time is undone in the background; Guard.Close waits for it.
//
// A lease bounds how long a crash blocks others; it cannot stop a process that
// was paused beyond it. Work that must never overlap passes its token to the
// storage and lets that refuse the lower of two.
func Do(ctx context.Context, n Name, fn func(context.Context) error) (err error) {
	if fn == nil {
		return invalid("Do: the function is nil")
	}
	h, err := acquire(ctx, n, false)
	if err != nil {
		return err
	}
	defer h.settle(&err)
	err = fn((*work)(h))
	h.returned = true
	return err
}

// Value is [Do] for work with a result. The result is returned also with an
// [ErrLost], so that the caller can decide; without the lock it is the zero T.
func Value[T any](ctx context.Context, n Name, fn func(context.Context) (T, error)) (v T, err error) {
	if fn == nil {
		return v, invalid("Value: the function is nil")
	}
	h, err := acquire(ctx, n, false)
	if err != nil {
		return v, err
	}
	defer h.settle(&err)
	v, err = fn((*work)(h))
	h.returned = true
	return v, err
}

// Try is [Do] without waiting, whatever n's policy. It returns (false, nil) if
// another holds the lock, (true, what Do would return) if fn ran, and (false,
// error) otherwise. A lock service that does not answer is given 1 s.
func Try(ctx context.Context, n Name, fn func(context.Context) error) (ran bool, err error) {
	if fn == nil {
		return false, invalid("Try: the function is nil")
	}
	h, err := acquire(ctx, n, true)
	if _, held := err.(*HeldError); held { //nolint:errorlint // a joined one is more than "held"
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer h.settle(&err)
	err = fn((*work)(h))
	h.returned = true
	return true, err
}

// settle gives the lease back after fn. While a panic or Goexit passes through,
// *err is of no use to anybody.
func (h *hold) settle(err *error) { *err = h.finish(*err) }

// Holds tells whether ctx holds n now, by the clock: assert it deep in a call
// tree, right before a side effect. A false answer is final for that ctx.
func Holds(ctx context.Context, n Name) bool {
	if n.check() != nil {
		return false
	}
	h := holdOf(ctx, n.class.guard, n.name)
	return h != nil && h.valid()
}

// Held is a lock that was acquired for code that cannot be a closure. It is
// renewed until it is released, lost, or MaxHold ends it; if it is forgotten,
// until the process ends. All methods may be called concurrently.
type Held hold

// ending is the Release of a Held.
type ending struct {
	once sync.Once
	err  error
}

// Acquire acquires n as [Do] does, for code that cannot be a closure. Call
// Release when the work is done: defer it at once.
func Acquire(ctx context.Context, n Name) (*Held, error) {
	h, err := acquire(ctx, n, false)
	if err != nil {
		return nil, err
	}
	h.returned = true
	return (*Held)(h), nil
}

// holds tells whether l came from Acquire.
func (l *Held) holds() bool { return l != nil && l.class != nil }

// Context is for the work: it ends as the context of [Do]'s function does, and
// when the lock is released.
func (l *Held) Context() context.Context {
	if !l.holds() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(invalid("the zero Held"))
		return ctx
	}
	(*hold)(l).valid()
	return (*work)(l)
}

// Token is the fencing token, 0 if nothing was acquired.
func (l *Held) Token() fence.Token {
	if !l.holds() {
		return 0
	}
	return (*hold)(l).token()
}

// Until is when the lease ends if no further renewal is confirmed. Renewals go
// on by themselves; it is for display.
func (l *Held) Until() time.Time {
	if !l.holds() {
		return time.Time{}
	}
	h := (*hold)(l)
	h.guard().mu.Lock()
	defer h.guard().mu.Unlock()
	return h.ends(look()).time()
}

// Extend renews the lease now, for instance before a step that cannot be
// interrupted. It returns [ErrLost] if the lease is over; after any other error
// the lease stands until Until.
func (l *Held) Extend(ctx context.Context) error {
	if !l.holds() {
		return invalid("Extend of the zero Held")
	}
	return (*hold)(l).extend(ctx)
}

// Release gives the lock back, within the policy's ReleaseWithin. It returns an
// [ErrLost] if the lease ended before, and nil if the release could not be
// confirmed: the lease then ends by itself. Only the first call does something;
// later ones return the same.
func (l *Held) Release() error {
	if !l.holds() {
		return invalid("Release of the zero Held")
	}
	h := (*hold)(l)
	h.guard().mu.Lock()
	if h.end == nil {
		h.end = &ending{}
	}
	end := h.end
	h.guard().mu.Unlock()
	end.once.Do(func() { end.err = h.finish(nil) })
	return end.err
}

// String is for logs; it tells the name and the token.
func (l *Held) String() string {
	if !l.holds() {
		return "nothing held"
	}
	return fmt.Sprintf("%s held with token %d", l.name, l.Token())
}
