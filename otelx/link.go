package otelx

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
)

// maxLinks is how many holders a wait is linked to: the first ones, whom a long
// wait is mostly due to.
const maxLinks = 8

// carrier is the one header that is kept beside a lease. Tracestate has no bound
// that would let it be stored, and baggage is nobody else's business.
type carrier string

const header = "traceparent"

func (c *carrier) Get(key string) string {
	if key == header {
		return string(*c)
	}
	return ""
}

func (c *carrier) Set(key, value string) {
	if key == header {
		*c = carrier(value)
	}
}

func (c *carrier) Keys() []string { return []string{header} }

func traceparent(ctx context.Context) string {
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return string(c)
}

// meet keeps a link to the holder's span. What was stored beside the lease may be
// anything; no link is made of what is not a traceparent.
func (c *call) meet(held *guard.HeldError) {
	if held == nil || held.Trace == "" || c.o.noLink || len(c.holders) == maxLinks || !c.span.IsRecording() {
		return
	}
	stored := carrier(held.Trace)
	holder := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), &stored))
	if !holder.IsValid() {
		return
	}
	for _, l := range c.holders {
		if l.SpanContext.Equal(holder) {
			return
		}
	}
	c.holders = append(c.holders, trace.Link{
		SpanContext: holder, Attributes: []attribute.KeyValue{tokenKey.Int64(int64(held.Token))},
	})
}
