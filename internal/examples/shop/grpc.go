package shop

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/examples/shop/shoppb"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// GRPC is the edge for other services. The order of interceptors is that of the
// middlewares; the tracing of otelgrpc is around all of them.
func (s *Shop) GRPC() (*grpc.Server, error) {
	locks, err := grpcguard.New(
		grpcguard.Field(shoppb.Orders_Ship_FullMethodName, s.orders, "tenant", "order_id"),
		grpcguard.Metadata(shoppb.Orders_Import_FullMethodName, s.tenants, "tenant").MaxWait(0),
	)
	if err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	server := grpc.NewServer(append(locks.ServerOptions(),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(s.tracers))))...)
	shoppb.RegisterOrdersServer(server, &ordersServer{shop: s})
	if err := locks.Check(server); err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	return server, nil
}

type ordersServer struct {
	shoppb.UnimplementedOrdersServer

	shop *Shop
}

func (s *ordersServer) Ship(ctx context.Context, in *shoppb.ShipRequest) (*shoppb.Order, error) {
	o, err := s.shop.ship(ctx, OrderID{in.GetTenant(), in.GetOrderId()})
	if err != nil {
		return nil, statusOf(err)
	}
	return &shoppb.Order{Id: o.ID, Cents: o.Cents, State: o.State}, nil
}

// Import holds the lock of the tenant for as long as the stream lasts, and that
// of each order while it is written.
func (s *ordersServer) Import(stream grpc.ClientStreamingServer[shoppb.Order, shoppb.ImportReply]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	tenant := md.Get("tenant")[0] // the lock refuses calls without
	for n := int32(0); ; n++ {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&shoppb.ImportReply{Orders: n})
		}
		if err != nil {
			return err
		}
		id := OrderID{tenant, in.GetId()}
		err = guard.Do(stream.Context(), s.shop.orders.Name(id.Tenant, id.ID), func(ctx context.Context) error {
			_, err := s.shop.create(ctx, id, in.GetCents())
			return err
		})
		if err != nil {
			return statusOf(err)
		}
	}
}

// statusOf leaves to the interceptor what is not the shop's.
func statusOf(err error) error {
	var state *stateError
	switch {
	case errors.Is(err, errNoOrder):
		return status.Error(codes.NotFound, "no such order")
	case errors.As(err, &state):
		return status.Error(codes.FailedPrecondition, state.Error())
	}
	return err
}
