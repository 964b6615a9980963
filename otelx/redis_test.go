package otelx_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Two processes, one Redis: whoever waits, or is refused, in one of them is
// linked to the span that holds the lock in the other.
func TestWaiterIsLinkedToTheHolderInAnotherProcess(t *testing.T) {
	server := redistest.Start(t)
	tel := newTelemetry()
	met := make(chan struct{}, 1)
	store, err := redisstore.New(server.Client(t))
	require.NoError(t, err)
	name := func(opts ...guard.Option) guard.Name {
		return guard.Must(guard.Must(guard.New(store, opts...)).Class("order")).Name("42")
	}

	other := part("holder", server.Addr())
	span, leave := startHolder(t, other)

	ran, err := guard.Try(t.Context(), name(guard.Observe(tel)), nothing)
	require.NoError(t, err)
	require.False(t, ran)
	done := make(chan error, 1)
	go func() { done <- guard.Do(t.Context(), name(guard.Observe(tel, meeting(met))), nothing) }()
	<-met
	leave()
	require.NoError(t, <-done)
	require.NoError(t, other.Wait())

	require.Len(t, tel.all(), 3)
	for i, want := range []string{"lock order", "wait order"} { // refused, then waited
		s := tel.all()[i]
		assert.Equal(t, want, s.Name())
		require.Len(t, s.Links(), 1)
		link := s.Links()[0].SpanContext
		assert.Equal(t, span, fmt.Sprint(link.TraceID(), " ", link.SpanID()))
		assert.True(t, link.IsRemote())
	}
}

// startHolder runs a process that holds the lock, and returns its lock span and
// how to make it leave.
func startHolder(t *testing.T, cmd *exec.Cmd) (span string, leave func()) {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close() }) // ends it in any case
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line), func() { require.NoError(t, in.Close()) }
}

// holder holds the lock until its input ends, and says under which span.
func holder() {
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	store, err := redisstore.New(rdb)
	check(err)
	locks, err := guard.New(store, guard.Observe(newTelemetry()))
	check(err)
	orders, err := locks.Class("order")
	check(err)
	check(guard.Do(context.Background(), orders.Name("42"), func(ctx context.Context) error {
		span := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan) //nolint:forcetypeassert // ours
		if span.Name() != "lock order" {
			return fmt.Errorf("the work runs under %q", span.Name())
		}
		fmt.Println(span.SpanContext().TraceID(), span.SpanContext().SpanID())
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}))
	check(locks.Close(context.Background()))
}

// meeting says when a call has met a holder.
type meeting chan struct{}

func (m meeting) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }
func (m meeting) End(context.Context, guard.Outcome)                      {}
func (m meeting) Event(_ context.Context, e guard.Event) {
	if e.Kind == guard.Waiting {
		m <- struct{}{}
	}
}
