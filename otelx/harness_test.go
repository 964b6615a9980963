package otelx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/otelx"
)

// telemetry is an SDK that keeps everything in memory, and an observer for it.
type telemetry struct {
	guard.Observer

	spans   *tracetest.SpanRecorder
	reader  *sdkmetric.ManualReader
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
}

func newTelemetry(opts ...otelx.Option) *telemetry {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tel := &telemetry{
		spans: spans, reader: reader,
		tracers: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	}
	tel.Observer = otelx.New(append(opts, otelx.TracerProvider(tel.tracers), otelx.MeterProvider(tel.meters))...)
	return tel
}

// all returns the spans that have ended.
func (tel *telemetry) all() []sdktrace.ReadOnlySpan { return tel.spans.Ended() }

// span returns the one span of a name.
func (tel *telemetry) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range tel.all() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, "spans named %q", name)
	return found[0]
}

// traces renders each span that ended as a line: its name, its status, what it
// says about the call, and who it is linked to.
func (tel *telemetry) traces() (lines []string) {
	for _, s := range tel.all() {
		line := s.Name() + " " + s.Status().Code.String()
		for _, key := range []attribute.Key{"distributed_lock.outcome", "distributed_lock.attempts", "error.type"} {
			if v, ok := attr(s.Attributes(), key); ok {
				line += fmt.Sprintf(" %s=%s", short(string(key)), v.Emit())
			}
		}
		for _, l := range s.Links() {
			line += " -> " + l.SpanContext.SpanID().String()
		}
		lines = append(lines, line)
	}
	return lines
}

// metrics renders each series as a line. A count that is back at 0 is left out.
func (tel *telemetry) metrics(t *testing.T) []string {
	t.Helper()
	return render(tel.collect(t))
}

func render(metrics []metricdata.Metrics) (lines []string) {
	for _, m := range metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				took := time.Duration(p.Sum * float64(time.Second)).Round(time.Millisecond)
				lines = append(lines, fmt.Sprintf("%s n=%d sum=%v", series(m.Name, p.Attributes), p.Count, took))
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				if p.Value != 0 {
					lines = append(lines, fmt.Sprintf("%s %+d", series(m.Name, p.Attributes), p.Value))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func (tel *telemetry) collect(t *testing.T) []metricdata.Metrics {
	t.Helper()
	metrics, err := tel.read()
	require.NoError(t, err)
	return metrics
}

// read returns what is measured so far: of one scope, if there is anything.
func (tel *telemetry) read() ([]metricdata.Metrics, error) {
	var data metricdata.ResourceMetrics
	err := tel.reader.Collect(context.Background(), &data)
	if err != nil || len(data.ScopeMetrics) == 0 {
		return nil, err
	}
	return data.ScopeMetrics[0].Metrics, nil
}

// pointsOf returns the attribute sets of an instrument's series.
func pointsOf(m metricdata.Metrics) (sets []attribute.Set) {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	}
	return sets
}

func series(name string, set attribute.Set) string {
	line := short(name)
	for _, kv := range set.ToSlice() {
		if kv.Key != "distributed_lock.class" || kv.Value.AsString() != "order" {
			line += fmt.Sprintf(" %s=%s", short(string(kv.Key)), kv.Value.Emit())
		}
	}
	return line
}

func short(name string) string { return strings.TrimPrefix(name, "distributed_lock.") }

func attr(attrs []attribute.KeyValue, key attribute.Key) (attribute.Value, bool) {
	for _, kv := range attrs {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return attribute.Value{}, false
}

// faults puts functions in front of a store; a nil one passes.
type faults struct {
	guard.Locker
	acquire func(ctx context.Context, r guard.Request) (guard.Lease, error)
	renew   func(ctx context.Context, l guard.Lease) (guard.Lease, error)
	release func(ctx context.Context, l guard.Lease) error
}

func (f *faults) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	if f.acquire != nil {
		return f.acquire(ctx, r)
	}
	return f.Locker.Acquire(ctx, r)
}

func (f *faults) Renew(ctx context.Context, l guard.Lease) (guard.Lease, error) {
	if f.renew != nil {
		return f.renew(ctx, l)
	}
	return f.Locker.Renew(ctx, l)
}

func (f *faults) Release(ctx context.Context, l guard.Lease) error {
	if f.release != nil {
		return f.release(ctx, l)
	}
	return f.Locker.Release(ctx, l)
}

// scene is a class of locks in a store that can fail, under observation.
type scene struct {
	*telemetry
	*faults

	guard  *guard.Guard
	orders *guard.Class
}

func newScene(t *testing.T, tel *telemetry, policies ...guard.Policy) *scene {
	t.Helper()
	s := &scene{telemetry: tel, faults: &faults{Locker: memstore.New()}}
	var err error
	s.guard, err = guard.New(s.faults, guard.Observe(tel), guard.TTL(3*time.Second))
	require.NoError(t, err)
	s.orders, err = s.guard.Class("order", policies...)
	require.NoError(t, err)
	return s
}

const (
	rivalSpan = "00000000000000aa"
	rivalsRun = "00-0af7651916cd43dd8448eb211c80319c-" + rivalSpan + "-01"
)

// rival takes order/42 for a time, as another process does, and returns how to
// give it back early.
func (s *scene) rival(t *testing.T, ttl time.Duration) (leave func()) {
	t.Helper()
	l, err := s.Locker.Acquire(t.Context(), guard.Request{
		Name: "order/42", Owner: "rivalrivalrivalrival22", TTL: ttl, Label: "rival", Trace: rivalsRun,
	})
	require.NoError(t, err)
	return func() { require.NoError(t, s.Locker.Release(context.WithoutCancel(t.Context()), l)) }
}

func (s *scene) name() guard.Name { return s.orders.Name("42") }

var (
	errNetwork = errors.New("connection reset by test")
	errWork    = errors.New("out of stock")
)

// broken is what a store says when the network failed.
func broken() error { return errors.Join(guard.ErrUnavailable, errNetwork) }

func nothing(context.Context) error { return nil }

// untilDone is work that ends with its context, and says why.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// idOf is the span under which ctx runs.
func idOf(ctx context.Context) string { return trace.SpanContextFromContext(ctx).SpanID().String() }

// counts returns the series of one instrument that are not 0.
func (tel *telemetry) counts(t *testing.T, instrument string) (lines []string) {
	t.Helper()
	for _, line := range tel.metrics(t) {
		if strings.HasPrefix(line, instrument+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}
