package grpcguard_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// logged is what the program logged.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &out
}

var mistake = want{code: codes.Internal, reason: "INVALID", is: guard.ErrInvalid}

func TestServerWithAListedStreamAndOnlyTheUnaryInterceptorServesNothing(t *testing.T) {
	out := logged(t)
	w := start(t, setup{
		rules: func(c *guard.Class) []grpcguard.Rule {
			return []grpcguard.Rule{grpcguard.Metadata(duplex, c, "order")}
		},
		options: func(g *grpcguard.Guard) []grpc.ServerOption {
			return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.UnaryServer())}
		},
	})
	for range 3 {
		_, err := testpb.NewTestServiceClient(w.conn).EmptyCall(t.Context(), &testpb.Empty{})
		mistake.check(t, err, nil)
	}
	assert.Equal(t, 1, strings.Count(out.String(), "StreamServer is not installed"), out)
}

func TestServerWithAListedUnaryMethodAndOnlyTheStreamInterceptorServesNothing(t *testing.T) {
	w := start(t, setup{
		rules: func(c *guard.Class) []grpcguard.Rule {
			return []grpcguard.Rule{grpcguard.Metadata(unary, c, "order")}
		},
		options: func(g *grpcguard.Guard) []grpc.ServerOption {
			return []grpc.ServerOption{grpc.ChainStreamInterceptor(g.StreamServer())}
		},
	})
	_, err := w.call(t.Context(), t, duplex)
	mistake.check(t, err, nil)
}

func TestOneInterceptorIsEnoughForMethodsOfItsKind(t *testing.T) {
	for method := range descs {
		t.Run(method, func(t *testing.T) {
			w := start(t, setup{
				rules: func(c *guard.Class) []grpcguard.Rule {
					return []grpcguard.Rule{grpcguard.Field(method, c, "payload.body")}
				},
				options: func(g *grpcguard.Guard) []grpc.ServerOption {
					if method == unary {
						return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.UnaryServer())}
					}
					return []grpc.ServerOption{grpc.ChainStreamInterceptor(g.StreamServer())}
				},
			})
			_, err := w.call(t.Context(), t, method)
			require.NoError(t, err)
			assert.Equal(t, 1, w.seen.count(guard.Granted))
		})
	}
}

func TestCheckFindsWhatWouldRunWithoutItsLock(t *testing.T) {
	c := orders(t)
	const hand = "/hand.Made/Stream"
	for _, tc := range []struct {
		name          string
		methods       []string
		unary, stream bool
		says          []string
	}{
		{"all is well", []string{unary, duplex, hand}, true, true, nil},
		{"unary is enough", []string{unary}, true, false, nil},
		{"stream is enough", []string{duplex}, false, true, nil},
		{"stream without its interceptor", []string{unary, hand}, true, false, []string{hand + " is a stream and StreamServer is not installed"}},
		{"unary without its interceptor", []string{unary, hand}, false, true, []string{unary + " is unary and UnaryServer is not installed"}},
		{
			"misspelt", []string{"/hand.Made/Straem", "/hand.Maid/Stream", unary}, true, true,
			[]string{"/hand.Made/Straem is listed and not served", "/hand.Maid/Stream is listed and not served"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rules []grpcguard.Rule
			for _, m := range tc.methods {
				rules = append(rules, grpcguard.Metadata(m, c, "order"))
			}
			g, err := grpcguard.New(rules...)
			require.NoError(t, err)
			if tc.unary {
				g.UnaryServer()
			}
			if tc.stream {
				g.StreamServer()
			}
			server := grpc.NewServer()
			testpb.RegisterTestServiceServer(server, &service{})
			server.RegisterService(&grpc.ServiceDesc{
				ServiceName: "hand.Made", HandlerType: (*any)(nil),
				Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true}},
			}, nil)
			err = g.Check(server)
			if tc.says == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, guard.ErrInvalid)
			assert.Equal(t, "grpcguard: "+strings.Join(tc.says, "\ngrpcguard: "), err.Error())
		})
	}
}

// handMade serves one stream of wrapperspb.StringValue of which the program has
// no descriptor, and makes one call of it.
func handMade(t *testing.T, rule func(method string, c *guard.Class) grpcguard.Rule, receive any) (locked string, err error) {
	t.Helper()
	const method = "/hand.Made/Stream"
	g, err := grpcguard.New(rule(method, orders(t)))
	require.NoError(t, err)
	server := grpc.NewServer(g.ServerOptions()...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "hand.Made", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ClientStreams: true, Handler: func(_ any, ss grpc.ServerStream) error {
			if err := ss.RecvMsg(receive); err != nil {
				return err
			}
			locked = held(ss.Context())
			return ss.SendMsg(wrapperspb.String("done"))
		}}},
	}, nil)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()
	conn, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	cs, err := conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), "order", "9"), &grpc.StreamDesc{ClientStreams: true}, method)
	require.NoError(t, err)
	require.NoError(t, noEOF(cs.SendMsg(wrapperspb.String("7"))))
	require.NoError(t, cs.CloseSend())
	return locked, cs.RecvMsg(&wrapperspb.StringValue{})
}

func TestStreamWithoutADescriptorIsReadByItsRulesType(t *testing.T) {
	var got wrapperspb.StringValue
	locked, err := handMade(t, func(m string, c *guard.Class) grpcguard.Rule {
		return grpcguard.Method(m, func(_ context.Context, in *wrapperspb.StringValue) (guard.Name, error) {
			return c.Name(in.GetValue()), nil
		})
	}, &got)
	require.NoError(t, err)
	assert.Equal(t, lockName, locked)
	assert.Equal(t, "7", got.GetValue())

	locked, err = handMade(t, func(m string, c *guard.Class) grpcguard.Rule {
		return grpcguard.Metadata(m, c, "order")
	}, &got)
	require.NoError(t, err)
	assert.Equal(t, "order/9", locked)
}

func TestStreamWhoseMessageTypeIsNotKnownFailsClosed(t *testing.T) {
	out := logged(t)
	for name, rule := range map[string]func(string, *guard.Class) grpcguard.Rule{
		"field": func(m string, c *guard.Class) grpcguard.Rule { return grpcguard.Field(m, c, "value") },
		"any": func(m string, c *guard.Class) grpcguard.Rule {
			return grpcguard.Method(m, named[proto.Message](c.Name("7")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			locked, err := handMade(t, rule, &wrapperspb.StringValue{})
			mistake.check(t, err, nil)
			assert.Empty(t, locked)
		})
	}
	assert.Equal(t, 2, strings.Count(out.String(), "message type is not known"), "once for each of two servers")
}

// Both types read the same bytes, so gRPC cannot notice.
func TestHandlerThatReceivesAnotherTypeThanTheRulesFailsClosed(t *testing.T) {
	locked, err := handMade(t, func(m string, c *guard.Class) grpcguard.Rule {
		return grpcguard.Method(m, named[*wrapperspb.BytesValue](c.Name("7")))
	}, &wrapperspb.StringValue{})
	mistake.check(t, err, nil)
	assert.Empty(t, locked)
}

func TestLockTakenTwiceByTwoGuardsIsAMistake(t *testing.T) {
	out := logged(t)
	w := start(t, setup{options: func(g *grpcguard.Guard) []grpc.ServerOption {
		return append(g.ServerOptions(), g.ServerOptions()...)
	}})
	for range 2 {
		_, err := w.call(t.Context(), t, unary)
		want{code: codes.Internal, reason: "NESTED", is: guard.ErrNested}.check(t, err, nil)
		require.ErrorIs(t, w.next(t).err, guard.ErrNested)
	}
	assert.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out)
}
