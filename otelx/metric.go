package otelx

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// instruments are the six metrics.
type instruments struct {
	acquire, hold        metric.Float64Histogram
	waiters, leases      metric.Int64UpDownCounter
	renewals, rejections metric.Int64Counter
}

func newInstruments(m metric.Meter) instruments {
	return instruments{
		acquire: seconds(m, "distributed_lock.acquire.duration",
			"Time from the beginning of a call to the grant of the lock, or to giving up.",
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		hold: seconds(m, "distributed_lock.hold.duration",
			"Time from the grant of the lock until others could enter.",
			.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300),
		waiters:    gauge(m, "distributed_lock.waiter.count", "{waiter}", "Calls of this process that wait for a lock now."),
		leases:     gauge(m, "distributed_lock.lease.count", "{lease}", "Leases that this process holds now."),
		renewals:   counter(m, "distributed_lock.renewals", "{renewal}", "Renewals of leases, confirmed and failed."),
		rejections: counter(m, "distributed_lock.fence.rejections", "{rejection}", "Uses of a lock's token that a storage refused since it knew a newer one."),
	}
}

// An instrument may come with an error and work all the same, or may be nil.

func seconds(m metric.Meter, name, description string, bounds ...float64) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	handle(err)
	if h == nil {
		return noop.Float64Histogram{}
	}
	return h
}

func gauge(m metric.Meter, name, unit, description string) metric.Int64UpDownCounter {
	c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	handle(err)
	if c == nil {
		return noop.Int64UpDownCounter{}
	}
	return c
}

func counter(m metric.Meter, name, unit, description string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	handle(err)
	if c == nil {
		return noop.Int64Counter{}
	}
	return c
}

func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// counts tells whether somebody wants a metric that needs a call's state.
func (i *instruments) counts(ctx context.Context) bool {
	return i.acquire.Enabled(ctx) || i.hold.Enabled(ctx) || i.waiters.Enabled(ctx) || i.leases.Enabled(ctx)
}

func record(ctx context.Context, h metric.Float64Histogram, took time.Duration, c *class, outcome, errorType string) {
	if h.Enabled(ctx) {
		h.Record(ctx, took.Seconds(), c.labels(outcome, errorType).record...)
	}
}

// count adds one, under the type of err if there is one.
func count(ctx context.Context, counter metric.Int64Counter, c *class, err error) {
	if !counter.Enabled(ctx) {
		return
	}
	kind := ""
	if err != nil {
		kind = errorType(err)
	}
	counter.Add(ctx, 1, c.labels("", kind).add...)
}
