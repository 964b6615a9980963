package otelx_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/otelx"
)

// The global providers can be set once in a process, so a process of its own
// looks at them: "globals" is a part in main_test.go.
func TestGlobalProvidersAreTheDefaultAndSetLater(t *testing.T) {
	out, err := part("globals").CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "lock Unset outcome=acquired attempts=1\n"+
		"acquire.duration outcome=acquired n=1 sum=0s\nhold.duration n=1 sum=0s\n",
		regexp.MustCompile(`sum=\d+ms\b`).ReplaceAllString(string(out), "sum=0s"), "time is real here")
}

func globals() {
	locks := guard.Must(guard.New(memstore.New(), guard.Observe(
		otelx.New(nil, otelx.TracerProvider(nil), otelx.MeterProvider(nil)))))
	tel := newTelemetry()
	early, err := guard.Acquire(context.Background(), locks.Name("early")) // nobody has seen it begin
	check(err)
	otel.SetTracerProvider(tel.tracers)
	otel.SetMeterProvider(tel.meters)
	check(early.Release())
	check(guard.Do(context.Background(), locks.Name("a"), nothing))
	metrics, err := tel.read()
	check(err)
	fmt.Println(strings.Join(append(tel.traces(), render(metrics)...), "\n"))
}

// A meter that can make nothing leaves the spans.
func TestInstrumentThatCannotBeMadeIsReportedAndLeftOut(t *testing.T) {
	var mu sync.Mutex
	var reported []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, err.Error())
	}))
	tel := newTelemetry()
	tel.Observer = otelx.New(otelx.TracerProvider(tel.tracers), otelx.MeterProvider(brokenMeters{}))
	s := newScene(t, tel)
	require.NoError(t, guard.Do(t.Context(), s.name(), nothing))
	everything(t, tel)
	assert.Contains(t, tel.traces(), "lock order Unset outcome=acquired attempts=1")
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{
		"no distributed_lock.acquire.duration", "no distributed_lock.hold.duration",
		"no distributed_lock.waiter.count", "no distributed_lock.lease.count",
		"no distributed_lock.renewals", "no distributed_lock.fence.rejections",
	}, reported)
}

type brokenMeters struct{ metricnoop.MeterProvider }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ metricnoop.Meter }

func (brokenMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errors.New("no " + name)
}

func (brokenMeter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return nil, errors.New("no " + name)
}

func (brokenMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errors.New("no " + name)
}

// An SDK may be installed at any time: what it did not see begin must not end at
// -1.
func TestCountsOfCallsThatBeganBeforeTheSDKStayBalanced(t *testing.T) {
	meter := &switchedMeter{}
	tel := newTelemetry()
	o := otelx.New(otelx.TracerProvider(tel.tracers), otelx.MeterProvider(switchedMeters{m: meter}))
	for _, on := range [][3]bool{{false, true, true}, {false, false, true}, {true, true, true}} {
		c := guard.Call{Name: "order/42", Class: "order"}
		meter.on = on[0]
		ctx := o.Begin(t.Context(), c)
		o.Event(ctx, guard.Event{Call: c, Kind: guard.Waiting})
		meter.on = on[1]
		o.Event(ctx, guard.Event{Call: c, Kind: guard.Granted})
		meter.on = on[2]
		o.End(ctx, guard.Outcome{Call: c, Result: guard.ResultAfterWait})
		assert.Zero(t, meter.sum, "%v", on)
	}
}

type switchedMeters struct {
	metricnoop.MeterProvider
	m *switchedMeter
}

func (p switchedMeters) Meter(string, ...metric.MeterOption) metric.Meter { return p.m }

type switchedMeter struct {
	metricnoop.Meter
	on  bool
	sum int64
}

func (m *switchedMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return switchedCounter{m: m}, nil
}

type switchedCounter struct {
	metricnoop.Int64UpDownCounter
	m *switchedMeter
}

func (c switchedCounter) Enabled(context.Context) bool { return c.m.on }
func (c switchedCounter) Add(_ context.Context, n int64, _ ...metric.AddOption) {
	if c.m.on {
		c.m.sum += n
	}
}

func TestTelemetryThatPanicsFailsNoLock(t *testing.T) {
	captureLog(t)
	good := newTelemetry()
	for name, o := range map[string]guard.Observer{
		"tracer": otelx.New(otelx.TracerProvider(panickingTracers{}), otelx.MeterProvider(good.meters)),
		"processor": otelx.New(otelx.MeterProvider(good.meters), otelx.TracerProvider(
			sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(panickingProcessor{})))),
		"meter": otelx.New(otelx.TracerProvider(good.tracers), otelx.MeterProvider(panickingMeters{})),
	} {
		g, err := guard.New(memstore.New(), guard.Observe(o))
		require.NoError(t, err)
		for range 2 { // the second one finds the lock free
			ran := false
			require.NoError(t, guard.Do(t.Context(), g.Name("a"), func(ctx context.Context) error {
				ran = true
				_, err := guard.Try(context.WithoutCancel(t.Context()), g.Name("a"), nothing)
				return err
			}), name)
			assert.True(t, ran, name)
		}
		require.NoError(t, g.Close(t.Context()))
	}
}

type panickingTracers struct{ tracenoop.TracerProvider }

func (panickingTracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return panickingTracer{} }

type panickingTracer struct{ tracenoop.Tracer }

func (panickingTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("tracer")
}

type panickingProcessor struct{ sdktrace.SpanProcessor }

func (panickingProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (panickingProcessor) OnEnd(sdktrace.ReadOnlySpan)                     { panic("processor") }

type panickingMeters struct{ metricnoop.MeterProvider }

func (panickingMeters) Meter(string, ...metric.MeterOption) metric.Meter { return panickingMeter{} }

type panickingMeter struct{ metricnoop.Meter }

func (panickingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return panickingHistogram{}, nil
}

type panickingHistogram struct{ metricnoop.Float64Histogram }

func (panickingHistogram) Enabled(context.Context) bool { panic("meter") }

// A call sees its own state, also inside another one and beside another
// observer.
func TestCallsAndObserversKeepApart(t *testing.T) {
	a, b := newTelemetry(), newTelemetry()
	off := otelx.New(otelx.TracerProvider(tracenoop.NewTracerProvider()), otelx.MeterProvider(b.meters))
	g, err := guard.New(memstore.New(), guard.Observe(a, off))
	require.NoError(t, err)
	outer, inner := guard.Must(g.Class("outer")), guard.Must(g.Class("inner"))
	require.NoError(t, guard.Do(t.Context(), outer.Name("1"), func(ctx context.Context) error {
		return guard.Do(ctx, inner.Name("1"), func(context.Context) error {
			for _, tel := range []*telemetry{a, b} {
				assert.Equal(t, []string{"lease.count class=inner +1", "lease.count class=outer +1"}, tel.counts(t, "lease.count"))
			}
			return nil
		})
	}))
	require.Len(t, a.traces(), 2)
	assert.Equal(t, a.span(t, "lock outer").SpanContext().SpanID(), a.span(t, "lock inner").Parent().SpanID())
	for _, tel := range []*telemetry{a, b} {
		assert.Empty(t, tel.counts(t, "lease.count"))
		assert.Len(t, tel.metrics(t), 4)
	}
}

// A call that nobody wants to see, inside one that is watched, must not speak
// for it.
func TestUnseenCallInsideASeenOneChangesNothing(t *testing.T) {
	tel := newTelemetry()
	onlyOuter := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(tel.spans), sdktrace.WithSampler(byName("lock outer")))
	g, err := guard.New(memstore.New(), guard.Observe(
		otelx.New(otelx.TracerProvider(onlyOuter), otelx.MeterProvider(metricnoop.NewMeterProvider()))))
	require.NoError(t, err)
	outer, inner := guard.Must(g.Class("outer")), guard.Must(g.Class("inner"))
	require.NoError(t, guard.Do(t.Context(), outer.Name("1"), func(ctx context.Context) error {
		require.NoError(t, guard.Do(ctx, inner.Name("1"), nothing))
		assert.Empty(t, tel.traces())
		return nil
	}))
	assert.Equal(t, []string{"lock outer Unset outcome=acquired attempts=1"}, tel.traces())
}

type byName string

func (n byName) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Name == string(n) {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return sdktrace.NeverSample().ShouldSample(p)
}

func (n byName) Description() string { return string(n) }
