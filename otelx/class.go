package otelx

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// maxClasses bounds what is kept, and with it the series of an instrument: 100
// classes with all that can happen to a call stay below 2000, from where the
// metric SDK would throw them together by itself.
const maxClasses = 100

// classes finds the class of a label. It is read by every event and written once
// per class, so the map is replaced and never changed.
type classes struct {
	all   *atomic.Pointer[map[string]*class]
	mu    *sync.Mutex // held by who replaces all
	other *class
}

func newClasses() classes {
	c := classes{all: new(atomic.Pointer[map[string]*class]), mu: new(sync.Mutex), other: newClass(typeOther)}
	c.all.Store(&map[string]*class{})
	return c
}

func (cs *classes) of(label string) *class {
	all := *cs.all.Load()
	if c := all[label]; c != nil {
		return c
	}
	if len(all) >= maxClasses {
		return cs.other
	}
	cs.mu.Lock()
	more := maps.Clone(*cs.all.Load())
	if len(more) < maxClasses && more[label] == nil {
		more[label] = newClass(label)
		cs.all.Store(&more)
	}
	cs.mu.Unlock()
	return cs.of(label)
}

// class is what all calls of a class have in common.
type class struct {
	lock, wait string // names of spans
	start      []trace.SpanStartOption
	attrs      []attribute.KeyValue
	sets       [len(outcomes)][len(errorTypes)]atomic.Pointer[labels]
}

// labels is one attribute set, ready for use without an allocation.
type labels struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

func newClass(label string) *class {
	if label == "" {
		return &class{lock: "lock", wait: "wait"}
	}
	attrs := []attribute.KeyValue{classKey.String(label)}
	return &class{
		lock: "lock " + label, wait: "wait " + label, attrs: attrs,
		start: []trace.SpanStartOption{trace.WithAttributes(attrs...)},
	}
}

// labels returns the set of the class with an outcome and an error type, each
// left out if it is "".
func (c *class) labels(outcome, errorType string) *labels {
	i, j := index(outcomes[:], outcome), index(errorTypes[:], errorType)
	if l := c.sets[i][j].Load(); l != nil {
		return l
	}
	attrs := slices.Clone(c.attrs)
	if i > 0 {
		attrs = append(attrs, outcomeKey.String(outcomes[i]))
	}
	if j > 0 {
		attrs = append(attrs, errorTypeKey.String(errorTypes[j]))
	}
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	l := &labels{record: []metric.RecordOption{set}, add: []metric.AddOption{set}}
	c.sets[i][j].Store(l)
	return l
}
