package grpcguard_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// ending is a way in which a call ends while its handler runs.
type ending struct {
	name   string
	policy []guard.Policy
	fault  bool                        // the lease is lost at the first renewal
	client func(w *world, stop func()) // what the client does once the handler runs
	handle func(error) error           // what the handler returns when it is to end
	code   codes.Code                  // of the server's answer
	panics bool
	lost   bool
}

func endings() []ending {
	same := func(err error) error { return err }
	return []ending{
		{name: "normal", handle: func(error) error { return nil }, code: codes.OK},
		{name: "error", handle: func(error) error { return status.Error(codes.NotFound, "") }, code: codes.NotFound},
		{name: "panic", handle: func(error) error { panic("boom") }, code: codes.Unknown, panics: true},
		{name: "client cancels", client: func(_ *world, stop func()) { stop() }, handle: same, code: codes.Canceled},
		{name: "connection is cut", client: func(w *world, _ func()) { _ = (<-w.sockets).Close() }, handle: same, code: codes.Canceled},
		{
			name: "lease is lost", policy: []guard.Policy{guard.TTL(100 * time.Millisecond)}, fault: true,
			client: func(*world, func()) {}, handle: same, code: codes.Internal, lost: true,
		},
	}
}

// TestLockLivesExactlyAsLongAsTheHandler is every end of every kind of call,
// with a handler that reads the stream until something happens.
func TestLockLivesExactlyAsLongAsTheHandler(t *testing.T) {
	for _, e := range endings() {
		for method := range descs {
			t.Run(e.name+method, func(t *testing.T) { e.run(t, method) })
		}
	}
}

func (e ending) run(t *testing.T, method string) {
	w := start(t, setup{policies: e.policy, rules: byMetadata})
	if e.fault {
		w.store.renew = func(_ context.Context, l guard.Lease) (guard.Lease, error) { return guard.Lease{}, over(l) }
	}
	entered := make(chan bool)
	w.service.unary = func(ctx context.Context, _ *testpb.SimpleRequest) error {
		assert.True(t, guard.Holds(ctx, w.class.Name("7")))
		assert.False(t, w.store.free(), "held while the handler runs")
		entered <- true
		if e.client == nil {
			return e.handle(nil)
		}
		<-ctx.Done()
		return e.handle(ctx.Err())
	}
	w.stream = func(ss grpc.ServerStream) error {
		if !descs[method].ClientStreams {
			return w.service.unary(ss.Context(), nil)
		}
		in := request(method, "")
		assert.NoError(t, ss.RecvMsg(in))
		entered <- true
		if e.client == nil {
			return e.handle(nil)
		}
		err := ss.RecvMsg(in)
		<-ss.Context().Done() // of a connection, gRPC tells RecvMsg first
		assert.Equal(t, e.lost, errors.Is(err, guard.ErrLost), "%v", err)
		return e.handle(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var trailer metadata.MD
	cs := w.open(ctx, t, method, &trailer)
	<-entered
	if e.client != nil {
		e.client(w, cancel)
	}
	a := w.next(t)
	assert.Equal(t, e.code, codeOf(a.err), "%v", a.err)
	assert.Equal(t, e.panics, a.panic != nil)
	if e.lost {
		lostLease.check(t, end(cs, method), trailer)
		eventually(t, "the lease is given back in the background", w.store.free)
	} else {
		assert.True(t, a.free, "given back before the answer left")
	}
	begun, ends := w.seen.total()
	assert.Equal(t, []int{1, 1}, []int{begun, ends})
}

func TestDeadlineOfAStreamEndsItsHandlerAndItsLock(t *testing.T) {
	for method := range descs {
		t.Run(method, func(t *testing.T) {
			w := start(t, setup{})
			entered := make(chan bool, 16)
			w.service.unary = func(ctx context.Context, _ *testpb.SimpleRequest) error {
				entered <- true
				<-ctx.Done()
				return ctx.Err()
			}
			w.stream = func(ss grpc.ServerStream) error { return w.service.unary(ss.Context(), nil) }
			untilEntered(t, entered, func(ctx context.Context) {
				_, err := w.call(ctx, t, method)
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
			})
			w.settle(t)
		})
	}
}

func TestClientThatCancelsBeforeItsFirstMessageLeavesNothing(t *testing.T) {
	for name, rules := range map[string]func(*guard.Class) []grpcguard.Rule{"key in the message": everything, "key in the metadata": byMetadata} {
		for method := range descs {
			t.Run(name+method, func(t *testing.T) {
				w := start(t, setup{rules: rules})
				w.stream = func(ss grpc.ServerStream) error { return ss.RecvMsg(request(method, "")) }
				ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "order", "7"))
				defer cancel()
				_, err := w.conn.NewStream(ctx, descs[method], method)
				require.NoError(t, err)
				if method != unary { // whose interceptors run once the message is there
					eventually(t, "the call is at the server", func() bool { return w.arrived.Load() > 0 })
				}
				cancel()
				if method != unary {
					a := w.next(t)
					assert.Equal(t, codes.Canceled, status.Code(a.err))
					assert.True(t, a.free)
				}
				begun, ends := w.seen.total()
				assert.Equal(t, begun, ends)
			})
		}
	}
}

// Goroutines are looked at when the server is closed, and in between: it must
// not be the end of the server that ends them.
func TestThousandCancelledStreamsLeaveNothing(t *testing.T) {
	w := start(t, setup{policies: []guard.Policy{guard.TTL(time.Minute)}})
	w.stream = func(ss grpc.ServerStream) error {
		for {
			if err := ss.RecvMsg(request(duplex, "")); err != nil {
				return noEOF(err)
			}
			if err := ss.SendMsg(reply(duplex)); err != nil {
				return err
			}
		}
	}
	for range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		cs := w.open(ctx, t, duplex, new(metadata.MD))
		switch rand.N(3) {
		case 0:
			require.NoError(t, cs.RecvMsg(reply(duplex)))
		case 1:
			time.Sleep(rand.N(300 * time.Microsecond))
		}
		cancel()
	}
	_, err := w.call(t.Context(), t, duplex) // comes after all the others
	require.NoError(t, err)
	w.settle(t)
}

func TestEveryMessageArrivesOnceAndInOrder(t *testing.T) {
	for name, rules := range map[string]func(*guard.Class) []grpcguard.Rule{"key in the message": everything, "key in the metadata": byMetadata} {
		t.Run(name, func(t *testing.T) {
			w := start(t, setup{rules: rules})
			var got []string
			w.stream = func(ss grpc.ServerStream) error {
				in := &testpb.StreamingOutputCallRequest{ResponseType: testpb.PayloadType_COMPRESSABLE, ResponseParameters: []*testpb.ResponseParameters{{Size: 1}}}
				for {
					switch err := ss.RecvMsg(in); {
					case errors.Is(err, io.EOF):
						return nil
					case err != nil:
						return err
					}
					assert.Empty(t, in.GetResponseParameters(), "a message replaces what was there")
					got = append(got, string(in.GetPayload().GetBody()))
				}
			}
			cs := w.open(t.Context(), t, duplex, new(metadata.MD))
			for _, body := range []string{"8", "9"} {
				require.NoError(t, cs.SendMsg(request(duplex, body)))
			}
			require.NoError(t, cs.CloseSend())
			require.NoError(t, end(cs, duplex))
			assert.Equal(t, []string{"7", "8", "9"}, got)
		})
	}
}

func TestStreamThatEndsWithoutAMessageHasNoKey(t *testing.T) {
	w := start(t, setup{})
	cs, err := w.conn.NewStream(t.Context(), descs[duplex], duplex)
	require.NoError(t, err)
	require.NoError(t, cs.CloseSend())
	want{code: codes.InvalidArgument, reason: "INVALID", message: "the stream ended before its first message"}.check(t, end(cs, duplex), cs.Trailer())
}

func TestNothingIsSentOnceTheLeaseIsLost(t *testing.T) {
	w := start(t, setup{policies: []guard.Policy{guard.TTL(100 * time.Millisecond)}})
	w.store.renew = func(_ context.Context, l guard.Lease) (guard.Lease, error) { return guard.Lease{}, over(l) }
	w.stream = func(ss grpc.ServerStream) error {
		if err := ss.SendMsg(reply(duplex)); err != nil {
			return err
		}
		<-ss.Context().Done()
		assert.ErrorIs(t, ss.SendMsg(reply(duplex)), guard.ErrLost)
		assert.ErrorIs(t, ss.RecvMsg(request(duplex, "")), guard.ErrLost)
		return nil
	}
	var trailer metadata.MD
	cs := w.open(t.Context(), t, duplex, &trailer)
	require.NoError(t, cs.RecvMsg(reply(duplex)), "sent before the loss")
	lostLease.check(t, cs.RecvMsg(reply(duplex)), trailer)
}

// panicky is a stream of an interceptor further out that fails in RecvMsg.
type panicky struct{ grpc.ServerStream }

func (p panicky) RecvMsg(any) error { panic(errPlain) }

func TestPanicInRecvMsgReachesTheRecoveryOfTheServer(t *testing.T) {
	w := start(t, setup{rules: byMetadata, options: func(g *grpcguard.Guard) []grpc.ServerOption {
		return append([]grpc.ServerOption{grpc.ChainStreamInterceptor(
			func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				return handler(srv, panicky{ss})
			},
		)}, g.ServerOptions()...)
	}})
	w.stream = func(ss grpc.ServerStream) error { return ss.RecvMsg(request(duplex, "")) }
	_, _ = w.call(t.Context(), t, duplex)
	a := w.next(t)
	assert.Equal(t, errPlain, a.panic)
	assert.True(t, a.free)
}
