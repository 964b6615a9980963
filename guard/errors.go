package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// One state, one sentinel, from every verb and every store. Trouble with the
// lock service never matches ErrHeld, and a held name never matches
// ErrUnavailable. Each has a method ErrorType() string, which OpenTelemetry
// instrumentation reads for its error.type attribute.
var (
	// ErrHeld reports that another holds the name and that the call would not,
	// or could no longer, wait. Details are in [*HeldError].
	ErrHeld error = &sentinel{"guard: held by another", "contended"}

	// ErrLost reports that a lease ended before the work under it did. It is
	// also the cause with which the work's context ends. Details are in
	// [*LostError].
	ErrLost error = &sentinel{"guard: lease is over", "lost"}

	// ErrUnavailable reports that the lock service could not be asked, or
	// refused to answer. The causes stay reachable with errors.Is and errors.As.
	ErrUnavailable error = &sentinel{"guard: lock service unavailable", "unavailable"}

	// ErrNested reports that the context already holds the name on that store.
	ErrNested error = &sentinel{"guard: this context holds the name already", "nested"}

	// ErrClosed reports that the Guard was closed.
	ErrClosed error = &sentinel{"guard: closed", "closed"}

	// ErrUnsupported reports that the server lacks a command that is needed;
	// the error text names it.
	ErrUnsupported error = &sentinel{"guard: server lacks a command", "unsupported"}

	// ErrInvalid reports a bad argument, or a name that another kind of lock
	// uses. It is found before anything changes.
	ErrInvalid error = &sentinel{"guard: invalid", "invalid"}
)

type sentinel struct{ text, kind string }

func (e *sentinel) Error() string     { return e.text }
func (e *sentinel) ErrorType() string { return e.kind }

// HeldError is an [ErrHeld] that says who holds the name and when asking again
// makes sense. What is not known is zero.
type HeldError struct {
	Name       string
	Holder     string        // label of the holder, see [Label]
	Trace      string        // W3C traceparent of the holder's span
	Token      fence.Token   // first token of the holder's grant
	Mark       fence.Token   // mark of the name: the next token is higher
	ServerTime fence.Token   // server time of the answer, µs since 1970
	RetryIn    time.Duration // what is left of the holder's lease; it may renew, or leave earlier
	Waited     time.Duration // how long the call waited
	Attempts   int           // how often it asked
	Foreign    bool          // the key holds another program's value

	// Wake receives, or is closed, when asking again makes sense. A nil Wake
	// means that the store cannot tell, and that the refusal left nothing there:
	// poll.
	Wake <-chan struct{}
}

// Error names the lock and what is known of its holder.
func (e *HeldError) Error() string {
	by := "another"
	switch {
	case e.Foreign:
		by = "another program's value"
	case e.Holder != "":
		by = fmt.Sprintf("%q", e.Holder)
	}
	s := fmt.Sprintf("guard: %q is held by %s", e.Name, by)
	if e.RetryIn > 0 {
		s += fmt.Sprintf(", %v of its lease left", e.RetryIn.Round(time.Millisecond))
	}
	if e.Waited > 0 {
		s += fmt.Sprintf(", waited %v", e.Waited.Round(time.Millisecond))
	}
	return s
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// ErrorType returns "contended".
func (e *HeldError) ErrorType() string { return "contended" }

// RetryAfter is a hint for callers further out: what is left of the holder's
// lease, at least 1 ms.
func (e *HeldError) RetryAfter() time.Duration { return max(e.RetryIn, time.Millisecond) }

// Reasons of a [LostError].
const (
	LostDeadline = "deadline" // no renewal was confirmed in time
	LostGone     = "gone"     // the store no longer has the lease
	LostTaken    = "taken"    // another owner has the name
	LostMaxHold  = "max_hold" // the limit of MaxHold was reached
)

// LostError is an [ErrLost] that says which lease ended and why.
type LostError struct {
	Name   string
	Token  fence.Token
	Reason string // one of LostDeadline, LostGone, LostTaken, LostMaxHold
	Err    error  // what the last renewals failed with, if they did
}

// Error names the lease and the reason.
func (e *LostError) Error() string {
	s := fmt.Sprintf("guard: lease on %q with token %d is over (%s)", e.Name, e.Token, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// ErrorType returns "lost".
func (e *LostError) ErrorType() string { return "lost" }

// endedError is an acquisition that ended with the caller's context or the
// Guard, joined with what was known of the name by then.
type endedError struct {
	name  string
	cause []error // never empty; the first one says why it ended
}

func (e *endedError) Error() string {
	texts := make([]string, len(e.cause))
	for i, c := range e.cause {
		texts[i] = c.Error()
	}
	return fmt.Sprintf("guard: waiting for %q ended: %s", e.name, strings.Join(texts, ": "))
}

func (e *endedError) Unwrap() []error { return e.cause }

// ended joins why an acquisition ended with last, the last verdict (or nil).
func ended(ctx context.Context, name string, last error) error {
	causes := []error{context.Cause(ctx)}
	if !errors.Is(causes[0], ctx.Err()) {
		causes = append(causes, ctx.Err())
	}
	if last != nil {
		causes = append(causes, last)
	}
	return &endedError{name, causes}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
