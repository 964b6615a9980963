package otelx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/otelx"
)

// deaf is an observer that does nothing: what it costs is what watching costs.
type deaf struct{}

func (deaf) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }
func (deaf) Event(context.Context, guard.Event)                      {}
func (deaf) End(context.Context, guard.Outcome)                      {}

// Nothing in this test binary installs a global provider.
func withoutSDK() guard.Observer { return otelx.New() }

func TestWithoutSDKACallCostsThreeAllocationsForItsSpanAndNoneForMetrics(t *testing.T) {
	tracing := otelx.New(otelx.MeterProvider(metricnoop.NewMeterProvider()))
	assert.LessOrEqual(t, allocs(t, withoutSDK())-allocs(t, deaf{}), 3.0)
	assert.Equal(t, allocs(t, tracing), allocs(t, withoutSDK()), "metrics cost nothing")

	// What comes after the beginning costs nothing at all.
	o, c := withoutSDK(), guard.Call{Name: "order/42", Class: "order", At: time.Now()}
	ctx := o.Begin(t.Context(), c)
	held := &guard.HeldError{Token: 1, Trace: rivalsRun}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, k := range []guard.Kind{guard.Waiting, guard.Granted, guard.Renewed, guard.RenewFailed, guard.HandedOn, guard.Stale} {
			o.Event(ctx, guard.Event{Call: c, Kind: k, Holder: held, Err: errNetwork})
		}
		o.End(ctx, guard.Outcome{Call: c, Result: guard.ResultAcquired})
	}))
}

func TestWithSDKMetricsCostOneAllocationPerCall(t *testing.T) {
	tel := newTelemetry()
	off := tracenoop.NewTracerProvider()
	quiet := otelx.New(otelx.TracerProvider(off), otelx.MeterProvider(metricnoop.NewMeterProvider()))
	measured := otelx.New(otelx.TracerProvider(off), otelx.MeterProvider(tel.meters))
	assert.LessOrEqual(t, allocs(t, measured)-allocs(t, quiet), 1.0)
}

func TestWithoutObserverWatchingCostsNothing(t *testing.T) {
	assert.Equal(t, allocs(t), allocs(t, nil))
}

// allocs counts the allocations of a call that finds its lock free.
func allocs(t *testing.T, o ...guard.Observer) float64 {
	t.Helper()
	name, ctx := costOf(t, o...)
	return testing.AllocsPerRun(200, func() { _ = guard.Do(ctx, name, nothing) })
}

func costOf(t testing.TB, o ...guard.Observer) (guard.Name, context.Context) {
	t.Helper()
	g, err := guard.New(memstore.New(), guard.Observe(o...))
	require.NoError(t, err)
	c, err := g.Class("order")
	require.NoError(t, err)
	return c.Name("42"), context.Background()
}

func BenchmarkDo(b *testing.B) {
	tel := newTelemetry()
	tracers := sdktrace.NewTracerProvider() // records, keeps nothing
	for _, bc := range []struct {
		name string
		o    guard.Observer
	}{
		{"no observer", nil},
		{"observer that does nothing", deaf{}},
		{"otelx without SDK", withoutSDK()},
		{"otelx with metrics", otelx.New(otelx.MeterProvider(tel.meters))},
		{"otelx with metrics, never sampled", otelx.New(otelx.MeterProvider(tel.meters), otelx.TracerProvider(
			sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))))},
		{"otelx with metrics, always sampled", otelx.New(otelx.MeterProvider(tel.meters), otelx.TracerProvider(tracers))},
	} {
		b.Run(bc.name, func(b *testing.B) {
			name, ctx := costOf(b, bc.o)
			b.ReportAllocs()
			for b.Loop() {
				_ = guard.Do(ctx, name, nothing)
			}
		})
	}
}

func BenchmarkRenewed(b *testing.B) {
	for name, o := range map[string]guard.Observer{"without SDK": withoutSDK(), "with SDK": newTelemetry()} {
		b.Run(name, func(b *testing.B) {
			e := guard.Event{Call: guard.Call{Name: "order/42", Class: "order"}, Kind: guard.Renewed}
			b.ReportAllocs()
			for b.Loop() {
				o.Event(b.Context(), e)
			}
		})
	}
}
