package guard

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// Observer watches calls of Do, Value, Try and Acquire. Methods are called on
// the goroutines that do the work, concurrently for different calls, and must
// not block. A panic in one is contained and logged, and never keeps a lease
// from being released. A Guard without an Observer does no work for it.
//
// For each call there is one Begin, then events in the order in which they
// happened, then one End. A call that is refused before it starts (bad name,
// ended context, closed Guard, nested) has Begin and End and no event.
type Observer interface {
	// Begin returns the context under which the call goes on: a span put into
	// it becomes the parent of everything in the work.
	Begin(ctx context.Context, c Call) context.Context
	// Event gets the context that Begin returned.
	Event(ctx context.Context, e Event)
	// End gets the context that Begin returned. It is called once the lease
	// was given back, or immediately before a panic goes on.
	End(ctx context.Context, o Outcome)
}

// WithTrace puts a W3C traceparent into ctx. It is stored beside a lease that is
// acquired under ctx, and others see it in HeldError.Trace. An Observer calls it
// in Begin; at most 64 bytes are kept.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

type traceKey struct{}

func traceOf(ctx context.Context) string {
	tp, _ := ctx.Value(traceKey{}).(string)
	return tp[:min(len(tp), 64)]
}

// Call says which lock a call is about.
type Call struct {
	Name  string // the escaped name; never use it as a metric attribute
	Class string // label of the class: few values, chosen by the program; "" without a class
	TTL   time.Duration
	At    time.Time // when the call began
}

// Kind says what happened.
type Kind uint8

// Kinds of events.
const (
	Waiting       Kind = iota + 1 // the name is held: the first time, and whenever the holder changed; Holder is set
	Granted                       // fn is about to run; Token is set
	Renewed                       // a renewal was confirmed
	RenewFailed                   // a renewal failed, the lease still stands; Err is set
	HandedOn                      // the lease was passed on to the next call of this process
	Lost                          // the lease is over and fn's context ended; Err is a *LostError
	Stale                         // a storage refused the token; Err is a *fence.StaleError
	ReleaseFailed                 // the release could not be confirmed, the lease ends by itself; Err is set
)

// String returns the name in lower case, words joined by underscores.
func (k Kind) String() string {
	names := [...]string{"unknown", "waiting", "granted", "renewed", "renew_failed", "handed_on", "lost", "stale", "release_failed"}
	if int(k) >= len(names) {
		return names[0]
	}
	return names[k]
}

// Event is one thing that happened during a call.
type Event struct {
	Call
	Kind   Kind
	At     time.Time
	Token  fence.Token
	Holder *HeldError
	Err    error
}

// Results of an acquisition, in Outcome.Result.
const (
	ResultAcquired  = "acquired"            // free at the first attempt
	ResultAfterWait = "acquired_after_wait" // acquired after waiting
	ResultRefused   = "refused"             // held, and the call does not wait (Try, NoWait, MaxWaiters)
	ResultTimeout   = "timeout"             // held or unknown until Wait or the caller's deadline ended
	ResultCanceled  = "canceled"            // the caller went away
	ResultFailed    = "failed"              // anything else; see ErrorType
)

// Outcome is how a call ended.
type Outcome struct {
	Call
	Result   string // one of the Result constants
	Token    fence.Token
	Attempts int           // requests to the store for this acquisition
	Nodes    int           // servers that the quorum is made of; 0 without a lease of one
	Waited   time.Duration // from the beginning to the grant, or to giving up
	HeldFor  time.Duration // from the grant until others could enter; 0 if not acquired

	// ErrorType is "" or one of timeout, unavailable, lost, fence_stale,
	// release_failed, closed, nested, invalid, unsupported, panic (fn panicked
	// or called runtime.Goexit). A refused call and a caller that went away
	// are results, not errors, and so is an error of fn.
	ErrorType string
	Err       error // the lock's error, never fn's
}

// observers calls several observers, each inside a recover.
type observers []Observer

func (os observers) begin(ctx context.Context, c Call) context.Context {
	for _, o := range os {
		contain(func() {
			if next := o.Begin(ctx, c); next != nil {
				ctx = next
			}
		})
	}
	return ctx
}

func (os observers) event(ctx context.Context, e Event) {
	for _, o := range os {
		contain(func() { o.Event(ctx, e) })
	}
}

// end runs in the opposite order of begin, so that observers nest.
func (os observers) end(ctx context.Context, o Outcome) {
	for _, one := range slices.Backward(os) {
		contain(func() { one.End(ctx, o) })
	}
}

func contain(f func()) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("guard: observer panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}
