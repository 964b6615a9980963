package grpcguard_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// want is an answer as the client sees it. Delays are a range that includes the
// jitter, 0 for none.
type want struct {
	code           codes.Code
	reason         string // "" for no ErrorInfo
	retryFrom      time.Duration
	retryTo        time.Duration
	pushback       bool // the delay
	forbidden      bool // pushback -1
	handlerRan     bool
	is             error // what an interceptor around sees
	message        string
	releasedBefore bool
}

func (w want) check(t *testing.T, err error, trailer metadata.MD) {
	t.Helper()
	st := status.Convert(err)
	require.Equal(t, w.code, st.Code(), "%v", err)
	if w.message != "" {
		assert.Equal(t, w.message, st.Message())
	}
	assert.NotContains(t, st.Message(), "order/7", "the client must not see the lock's name")
	assert.NotContains(t, st.Message(), "secret", "the client must not see the holder")
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	assert.Equal(t, w.reason, info.GetReason())
	if w.reason != "" {
		assert.Equal(t, "github.com/holdfast-go/holdfast", info.GetDomain())
		assert.Empty(t, info.GetMetadata())
	}
	if assert.Equal(t, w.retryTo > 0, retry != nil, "RetryInfo") && retry != nil {
		d := retry.GetRetryDelay().AsDuration()
		assert.GreaterOrEqual(t, d, w.retryFrom)
		assert.LessOrEqual(t, d, w.retryTo)
	}
	switch got := trailer.Get("grpc-retry-pushback-ms"); {
	case w.forbidden:
		assert.Equal(t, []string{"-1"}, got)
	case w.pushback:
		assert.Equal(t, []string{strconv.FormatInt(retry.GetRetryDelay().AsDuration().Milliseconds(), 10)}, got)
	default:
		assert.Empty(t, got)
	}
}

// Delays of a lock of which more than 5 s are left, and of a service that is
// not reachable.
var (
	heldFor5s = want{code: codes.Aborted, reason: "CONTENDED", retryFrom: 5 * time.Second, retryTo: 6250 * time.Millisecond, pushback: true, is: guard.ErrHeld}
	noService = want{code: codes.Unavailable, reason: "UNAVAILABLE", retryFrom: time.Second, retryTo: 2 * time.Second, is: guard.ErrUnavailable}
	lostLease = want{code: codes.Internal, reason: "LOST", forbidden: true, handlerRan: true, is: guard.ErrLost}
)

func TestEverySituationHasItsAnswer(t *testing.T) {
	for _, s := range situations() {
		for _, method := range []string{unary, download, upload, duplex} {
			t.Run(s.name+method, func(t *testing.T) { s.run(t, method) })
		}
	}
}

func (s situation) run(t *testing.T, method string) {
	w := start(t, setup{policies: s.policies})
	ran := make(chan bool, 10)
	w.service.unary = func(ctx context.Context, _ *testpb.SimpleRequest) error {
		ran <- true
		if s.during != nil {
			s.during(t, w)
		}
		if s.handler != nil {
			return s.handler(w, ctx)
		}
		return nil
	}
	w.stream = func(ss grpc.ServerStream) error { return w.service.unary(ss.Context(), nil) }
	if s.prepare != nil {
		s.prepare(t, w)
	}
	trailer, err := w.call(t.Context(), t, method)
	s.want.check(t, err, trailer)
	assert.Equal(t, s.want.handlerRan, len(ran) == 1, "handler ran")
	a := w.next(t)
	if s.want.is != nil {
		require.ErrorIs(t, a.err, s.want.is)
	}
	if s.want.releasedBefore {
		assert.True(t, a.free, "the lock is free when the call is over")
	}
}

func TestClientThatLeavesWhileItWaitsIsCancelled(t *testing.T) {
	for method := range descs {
		t.Run(method, func(t *testing.T) {
			w := start(t, setup{})
			w.store.rival(t, time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.open(ctx, t, method, new(metadata.MD))
			eventually(t, "the call waits", func() bool { return w.seen.saw(guard.Waiting) })
			cancel()
			a := w.next(t)
			assert.Equal(t, codes.Canceled, status.Code(a.err))
			require.ErrorIs(t, a.err, context.Canceled)
			assert.Equal(t, guard.ResultCanceled, w.seen.ends()[0].Result)
		})
	}
}

func TestDeadlineThatPassesBeforeTheHandlerRunsIsDeadlineExceeded(t *testing.T) {
	entered := make(chan bool, 16)
	w := start(t, setup{rules: func(c *guard.Class) []grpcguard.Rule {
		return []grpcguard.Rule{grpcguard.Method(unary, func(ctx context.Context, _ *testpb.SimpleRequest) (guard.Name, error) {
			entered <- true
			<-ctx.Done()
			return c.Name("7"), nil
		})}
	}})
	untilEntered(t, entered, func(ctx context.Context) {
		_, err := testpb.NewTestServiceClient(w.conn).UnaryCall(ctx, &testpb.SimpleRequest{})
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	})
	a := w.next(t)
	// Client and server count by themselves, so the server may learn of the end from the client.
	assert.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Canceled}, status.Code(a.err))
	assert.Zero(t, w.seen.count(guard.Granted))
}

func TestHandlersPanicPassesThroughAfterTheRelease(t *testing.T) {
	for method := range descs {
		t.Run(method, func(t *testing.T) {
			w := start(t, setup{})
			w.service.unary = func(context.Context, *testpb.SimpleRequest) error { panic(errPlain) }
			w.stream = func(grpc.ServerStream) error { panic(errPlain) }
			_, err := w.call(t.Context(), t, method)
			assert.Equal(t, codes.Unknown, status.Code(err), "the answer of the recovery")
			a := w.next(t)
			assert.Equal(t, errPlain, a.panic)
			assert.True(t, a.free)
			assert.Equal(t, "panic", w.seen.ends()[0].ErrorType)
		})
	}
}

func TestUnlistedMethodsPassWithoutALock(t *testing.T) {
	w := start(t, setup{rules: func(c *guard.Class) []grpcguard.Rule {
		return []grpcguard.Rule{grpcguard.Metadata(unary, c, "order"), grpcguard.Metadata(upload, c, "order")}
	}})
	_, err := testpb.NewTestServiceClient(w.conn).EmptyCall(t.Context(), &testpb.Empty{})
	require.NoError(t, err)
	for _, method := range []string{download, duplex} {
		_, err = w.call(t.Context(), t, method)
		require.NoError(t, err)
	}
	begun, _ := w.seen.total()
	assert.Zero(t, begun)
}
