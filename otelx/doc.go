// Package otelx shows locks in OpenTelemetry: who waited, for how long, and for
// whom.
//
//	locks, err := guard.New(store, guard.Observe(otelx.New()))
//
// # Spans
//
// Every call of Do, Value, Try or Acquire is a span "lock {class}" of kind
// INTERNAL, from the call's beginning until the lease was given back; spans of
// the work are its children. Only a call that had to wait has a child
// "wait {class}" as well, from the beginning of the call to the grant, or to
// giving up. It has links to the lock spans of those it waited for, at most 8, in
// whatever process they run: the traceparent of a sampled lock span is stored
// beside the lease, and comes back with the refusal at no extra round trip. A
// lease that is passed on inside a process keeps that of the call which got it
// from the store. A call that does not wait has the links on its lock span.
// Without a class the names are "lock" and "wait".
//
// Attributes of spans are distributed_lock.class, distributed_lock.name (see
// [HideNames]), distributed_lock.outcome, distributed_lock.attempts,
// distributed_lock.ttl in seconds, distributed_lock.fencing_token, error.type, and
// for a lease of a quorum distributed_lock.nodes. A link has the holder's distributed_lock.fencing_token.
//
// The status is Error exactly when there is an error.type. To be refused, a
// caller that went away, and an error of the work are not errors of the lock:
// they leave it unset. There are no span events; a lost lease, and a release that
// could not be confirmed, is one record of [log/slog.Default] with the span's
// context.
//
// # Metrics
//
//	distributed_lock.acquire.duration   histogram, s                 class, outcome, error.type
//	distributed_lock.hold.duration      histogram, s                 class, error.type
//	distributed_lock.waiter.count       up-down counter, {waiter}    class
//	distributed_lock.lease.count        up-down counter, {lease}     class
//	distributed_lock.renewals           counter, {renewal}           class, error.type
//	distributed_lock.fence.rejections   counter, {rejection}         class
//
// acquire.duration is the time from the beginning of a call to the grant, or to
// giving up, for every outcome, recorded then. hold.duration is the time from the
// grant until others could enter, recorded when the call ends. The two counts are
// of this process and now: a lease counts until it is given back or lost. renewals
// are confirmed and failed ones, and one with error.type lost for a lease that
// was found to be over.
//
// # Values
//
// The outcome is one of acquired (free at the first attempt),
// acquired_after_wait, refused, timeout, canceled and failed, so contention is
// everything but acquired and failed. error.type is one of timeout, unavailable,
// lost, fence_stale, release_failed, closed, nested, invalid, unsupported, panic
// and _OTHER, and is left out when nothing went wrong. The class is the label the
// program chose; the first 100 of an Observer have their own, later ones share
// _OTHER. Nothing else is an attribute of a metric, so a series can not be made
// by what a caller sends.
//
// The names are this library's: OpenTelemetry has no conventions for locks.
// dashboard.json beside this file is a Grafana dashboard for the six metrics as
// Prometheus names them.
package otelx
