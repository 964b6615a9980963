package otelx_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/otelx"
)

// everything makes each instrument measure something.
func everything(t *testing.T, o guard.Observer) {
	t.Helper()
	c := guard.Call{Name: "order/42", Class: "order", TTL: time.Second, At: time.Now()}
	ctx := otherSpan(o.Begin(t.Context(), c))
	for _, e := range []guard.Event{
		{Kind: guard.Waiting, Holder: &guard.HeldError{Token: 1}},
		{Kind: guard.Granted, Token: 2},
		{Kind: guard.Renewed, Token: 2},
		{Kind: guard.Stale, Token: 2, Err: &fence.StaleError{Name: c.Name, Presented: 2, Seen: 3}},
	} {
		e.Call, e.At = c, c.At
		o.Event(ctx, e)
	}
	o.End(ctx, guard.Outcome{Call: c, Result: guard.ResultAfterWait, Token: 2, Attempts: 2, ErrorType: "fence_stale"})
}

// otherSpan is what an observer further in does to a context.
func otherSpan(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
}

func TestInstrumentsAreTheseSix(t *testing.T) {
	tel := newTelemetry()
	everything(t, tel)
	type instrument struct{ kind, unit string }
	got := map[string]instrument{}
	bounds := map[string][]float64{}
	for _, m := range tel.collect(t) {
		i := instrument{unit: m.Unit}
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			i.kind = "histogram"
			bounds[short(m.Name)] = data.DataPoints[0].Bounds
		case metricdata.Sum[int64]:
			i.kind = "up-down counter"
			if data.IsMonotonic {
				i.kind = "counter"
			}
		}
		got[m.Name] = i
		assert.NotEmpty(t, m.Description, m.Name)
	}
	assert.Equal(t, map[string]instrument{
		"distributed_lock.acquire.duration": {"histogram", "s"},
		"distributed_lock.hold.duration":    {"histogram", "s"},
		"distributed_lock.waiter.count":     {"up-down counter", "{waiter}"},
		"distributed_lock.lease.count":      {"up-down counter", "{lease}"},
		"distributed_lock.renewals":         {"counter", "{renewal}"},
		"distributed_lock.fence.rejections": {"counter", "{rejection}"},
	}, got)
	assert.Equal(t, map[string][]float64{
		"acquire.duration": {.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		"hold.duration":    {.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300},
	}, bounds)

	var data metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &data))
	assert.Equal(t, otelx.ScopeName, data.ScopeMetrics[0].Scope.Name)
	assert.Contains(t, data.ScopeMetrics[0].Scope.SchemaURL, "https://opentelemetry.io/schemas/")
}

func TestWaitersAndLeasesAreCountedWhileTheyLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry())
		leave := s.rival(t, time.Minute)
		inside := make(chan struct{})
		go func() {
			_ = guard.Do(t.Context(), s.name(), func(context.Context) error {
				<-inside
				return nil
			})
		}()
		synctest.Wait()
		assert.Equal(t, []string{"waiter.count +1"}, s.metrics(t))
		leave()
		synctest.Wait()
		assert.Equal(t, []string{"acquire.duration outcome=acquired_after_wait n=1 sum=0s", "lease.count +1"}, s.metrics(t),
			"acquire.duration does not wait for the work")
		close(inside)
		synctest.Wait()
		assert.Len(t, s.metrics(t), 2)
	})
}

// Each way out leaves the counts where they were, whatever order events from
// several goroutines arrive in.
func TestCountsAreBalancedInEveryOrder(t *testing.T) {
	const (
		waiting  = guard.Waiting
		granted  = guard.Granted
		lost     = guard.Lost
		handedOn = guard.HandedOn
	)
	for _, kinds := range [][]guard.Kind{
		{}, {waiting}, {waiting, waiting}, {granted}, {waiting, granted}, {granted, lost}, {lost, granted},
		{waiting, granted, handedOn}, {waiting, waiting, granted, lost, lost}, {lost},
	} {
		tel := newTelemetry()
		c := guard.Call{Name: "order/42", Class: "order", At: time.Now()}
		ctx := tel.Begin(t.Context(), c)
		for _, k := range kinds {
			tel.Event(ctx, guard.Event{Call: c, At: c.At, Kind: k})
		}
		if slices.Contains(kinds, lost) {
			assert.Empty(t, tel.counts(t, "lease.count"), kinds)
		}
		tel.End(ctx, guard.Outcome{Call: c, Result: guard.ResultCanceled})
		assert.Empty(t, tel.counts(t, "waiter.count"), kinds)
		assert.Empty(t, tel.counts(t, "lease.count"), kinds)
	}
}

func TestLossFromAnotherGoroutineKeepsCountsBalanced(t *testing.T) {
	tel := newTelemetry()
	for range 100 {
		c := guard.Call{Name: "order/42", Class: "order", At: time.Now()}
		ctx := tel.Begin(t.Context(), c)
		var loss sync.WaitGroup
		loss.Go(func() { tel.Event(ctx, guard.Event{Call: c, Kind: guard.Lost}) })
		tel.Event(ctx, guard.Event{Call: c, At: c.At, Kind: guard.Granted})
		loss.Wait()
		tel.End(ctx, guard.Outcome{Call: c, Result: guard.ResultAcquired})
	}
	assert.Empty(t, tel.counts(t, "lease.count"))
}

func TestCountsAreBalancedAfterAStorm(t *testing.T) {
	s := newScene(t, newTelemetry(), guard.Wait(20*time.Millisecond), guard.MaxWaiters(8))
	var wg sync.WaitGroup
	const calls = 500
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(30*time.Millisecond))))
		do := func() { _ = guard.Do(ctx, s.orders.Name(fmt.Sprint(rand.IntN(3))), sleep(time.Millisecond)) }
		if rand.IntN(4) == 0 {
			do = func() { _, _ = guard.Try(ctx, s.name(), nothing) }
		}
		wg.Go(func() {
			defer cancel()
			do()
		})
	}
	wg.Wait()
	require.NoError(t, s.guard.Close(t.Context()))
	assert.Empty(t, s.counts(t, "waiter.count"))
	assert.Empty(t, s.counts(t, "lease.count"))
	var acquired uint64
	for _, m := range s.collect(t) {
		if data, ok := m.Data.(metricdata.Histogram[float64]); ok && strings.HasSuffix(m.Name, "acquire.duration") {
			for _, p := range data.DataPoints {
				acquired += p.Count
			}
		}
	}
	assert.Equal(t, uint64(calls), acquired, "every call is counted once")
	assert.Len(t, s.spans.Started(), len(s.spans.Ended()))
}

func TestMeasurementsPointToTheirOwnSpan(t *testing.T) {
	tel := newTelemetry()
	everything(t, tel)
	want := tel.span(t, "lock order").SpanContext().SpanID()
	exemplars := 0
	for _, m := range tel.collect(t) {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, e := range data.DataPoints[0].Exemplars {
				exemplars++
				assert.Equal(t, want[:], e.SpanID, m.Name)
			}
		case metricdata.Sum[int64]:
			for _, e := range data.DataPoints[0].Exemplars {
				exemplars++
				assert.Equal(t, want[:], e.SpanID, m.Name)
			}
		}
	}
	assert.GreaterOrEqual(t, exemplars, 6)
}

// Names, holders and errors come from outside. None of them makes a series.
func TestTenThousandNamesMakeAFewSeries(t *testing.T) {
	tel := newTelemetry()
	g, err := guard.New(newScene(t, tel).faults, guard.Observe(tel))
	require.NoError(t, err)
	classes := []*guard.Class{guard.Must(g.Class("order")), guard.Must(g.Class("user"))}
	for i := range 10_000 {
		secret := fmt.Sprintf("secret-%x", rand.Uint64())
		name := g.Name(secret)
		if i%3 > 0 {
			name = classes[i%3-1].Name(secret)
		}
		require.NoError(t, guard.Do(t.Context(), name, func(ctx context.Context) error {
			if i%10 == 0 {
				_, _ = guard.Try(context.WithoutCancel(t.Context()), name, nothing)
				_ = guard.Do(ctx, name, nothing)
			}
			return nil
		}))
	}
	for i := range 1000 { // a store may say anything
		c := guard.Call{Name: fmt.Sprintf("secret-%d", i), Class: "order"}
		odd := &strangeError{fmt.Sprintf("secret-%d", i)}
		ctx := tel.Begin(t.Context(), c)
		for _, k := range []guard.Kind{guard.RenewFailed, guard.Lost, guard.Stale, guard.ReleaseFailed, guard.Kind(200)} {
			tel.Event(ctx, guard.Event{Call: c, Kind: k, Err: odd})
		}
		tel.End(ctx, guard.Outcome{Call: c, Result: odd.kind, ErrorType: odd.kind, Err: odd})
	}
	tel.fewSeries(t)
	tel.Event(t.Context(), guard.Event{Call: guard.Call{Class: "order"}, Kind: guard.RenewFailed, Err: &strangeError{""}})
	assert.Contains(t, tel.metrics(t), "renewals error.type=_OTHER +2001")
	for _, span := range tel.all() {
		assert.NotContains(t, span.Name(), "secret")
	}
}

// fewSeries checks that nothing that came from outside got into a metric.
func (tel *telemetry) fewSeries(t *testing.T) {
	t.Helper()
	for _, m := range tel.collect(t) {
		sets := pointsOf(m)
		assert.LessOrEqual(t, len(sets), 60, m.Name)
		for _, set := range sets {
			assert.NotContains(t, fmt.Sprint(set.ToSlice()), "secret", m.Name)
		}
	}
}

type strangeError struct{ kind string }

func (e *strangeError) Error() string     { return e.kind }
func (e *strangeError) ErrorType() string { return e.kind }

func TestClassesBeyondTheHundredthShareOneSeries(t *testing.T) {
	tel := newTelemetry()
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			c := guard.Call{Name: "x", Class: fmt.Sprint("class", i)}
			tel.Event(t.Context(), guard.Event{Call: c, Kind: guard.Renewed})
		})
	}
	wg.Wait()
	sets := pointsOf(tel.collect(t)[0])
	assert.Len(t, sets, 101)
	assert.Contains(t, sets, attribute.NewSet(attribute.String("distributed_lock.class", "_OTHER")))
	assert.Contains(t, tel.metrics(t), "renewals class=_OTHER +900")
}
