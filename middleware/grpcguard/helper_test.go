package grpcguard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// Methods of the service that gRPC generates for its own tests.
const (
	unary    = testpb.TestService_UnaryCall_FullMethodName
	download = testpb.TestService_StreamingOutputCall_FullMethodName
	upload   = testpb.TestService_StreamingInputCall_FullMethodName
	duplex   = testpb.TestService_FullDuplexCall_FullMethodName
	empty    = testpb.TestService_EmptyCall_FullMethodName
)

// lockName is what the rules of most tests make of the key 7.
const lockName = "order/7"

var descs = map[string]*grpc.StreamDesc{
	unary:    {},
	download: {ServerStreams: true},
	upload:   {ClientStreams: true},
	duplex:   {ClientStreams: true, ServerStreams: true},
}

func request(method, key string) proto.Message {
	body := &testpb.Payload{Body: []byte(key)}
	switch method {
	case unary:
		return &testpb.SimpleRequest{Payload: body}
	case upload:
		return &testpb.StreamingInputCallRequest{Payload: body}
	}
	return &testpb.StreamingOutputCallRequest{Payload: body}
}

func reply(method string) proto.Message {
	switch method {
	case unary:
		return &testpb.SimpleResponse{}
	case upload:
		return &testpb.StreamingInputCallResponse{}
	}
	return &testpb.StreamingOutputCallResponse{}
}

// service gives every method the same two handlers. A nil one succeeds.
type service struct {
	testpb.UnimplementedTestServiceServer
	unary  func(ctx context.Context, in *testpb.SimpleRequest) error
	stream func(s grpc.ServerStream) error
}

func (s *service) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if s.unary == nil {
		return &testpb.SimpleResponse{}, nil
	}
	return &testpb.SimpleResponse{}, s.unary(ctx, in)
}

func (s *service) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, nil
}

func (s *service) StreamingOutputCall(_ *testpb.StreamingOutputCallRequest, ss grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	return s.any(ss)
}

func (s *service) FullDuplexCall(ss grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	return s.any(ss)
}

func (s *service) StreamingInputCall(ss grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	if err := s.any(ss); err != nil {
		return err
	}
	return ss.SendAndClose(&testpb.StreamingInputCallResponse{})
}

func (s *service) any(ss grpc.ServerStream) error {
	if s.stream == nil {
		return nil
	}
	return s.stream(ss)
}

// answer is what left the interceptor.
type answer struct {
	err   error
	panic any
	free  bool // the lock, at that moment
	at    time.Time
}

// world is a server on loopback and its client.
type world struct {
	*service
	store *faults
	seen  *recorder
	locks *guard.Guard
	class *guard.Class

	conn    *grpc.ClientConn
	sockets chan net.Conn // of the client
	answers chan answer
	arrived atomic.Int32 // calls, before the interceptor
}

type setup struct {
	policies []guard.Policy
	rules    func(*guard.Class) []grpcguard.Rule
	options  func(*grpcguard.Guard) []grpc.ServerOption // both interceptors if nil
	client   []grpc.DialOption
}

// everything is rules for all methods by the key in the request.
func everything(c *guard.Class) []grpcguard.Rule {
	var rules []grpcguard.Rule
	for method := range descs {
		rules = append(rules, grpcguard.Field(method, c, "payload.body"))
	}
	return rules
}

// byMetadata is rules for all methods by the key in the metadata.
func byMetadata(c *guard.Class) []grpcguard.Rule {
	var rules []grpcguard.Rule
	for method := range descs {
		rules = append(rules, grpcguard.Metadata(method, c, "order"))
	}
	return rules
}

func start(t *testing.T, s setup) *world {
	t.Helper()
	redistest.Goroutines(t) // looks once all below is closed
	w := &world{
		service: &service{},
		store:   &faults{Locker: memstore.New()},
		seen:    &recorder{},
		sockets: make(chan net.Conn, 16),
		answers: make(chan answer, 1<<14),
	}
	var err error
	w.locks, err = guard.New(w.store, guard.Observe(w.seen))
	require.NoError(t, err)
	w.class, err = w.locks.Class("order", s.policies...)
	require.NoError(t, err)
	if s.rules == nil {
		s.rules = everything
	}
	g, err := grpcguard.New(s.rules(w.class)...)
	require.NoError(t, err)
	if s.options == nil {
		s.options = (*grpcguard.Guard).ServerOptions
	}

	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(w.outerUnary),
		grpc.ChainStreamInterceptor(w.outerStream),
	}, s.options(g)...)...)
	testpb.RegisterTestServiceServer(server, w.service)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop() // waits for handlers
		require.NoError(t, <-served)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, w.locks.Close(ctx))
	})

	w.conn, err = grpc.NewClient("passthrough:///"+lis.Addr().String(), append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err == nil {
				w.sockets <- c
			}
			return c, err
		}),
	}, s.client...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.conn.Close()) })
	return w
}

func (w *world) outerUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	w.arrived.Add(1)
	defer w.record(time.Now(), &err)
	return handler(ctx, req)
}

func (w *world) outerStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	w.arrived.Add(1)
	defer w.record(time.Now(), &err)
	return handler(srv, ss)
}

// record is the recovery of these servers too.
func (w *world) record(at time.Time, err *error) {
	a := answer{panic: recover(), at: at}
	if a.panic != nil {
		*err = status.Error(codes.Unknown, "recovered")
	}
	a.err, a.free = *err, w.store.free()
	w.answers <- a
}

// next is the next answer of the server, whether or not the client got it.
func (w *world) next(t *testing.T) answer {
	t.Helper()
	select {
	case a := <-w.answers:
		return a
	case <-time.After(10 * time.Second):
		require.FailNow(t, "the call has no answer")
		return answer{}
	}
}

// begin begins a call of a method of any kind and sends its first message.
func (w *world) begin(ctx context.Context, method string, trailer *metadata.MD) (grpc.ClientStream, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "order", "7")
	cs, err := w.conn.NewStream(ctx, descs[method], method, grpc.Trailer(trailer))
	if err != nil {
		return nil, err
	}
	err = cs.SendMsg(request(method, "7"))
	if err == nil && !descs[method].ClientStreams {
		err = cs.CloseSend()
	}
	return cs, noEOF(err) // has its answer already: RecvMsg tells which
}

// open is begin for a call that is sure to begin.
func (w *world) open(ctx context.Context, t *testing.T, method string, trailer *metadata.MD) grpc.ClientStream {
	t.Helper()
	cs, err := w.begin(ctx, method, trailer)
	require.NoError(t, err)
	return cs
}

// call makes a call of a method of any kind to its end.
func (w *world) call(ctx context.Context, t *testing.T, method string) (trailer metadata.MD, err error) {
	t.Helper()
	cs, err := w.begin(ctx, method, &trailer)
	if err != nil {
		return nil, err
	}
	require.NoError(t, cs.CloseSend())
	return trailer, end(cs, method)
}

// settle waits until all calls that came are over and nothing of them is left.
func (w *world) settle(t *testing.T) {
	t.Helper()
	eventually(t, "all calls that came are over and the lock is free", func() bool {
		begun, ends := w.seen.total()
		return int(w.arrived.Load()) == len(w.answers) && begun == ends && w.store.free()
	})
}

// untilEntered makes calls with longer and longer deadlines, until one comes to
// its handler in time.
func untilEntered(t *testing.T, entered <-chan bool, call func(context.Context)) {
	t.Helper()
	for after := 100 * time.Millisecond; ; after *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		call(ctx)
		cancel()
		select {
		case <-entered:
			return
		default:
			require.Less(t, after, time.Minute, "no call comes through")
		}
	}
}

// end reads a call to its end.
func end(cs grpc.ClientStream, method string) error {
	for {
		err := cs.RecvMsg(reply(method))
		if err != nil || !descs[method].ServerStreams {
			return noEOF(err)
		}
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// codeOf is what gRPC makes of a handler's error.
func codeOf(err error) codes.Code {
	if st, ok := status.FromError(err); ok {
		return st.Code()
	}
	return status.FromContextError(err).Code()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 10*time.Second, time.Millisecond, what)
}

var errPlain = errors.New("handler's own error")
