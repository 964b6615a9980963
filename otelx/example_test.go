package otelx_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/otelx"
)

// One line switches telemetry on. What the program has set up with
// otel.SetTracerProvider and otel.SetMeterProvider is used, also if that happens
// later.
func ExampleNew() {
	locks, err := guard.New(memstore.New(), guard.Observe(otelx.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = guard.Do(context.Background(), locks.Name("nightly-report"), func(ctx context.Context) error {
		fmt.Println("building the report")
		return nil
	})
	fmt.Println(err)
	// Output:
	// building the report
	// <nil>
}

// Who kept my request waiting? The wait span has a link to the span that held the
// lock, in whatever process and whatever trace that is.
func ExampleNew_whoBlockedMe() {
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	store := memstore.New()
	process := func() *guard.Class { // stands for a program of its own
		locks := guard.Must(guard.New(store, guard.Observe(otelx.New(otelx.TracerProvider(tracers)))))
		return guard.Must(locks.Class("order", guard.Wait(10*time.Millisecond)))
	}
	web, batch := process(), process()

	var holder trace.SpanID
	err := guard.Do(context.Background(), batch.Name("42"), func(ctx context.Context) error {
		holder = trace.SpanContextFromContext(ctx).SpanID()
		err := guard.Do(context.Background(), web.Name("42"), func(context.Context) error { return nil })
		fmt.Println("web was refused:", err != nil)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, s := range spans.Ended() {
		fmt.Println(s.Name(), s.Status().Code)
		for _, l := range s.Links() {
			fmt.Println("  waited for the lock span of batch:", l.SpanContext.SpanID() == holder)
		}
	}
	// Output:
	// web was refused: true
	// wait order Error
	//   waited for the lock span of batch: true
	// lock order Error
	// lock order Unset
}

// A lock named after a person: the class is enough to see contention, so names
// stay off spans and log records.
func ExampleHideNames() {
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	locks := guard.Must(guard.New(memstore.New(), guard.Observe(
		otelx.New(otelx.HideNames(), otelx.TracerProvider(tracers)))))
	users := guard.Must(locks.Class("user", guard.TTL(10*time.Second)))
	err := guard.Do(context.Background(), users.Name("jane@example.com"), func(context.Context) error { return nil })
	if err != nil {
		fmt.Println(err)
	}
	for _, a := range spans.Ended()[0].Attributes() {
		if a.Key != "distributed_lock.fencing_token" {
			fmt.Println(a.Key, a.Value.Emit())
		}
	}
	// Output:
	// distributed_lock.class user
	// distributed_lock.ttl 10
	// distributed_lock.outcome acquired
	// distributed_lock.attempts 1
}
