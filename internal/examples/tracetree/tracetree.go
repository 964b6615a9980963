// Package tracetree prints traces as text, for examples and their tests.
//
//	1 POST /orders/{id}/pay
//	  └ lock order acquired
//	    └ charge
//	2 shop.v1.Orders/Ship
//	  └ lock order acquired_after_wait
//	    └ wait order acquired_after_wait, held by lock order of 1
package tracetree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Text is the traces that spans form, in the order in which they began. Behind
// a span's name stand the outcome of a lock, Error if that is its status, and
// the spans it has links to. Spans whose parent is not among spans are roots.
func Text(spans []sdktrace.ReadOnlySpan) string {
	t := tree{
		names:    map[trace.SpanID]string{},
		children: map[trace.SpanID][]sdktrace.ReadOnlySpan{},
		numbers:  map[trace.TraceID]int{},
	}
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		if c := a.StartTime().Compare(b.StartTime()); c != 0 {
			return c
		}
		return cmp.Compare(a.Name(), b.Name())
	})
	for _, s := range spans {
		t.names[s.SpanContext().SpanID()] = s.Name()
	}
	var roots []sdktrace.ReadOnlySpan
	for _, s := range spans {
		if _, known := t.names[s.Parent().SpanID()]; known {
			t.children[s.Parent().SpanID()] = append(t.children[s.Parent().SpanID()], s)
			continue
		}
		roots = append(roots, s)
		if id := s.SpanContext().TraceID(); t.numbers[id] == 0 {
			t.numbers[id] = len(t.numbers) + 1
		}
	}
	for _, s := range roots {
		fmt.Fprintf(&t.text, "%d %s\n", t.numbers[s.SpanContext().TraceID()], t.line(s))
		t.below(s, "  ")
	}
	return t.text.String()
}

type tree struct {
	names    map[trace.SpanID]string
	children map[trace.SpanID][]sdktrace.ReadOnlySpan
	numbers  map[trace.TraceID]int // of traces, from 1
	text     strings.Builder
}

func (t *tree) below(s sdktrace.ReadOnlySpan, indent string) {
	below := t.children[s.SpanContext().SpanID()]
	for i, c := range below {
		branch, next := "├ ", "│ "
		if i == len(below)-1 {
			branch, next = "└ ", "  "
		}
		fmt.Fprintf(&t.text, "%s%s%s\n", indent, branch, t.line(c))
		t.below(c, indent+next)
	}
}

func (t *tree) line(s sdktrace.ReadOnlySpan) string {
	var line strings.Builder
	line.WriteString(s.Name())
	for _, a := range s.Attributes() {
		if a.Key == "distributed_lock.outcome" {
			line.WriteString(" " + a.Value.AsString())
		}
	}
	if s.Status().Code == codes.Error {
		line.WriteString(" Error")
	}
	for _, l := range s.Links() {
		if name, known := t.names[l.SpanContext.SpanID()]; known {
			fmt.Fprintf(&line, ", held by %s of %d", name, t.numbers[l.SpanContext.TraceID()])
		} else {
			line.WriteString(", held elsewhere")
		}
	}
	return line.String()
}
