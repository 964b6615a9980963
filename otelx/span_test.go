package otelx_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/otelx"
)

func TestSpansSayWhichLockWhenAndHowItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry())
		time.AfterFunc(250*time.Millisecond, s.rival(t, time.Minute))
		began := time.Now()
		var token fence.Token
		var parent string
		require.NoError(t, guard.Do(t.Context(), s.name(), func(ctx context.Context) error {
			token, parent = fence.From(ctx), idOf(ctx)
			time.Sleep(time.Second)
			return nil
		}))

		lock, wait := s.span(t, "lock order"), s.span(t, "wait order")
		assert.Equal(t, lock.SpanContext().SpanID().String(), parent, "the work runs under the lock span")
		assert.Equal(t, trace.SpanKindInternal, lock.SpanKind())
		assert.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("distributed_lock.class", "order"),
			attribute.String("distributed_lock.name", "order/42"),
			attribute.String("distributed_lock.outcome", "acquired_after_wait"),
			attribute.Int("distributed_lock.attempts", 2),
			attribute.Float64("distributed_lock.ttl", 3),
			attribute.Int64("distributed_lock.fencing_token", int64(token)),
		}, lock.Attributes())
		assert.Equal(t, began, lock.StartTime())
		assert.Equal(t, began.Add(1250*time.Millisecond), lock.EndTime())
		assert.Empty(t, lock.Events())

		assert.Equal(t, lock.SpanContext().SpanID(), wait.Parent().SpanID())
		assert.Equal(t, trace.SpanKindInternal, wait.SpanKind())
		assert.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("distributed_lock.class", "order"),
			attribute.String("distributed_lock.name", "order/42"),
			attribute.String("distributed_lock.outcome", "acquired_after_wait"),
			attribute.Float64("distributed_lock.ttl", 3),
		}, wait.Attributes())
		assert.Equal(t, began, wait.StartTime())
		assert.Equal(t, began.Add(250*time.Millisecond), wait.EndTime())
		assert.Empty(t, wait.Events())

		require.Len(t, wait.Links(), 1)
		link := wait.Links()[0]
		assert.Equal(t, rivalsRun, fmt.Sprintf("00-%s-%s-%s", link.SpanContext.TraceID(), link.SpanContext.SpanID(), link.SpanContext.TraceFlags()))
		require.Len(t, link.Attributes, 1)
		assert.Equal(t, attribute.Key("distributed_lock.fencing_token"), link.Attributes[0].Key)
		assert.Positive(t, link.Attributes[0].Value.AsInt64())
		assert.Less(t, link.Attributes[0].Value.AsInt64(), int64(token))

		assert.Equal(t, otelx.ScopeName, lock.InstrumentationScope().Name)
		assert.Contains(t, lock.InstrumentationScope().SchemaURL, "https://opentelemetry.io/schemas/")
	})
}

func TestLockWithoutClassHasBareSpanNamesAndNoClassAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry())
		s.rival(t, time.Minute)
		require.ErrorIs(t, guard.Do(t.Context(), s.guard.Name("order", "42").Wait(time.Second), nothing), guard.ErrHeld)
		for _, span := range []sdktrace.ReadOnlySpan{s.span(t, "lock"), s.span(t, "wait")} {
			_, found := attr(span.Attributes(), "distributed_lock.class")
			assert.False(t, found)
		}
		for _, m := range s.collect(t) {
			for _, set := range pointsOf(m) {
				assert.False(t, set.HasValue("distributed_lock.class"), m.Name)
			}
		}
	})
}

func TestErrorOfTheLockIsTheDescriptionOfTheSpan(t *testing.T) {
	s := newScene(t, newTelemetry())
	s.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, broken() }
	_, err := guard.Try(t.Context(), s.name(), nothing)
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: err.Error()}, s.span(t, "lock order").Status())
}

// A name may be a person's: with HideNames it leaves the process nowhere.
func TestHiddenNamesAppearNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := captureLog(t)
		for _, hide := range []bool{false, true} {
			log.Reset()
			var opts []otelx.Option
			if hide {
				opts = append(opts, otelx.HideNames())
			}
			s := newScene(t, newTelemetry(opts...), guard.Wait(500*time.Millisecond), guard.ReleaseWithin(time.Millisecond))
			secret := s.orders.Name("jane", "1") // held for less than it takes to be renewed
			s.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
			require.ErrorIs(t, guard.Do(t.Context(), s.orders.Name("jane's"), untilDone), guard.ErrLost)
			h, err := guard.Acquire(t.Context(), secret)
			require.NoError(t, err)
			require.ErrorIs(t, guard.Do(t.Context(), secret, nothing), guard.ErrHeld)
			s.release = func(context.Context, guard.Lease) error { return fmt.Errorf("%w: jane", broken()) }
			require.NoError(t, h.Release())
			require.NoError(t, s.guard.Close(t.Context()))

			var seen strings.Builder
			for _, span := range s.all() {
				fmt.Fprintln(&seen, span.Name(), span.Attributes(), span.Status(), span.Links(), span.Events())
			}
			fmt.Fprintln(&seen, s.metrics(t), log)
			assert.Len(t, s.all(), 4)
			assert.Contains(t, log.String(), "lock lost")
			assert.Contains(t, log.String(), "lock not released")
			assert.Equal(t, hide, !strings.Contains(seen.String(), "jane"), seen.String())
		}
	})
}

func TestNoHolderLinkStoresNothingAndLinksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry(otelx.NoHolderLink()), guard.Wait(time.Second))
		stored := s.storedTraces()
		require.NoError(t, guard.Do(t.Context(), s.name(), nothing))
		assert.Equal(t, []string{""}, *stored)
		s.rival(t, time.Minute)
		require.ErrorIs(t, guard.Do(t.Context(), s.name(), nothing), guard.ErrHeld)
		_, _ = guard.Try(t.Context(), s.name(), nothing)
		for _, span := range s.all() {
			assert.Empty(t, span.Links())
		}
	})
}

func TestOnlyTheTraceparentOfASampledSpanIsStored(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=tenant-7")
	require.NoError(t, err)
	member, err := baggage.NewMember("user", "jane")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	caller := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceState: state, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	ctx := baggage.ContextWithBaggage(trace.ContextWithRemoteSpanContext(t.Context(), caller), bag)

	s := newScene(t, newTelemetry())
	stored := s.storedTraces()
	require.NoError(t, guard.Do(ctx, s.name(), nothing))
	span := s.span(t, "lock order").SpanContext()
	assert.Equal(t, caller.TraceID(), span.TraceID())
	assert.Equal(t, []string{fmt.Sprintf("00-%s-%s-01", span.TraceID(), span.SpanID())}, *stored)

	for _, unsampled := range []sdktrace.Sampler{sdktrace.NeverSample(), recordOnly{}} {
		tel := newTelemetry()
		tel.Observer = otelx.New(otelx.MeterProvider(tel.meters),
			otelx.TracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(unsampled))))
		s = newScene(t, tel)
		stored = s.storedTraces()
		require.NoError(t, guard.Do(ctx, s.name(), nothing))
		assert.Equal(t, []string{""}, *stored)
		assert.Len(t, s.metrics(t), 2, "metrics do not depend on sampling")
	}
}

type recordOnly struct{}

func (recordOnly) Description() string { return "record only" }
func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}

// storedTraces collects what goes to the store beside a lease.
func (s *scene) storedTraces() *[]string {
	var stored []string
	s.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
		stored = append(stored, r.Trace)
		return s.Locker.Acquire(ctx, r)
	}
	return &stored
}

func TestWaitIsLinkedToTheFirstEightDistinctHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry())
		var met int
		s.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			if met == 22 {
				return s.Locker.Acquire(ctx, r)
			}
			met++
			held := &guard.HeldError{Name: r.Name, Token: fence.Token(met), RetryIn: time.Millisecond}
			if n := met / 2; n < 11 { // each one passes the lease on once
				held.Trace = fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", n+1)
			}
			return guard.Lease{}, held
		}
		require.NoError(t, guard.Do(t.Context(), s.name(), nothing))
		var ids []string
		for _, l := range s.span(t, "wait order").Links() {
			ids = append(ids, strings.TrimLeft(l.SpanContext.SpanID().String(), "0"))
		}
		assert.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7", "8"}, ids)
	})
}

func TestLeaseThatWasPassedOnKeepsTheTraceparentOfItsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry())
		var spans []string
		hold := func() {
			_ = guard.Do(t.Context(), s.name(), func(ctx context.Context) error {
				spans = append(spans, idOf(ctx))
				time.Sleep(10 * time.Millisecond)
				return nil
			})
		}
		go hold()
		synctest.Wait()
		go hold() // has the lease passed on after 10 ms
		time.Sleep(15 * time.Millisecond)
		synctest.Wait()
		require.Len(t, spans, 2)

		other := newTelemetry()
		g, err := guard.New(s.faults, guard.Observe(other))
		require.NoError(t, err)
		ran, err := guard.Try(t.Context(), g.Name("order", "42"), nothing)
		require.NoError(t, err)
		require.False(t, ran)
		assert.Equal(t, []string{"lock Unset outcome=refused attempts=1 -> " + spans[0]}, other.traces())
		require.NoError(t, s.guard.Close(t.Context()))
	})
}

func TestWhatIsNoTraceparentMakesNoLink(t *testing.T) {
	for _, stored := range []string{
		"", "x", "00", strings.Repeat("0", 64), "00-00000000000000000000000000000000-0000000000000000-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-zz", "\x00\xff\r\ntraceparent: 1",
	} {
		s := newScene(t, newTelemetry())
		s.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
			return guard.Lease{}, &guard.HeldError{Name: "order/42", Token: 1, Trace: stored}
		}
		ran, err := guard.Try(t.Context(), s.name(), nothing)
		require.NoError(t, err)
		assert.False(t, ran)
		assert.Equal(t, []string{"lock order Unset outcome=refused attempts=1"}, s.traces(), "%q", stored)
	}
}

// The error of a call that gave up knows the holder also when no event did.
func TestHolderThatOnlyTheErrorKnowsIsLinked(t *testing.T) {
	tel := newTelemetry()
	c := guard.Call{Name: "order/42", Class: "order", At: time.Now()}
	ctx := tel.Begin(t.Context(), c)
	err := fmt.Errorf("late: %w", &guard.HeldError{Name: c.Name, Token: 1, Trace: rivalsRun})
	tel.End(ctx, guard.Outcome{Call: c, Result: guard.ResultTimeout, ErrorType: "timeout", Err: err})
	assert.Equal(t, []string{
		"wait order Error outcome=timeout error.type=timeout -> " + rivalSpan,
		"lock order Error outcome=timeout attempts=0 error.type=timeout",
	}, tel.traces())
}

func TestLostLeaseAndFailedReleaseAreOneRecordUnderTheSpan(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(s *scene)
		want string
	}{
		{"lost", func(s *scene) {
			s.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
		}, `level=WARN msg="lock lost" token=946684800000000 reason=gone class=order lock=order/42 error=`},
		{"release failed", func(s *scene) {
			s.release = func(context.Context, guard.Lease) error { return broken() }
		}, `level=WARN msg="lock not released, it will expire" token=946684800000000 class=order lock=order/42 error=`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := captureLog(t)
				s := newScene(t, newTelemetry())
				tc.set(s)
				_ = guard.Do(t.Context(), s.name(), sleep(1500*time.Millisecond))
				require.NoError(t, s.guard.Close(t.Context()))
				require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
				assert.Contains(t, log.String(), tc.want)
				assert.Contains(t, log.String(), "span="+s.span(t, "lock order").SpanContext().SpanID().String())
			})
		})
	}
}

// captureLog makes slog's default logger write to a buffer, with the span that
// the record's context carries, for the rest of the test.
func captureLog(t *testing.T) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(withSpan{slog.NewTextHandler(&out, nil)}))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &out
}

type withSpan struct{ slog.Handler }

func (h withSpan) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("span", idOf(ctx)))
	return h.Handler.Handle(ctx, r)
}

func TestASpanUnderAQuorumHasTheNumberOfItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newTelemetry())
		quorum, err := guard.Quorum([]guard.Locker{memstore.New(), memstore.New(), memstore.New()})
		require.NoError(t, err)
		s.Locker = quorum
		require.NoError(t, guard.Do(t.Context(), s.name(), func(context.Context) error { return nil }))
		assert.Contains(t, s.span(t, "lock order").Attributes(), attribute.Int("distributed_lock.nodes", 3))
	})
}
