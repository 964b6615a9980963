package otelx

import (
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"

	"github.com/holdfast-go/holdfast/guard"
)

const (
	classKey     attribute.Key = "distributed_lock.class"
	nameKey      attribute.Key = "distributed_lock.name"
	outcomeKey   attribute.Key = "distributed_lock.outcome"
	attemptsKey  attribute.Key = "distributed_lock.attempts"
	ttlKey       attribute.Key = "distributed_lock.ttl"
	nodesKey     attribute.Key = "distributed_lock.nodes"
	tokenKey     attribute.Key = "distributed_lock.fencing_token"
	errorTypeKey               = semconv.ErrorTypeKey

	typeLost  = "lost"
	typeOther = "_OTHER"
)

// The values that an attribute of a metric can have. The first one stands for no
// attribute, the last one for everything that is not listed.
var (
	outcomes = [...]string{
		"", guard.ResultAcquired, guard.ResultAfterWait, guard.ResultRefused, guard.ResultTimeout,
		guard.ResultCanceled, guard.ResultFailed,
	}
	errorTypes = [...]string{
		"", "timeout", "unavailable", typeLost, "fence_stale", "release_failed", "closed", "nested", "invalid",
		"unsupported", "panic", typeOther,
	}
)

func index(list []string, value string) int {
	if i := slices.Index(list, value); i >= 0 {
		return i
	}
	return len(list) - 1
}

// known returns an error type of the closed set.
func known(kind string) string { return errorTypes[index(errorTypes[:], kind)] }

// errorType classifies an error that comes from a store. What a lease was lost
// by may be inside the error of the loss.
func errorType(err error) string {
	switch {
	case errors.Is(err, guard.ErrLost):
		return typeLost
	case errors.Is(err, guard.ErrUnavailable):
		return "unavailable"
	}
	if typed, ok := errors.AsType[typedError](err); ok && typed.ErrorType() != "" {
		return typed.ErrorType()
	}
	return typeOther
}

type typedError interface {
	error
	ErrorType() string
}

// described is what is known of a call when it begins, beside its class.
func (o *observer) described(g guard.Call) []attribute.KeyValue {
	attrs := []attribute.KeyValue{ttlKey.Float64(g.TTL.Seconds())}
	if !o.hideNames {
		attrs = append(attrs, nameKey.String(g.Name))
	}
	return attrs
}

// outcome is what is known of it when it ends.
func outcome(out guard.Outcome) []attribute.KeyValue {
	attrs := []attribute.KeyValue{outcomeKey.String(out.Result), attemptsKey.Int(out.Attempts)}
	if out.Nodes != 0 {
		attrs = append(attrs, nodesKey.Int(out.Nodes))
	}
	if out.Token != 0 {
		attrs = append(attrs, tokenKey.Int64(int64(out.Token)))
	}
	return attrs
}
