package otelx

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
)

// ScopeName is the instrumentation scope of all spans and metrics.
const ScopeName = "github.com/holdfast-go/holdfast/otelx"

// Option configures an Observer.
type Option interface{ otelOption() }

type option func(*config)

func (option) otelOption() {}

type config struct {
	tracers   trace.TracerProvider
	meters    metric.MeterProvider
	hideNames bool
	noLink    bool
}

// TracerProvider sets where spans go. The default, also for nil, is the global
// provider.
func TracerProvider(p trace.TracerProvider) Option {
	return option(func(c *config) {
		if p != nil {
			c.tracers = p
		}
	})
}

// MeterProvider sets where metrics go. The default, also for nil, is the global
// provider.
func MeterProvider(p metric.MeterProvider) Option {
	return option(func(c *config) {
		if p != nil {
			c.meters = p
		}
	})
}

// HideNames keeps the names of locks, and the texts of errors, which contain
// them, off spans and log records. Metrics never have either.
func HideNames() Option { return option(func(c *config) { c.hideNames = true }) }

// NoHolderLink stores no traceparent beside the leases of this process, and
// makes no links to the holders it meets.
func NoHolderLink() Option { return option(func(c *config) { c.noLink = true }) }

// New returns an Observer that makes spans and metrics. It is safe for concurrent
// use, and one may serve several Guards. An instrument that cannot be made is
// reported to otel.Handle and left out; nothing that goes wrong in telemetry
// reaches a lock. Without an SDK a call costs what starting a span costs, and
// nothing is measured.
func New(opts ...Option) guard.Observer {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		if set, ok := o.(option); ok {
			set(&c)
		}
	}
	version := moduleVersion()
	return &observer{
		config: c,
		tracer: c.tracers.Tracer(ScopeName, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(semconv.SchemaURL)),
		instruments: newInstruments(c.meters.Meter(ScopeName,
			metric.WithInstrumentationVersion(version), metric.WithSchemaURL(semconv.SchemaURL))),
		classes: newClasses(),
	}
}

// moduleVersion is what the program was built with, "" if that is unknown.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != "" && strings.HasPrefix(ScopeName, m.Path+"/") {
			return m.Version
		}
	}
	return ""
}

type observer struct {
	config
	instruments

	tracer  trace.Tracer
	classes classes
}

// Begin starts the lock span. The call has a state of its own only if somebody
// listens, or if that of a call around it would be found instead.
func (o *observer) Begin(ctx context.Context, g guard.Call) context.Context {
	outer := o.callOf(ctx)
	class := o.classes.of(g.Class)
	spanCtx, span := o.tracer.Start(ctx, class.lock, class.start...)
	if outer == nil && !span.IsRecording() && !o.counts(ctx) {
		return spanCtx
	}
	c := &call{Context: spanCtx, o: o, about: g, class: class, span: span}
	if span.IsRecording() {
		span.SetAttributes(o.described(g)...)
		if span.SpanContext().IsSampled() && !o.noLink {
			c.Context = guard.WithTrace(spanCtx, traceparent(spanCtx))
		}
	}
	return c
}

func (o *observer) Event(ctx context.Context, e guard.Event) {
	c := o.callOf(ctx)
	if c != nil {
		ctx = c
	}
	class := o.classes.of(e.Class)
	switch e.Kind {
	case guard.Waiting:
		c.wait(e.Holder)
	case guard.Granted:
		c.enter(e.At.Sub(e.Call.At))
	case guard.Renewed:
		count(ctx, o.renewals, class, nil)
	case guard.RenewFailed:
		count(ctx, o.renewals, class, e.Err)
	case guard.Lost:
		if reason(e.Err) != guard.LostMaxHold {
			count(ctx, o.renewals, class, e.Err)
		}
		o.log(ctx, e, "lock lost")
		c.lose()
	case guard.Stale:
		count(ctx, o.rejections, class, nil)
	case guard.ReleaseFailed:
		o.log(ctx, e, "lock not released, it will expire")
	case guard.HandedOn:
	}
}

func (o *observer) End(ctx context.Context, out guard.Outcome) {
	o.callOf(ctx).end(out)
}

func (o *observer) log(ctx context.Context, e guard.Event, msg string) {
	attrs := []slog.Attr{slog.Int64("token", int64(e.Token))}
	if why := reason(e.Err); why != "" {
		attrs = append(attrs, slog.String("reason", why))
	}
	if e.Class != "" {
		attrs = append(attrs, slog.String("class", e.Class))
	}
	if !o.hideNames {
		attrs = append(attrs, slog.String("lock", e.Name), slog.Any("error", e.Err))
	}
	slog.LogAttrs(ctx, slog.LevelWarn, msg, attrs...)
}

// reason is why a lease was lost, "" for other errors.
func reason(err error) string {
	if lost, ok := errors.AsType[*guard.LostError](err); ok {
		return lost.Reason
	}
	return ""
}
