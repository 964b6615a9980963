package otelx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
)

// call is one call of a verb, and the context it goes on with. Measurements are
// recorded under it, so that exemplars point to its span.
//
// All methods but those of a context may be called on nil, which stands for a
// call that nobody watched when it began.
type call struct {
	context.Context

	o     *observer
	about guard.Call
	class *class
	span  trace.Span

	mu      sync.Mutex // a loss comes from another goroutine than the rest
	waited  bool
	entered bool
	lost    bool
	waiter  bool // counted in waiter.count
	lease   bool // counted in lease.count
	holders []trace.Link
}

// callKey has the observer in it, so that two in one Guard keep apart.
type callKey struct{ *observer }

func (c *call) Value(key any) any {
	if key == (callKey{c.o}) {
		return c
	}
	return c.Context.Value(key)
}

// String keeps fmt from reading fields that change.
func (c *call) String() string { return fmt.Sprintf("%v.otelx", c.Context) }

func (o *observer) callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{o}).(*call)
	return c
}

// wait is told of every holder the call meets.
func (c *call) wait(held *guard.HeldError) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waited {
		c.waited = true
		c.waiter = c.add(c.o.waiters, 1)
	}
	c.meet(held)
}

// enter is the beginning of the work.
func (c *call) enter(took time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entered = true
	outcome := guard.ResultAcquired
	if c.waited {
		outcome = guard.ResultAfterWait
	}
	record(c, c.o.acquire, took, c.class, outcome, "")
	if !c.lost {
		c.lease = c.add(c.o.leases, 1)
	}
	c.waitEnded(guard.Outcome{Result: outcome})
}

// lose ends the lease before the call ends. It may overtake enter.
func (c *call) lose() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
	c.leaseEnded()
}

func (c *call) end(out guard.Outcome) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entered {
		record(c, c.o.hold, out.HeldFor, c.class, "", out.ErrorType)
	} else {
		c.refused(out)
	}
	c.leaseEnded()
	if c.span.IsRecording() {
		c.span.SetAttributes(outcome(out)...)
		c.status(c.span, out)
		c.span.End()
	}
}

// refused is the end of a call that did not get the lock. Its error knows the
// holder also when no event told of it.
func (c *call) refused(out guard.Outcome) {
	if held, ok := errors.AsType[*guard.HeldError](out.Err); ok {
		c.waited = true
		c.meet(held)
	}
	record(c, c.o.acquire, out.Waited, c.class, out.Result, out.ErrorType)
	c.waitEnded(out)
	if out.Result == guard.ResultRefused {
		for _, l := range c.holders {
			c.span.AddLink(l)
		}
	}
}

// waitEnded counts the waiter off and makes the wait span. Made only now, it has
// all its links from the beginning, where a sampler sees them, and a call that
// did not wait after all has none.
func (c *call) waitEnded(out guard.Outcome) {
	if c.waiter {
		c.waiter = false
		c.add(c.o.waiters, -1)
	}
	if !c.waited || out.Result == guard.ResultRefused || !c.span.IsRecording() {
		return
	}
	attrs := append(c.o.described(c.about), outcomeKey.String(out.Result))
	_, span := c.o.tracer.Start(c, c.class.wait, trace.WithTimestamp(c.about.At), trace.WithLinks(c.holders...),
		trace.WithAttributes(append(attrs, c.class.attrs...)...))
	c.status(span, out)
	span.End()
}

func (c *call) leaseEnded() {
	if c.lease {
		c.lease = false
		c.add(c.o.leases, -1)
	}
}

// add tells whether the change was seen. What was not counted up is not counted
// down, also when a provider is installed in between.
func (c *call) add(count metric.Int64UpDownCounter, n int64) bool {
	if n > 0 && !count.Enabled(c) {
		return false
	}
	count.Add(c, n, c.class.labels("", "").add...)
	return true
}

// status makes the span an error if the lock failed.
func (c *call) status(span trace.Span, out guard.Outcome) {
	kind := known(out.ErrorType)
	if kind == "" {
		return
	}
	text := ""
	if out.Err != nil && !c.o.hideNames {
		text = out.Err.Error()
	}
	span.SetAttributes(errorTypeKey.String(kind))
	span.SetStatus(codes.Error, text)
}
