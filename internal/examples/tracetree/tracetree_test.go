package tracetree_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/internal/examples/tracetree"
)

func TestTextShowsParentsOutcomesErrorsAndLinks(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")

	elsewhere := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	remote := trace.ContextWithRemoteSpanContext(context.Background(), elsewhere)
	a, rootA := tracer.Start(remote, "a")
	a1, first := tracer.Start(a, "first", trace.WithAttributes(attribute.String("distributed_lock.outcome", "acquired")))
	_, below := tracer.Start(a1, "below")
	_, second := tracer.Start(a, "second", trace.WithLinks(trace.Link{SpanContext: elsewhere}))
	second.SetStatus(codes.Error, "")
	_, rootB := tracer.Start(context.Background(), "b", trace.WithLinks(trace.LinkFromContext(a1)))
	for _, s := range []trace.Span{rootB, second, below, first, rootA} {
		s.End()
	}
	assert.Equal(t, `1 a
  ├ first acquired
  │ └ below
  └ second Error, held elsewhere
2 b, held by first of 1
`, tracetree.Text(spans.Ended()))
	assert.Empty(t, tracetree.Text(nil))
}
