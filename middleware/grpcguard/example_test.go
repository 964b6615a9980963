package grpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// The examples serve gRPC's own test service; yours has better names.
type shop struct {
	testpb.UnimplementedTestServiceServer
}

func (shop) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	token := fence.From(ctx) // for the storage, to refuse what comes too late
	fmt.Printf("pay order %s, fenced: %t\n", in.GetPayload().GetBody(), token > 0)
	return &testpb.SimpleResponse{}, nil
}

func (shop) StreamingInputCall(s grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	n := 0
	for {
		in, err := s.Recv()
		if err != nil {
			fmt.Println("imported", n, "orders")
			return s.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
		}
		n += len(in.GetPayload().GetBody())
	}
}

// serve starts server on loopback and returns a client of it.
func serve(server *grpc.Server) (client testpb.TestServiceClient, stop func()) {
	lis := guard.Must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(lis) }()
	conn := guard.Must(grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	return testpb.NewTestServiceClient(conn), func() {
		_ = conn.Close()
		server.Stop()
	}
}

func order(id string) *testpb.SimpleRequest {
	return &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte(id)}}
}

// One payment per order at a time: the lock is named by a field of the request,
// and who comes second is told to come back.
func Example() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order", guard.NoWait()))
	locked, err := grpcguard.New(
		grpcguard.Field("/grpc.testing.TestService/UnaryCall", orders, "payload.body"),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(locked.ServerOptions()...)
	testpb.RegisterTestServiceServer(server, shop{})
	if err := locked.Check(server); err != nil {
		fmt.Println(err)
		return
	}
	client, stop := serve(server)
	defer stop()

	ctx := context.Background()
	_, err = client.UnaryCall(ctx, order("42"))
	fmt.Println(status.Code(err))

	// Somebody else works on the order.
	_ = guard.Do(ctx, orders.Name("42"), func(ctx context.Context) error {
		_, err = client.UnaryCall(ctx, order("42"))
		return nil
	})
	fmt.Println(err)
	// Output:
	// pay order 42, fenced: true
	// OK
	// rpc error: code = Aborted desc = another call holds the lock; the call did not run and may be sent again
}

// A stream is under its lock from before its handler starts until after it has
// returned. Here the lock is named by the metadata that the client sends along.
func ExampleMetadata() {
	locks := guard.Must(guard.New(memstore.New()))
	imports := guard.Must(locks.Class("import"))
	locked := guard.Must(grpcguard.New(
		grpcguard.Metadata("/grpc.testing.TestService/StreamingInputCall", imports, "tenant"),
	))
	server := grpc.NewServer(locked.ServerOptions()...)
	testpb.RegisterTestServiceServer(server, shop{})
	client, stop := serve(server)
	defer stop()

	ctx := metadata.AppendToOutgoingContext(context.Background(), "tenant", "acme")
	stream := guard.Must(client.StreamingInputCall(ctx))
	for _, id := range []string{"1", "2", "3"} {
		_ = stream.Send(&testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: []byte(id)}})
	}
	_, err := stream.CloseAndRecv()
	fmt.Println(status.Code(err))

	stream = guard.Must(client.StreamingInputCall(context.Background()))
	_, err = stream.CloseAndRecv()
	fmt.Println(err)
	// Output:
	// imported 3 orders
	// OK
	// rpc error: code = InvalidArgument desc = the metadata key "tenant" is missing or empty
}

// Where the key takes more than a field, write a function. Its status is the
// client's answer.
func ExampleMethod() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order"))
	locked := guard.Must(grpcguard.New(
		grpcguard.Method("/grpc.testing.TestService/UnaryCall", func(ctx context.Context, in *testpb.SimpleRequest) (guard.Name, error) {
			tenant := metadata.ValueFromIncomingContext(ctx, "tenant")
			if len(tenant) != 1 {
				return guard.Name{}, status.Error(codes.Unauthenticated, "who are you?")
			}
			return orders.Name(tenant[0], string(in.GetPayload().GetBody())), nil
		}),
	))
	server := grpc.NewServer(locked.ServerOptions()...)
	testpb.RegisterTestServiceServer(server, shop{})
	client, stop := serve(server)
	defer stop()

	_, err := client.UnaryCall(metadata.AppendToOutgoingContext(context.Background(), "tenant", "acme"), order("42"))
	fmt.Println(status.Code(err))
	_, err = client.UnaryCall(context.Background(), order("42"))
	fmt.Println(err)
	// Output:
	// pay order 42, fenced: true
	// OK
	// rpc error: code = Unauthenticated desc = who are you?
}

// A method that may take its time to get its turn.
func ExampleRule_MaxWait() {
	locks := guard.Must(guard.New(memstore.New()))
	reports := guard.Must(locks.Class("report"))
	rule := grpcguard.Metadata("/shop.v1.Reports/Build", reports, "tenant").MaxWait(time.Minute)
	_, err := grpcguard.New(rule)
	fmt.Println(err)
	// Output: <nil>
}

// A misspelt method would run without its lock; Check finds it before the server
// does.
func ExampleGuard_Check() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order"))
	locked := guard.Must(grpcguard.New(grpcguard.Metadata("/shop.v2.Orders/Pay", orders, "order")))
	server := grpc.NewServer(locked.ServerOptions()...)
	testpb.RegisterTestServiceServer(server, shop{})
	fmt.Println(locked.Check(server))
	// Output: grpcguard: /shop.v2.Orders/Pay is listed and not served
}

// Another answer than ABORTED is an interceptor around the lock's.
func ExampleGuard_UnaryServer() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order", guard.NoWait()))
	locked := guard.Must(grpcguard.New(grpcguard.Field("/grpc.testing.TestService/UnaryCall", orders, "payload.body")))
	busy := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		resp, err := next(ctx, req)
		if errors.Is(err, guard.ErrHeld) {
			err = status.Error(codes.ResourceExhausted, "busy")
		}
		return resp, err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(busy, locked.UnaryServer()))
	testpb.RegisterTestServiceServer(server, shop{})
	client, stop := serve(server)
	defer stop()

	_ = guard.Do(context.Background(), orders.Name("42"), func(ctx context.Context) error {
		_, err := client.UnaryCall(ctx, order("42"))
		fmt.Println(err)
		return nil
	})
	// Output: rpc error: code = ResourceExhausted desc = busy
}
