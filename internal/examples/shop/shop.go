// Package shop is a small order service with HTTP and gRPC. It shows where locks
// go: per route and per method, inside authentication and TimeoutHandler, with a
// database that refuses late writes.
//
// Both edges take the same lock for an order, so a payment over HTTP and a
// shipment over gRPC exclude each other, in whatever replica they run.
package shop

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/guard"
)

// Shop is one replica of the service.
type Shop struct {
	// Charge takes the money for an order. It runs under the order's lock.
	Charge func(ctx context.Context, o Order) error

	db      *Database
	tracers trace.TracerProvider
	orders  *guard.Class // one at a time may change an order
	tenants *guard.Class // one at a time may import or export a tenant's orders
}

// New returns a replica that works on db under locks.
func New(locks *guard.Guard, db *Database, tracers trace.TracerProvider) (*Shop, error) {
	orders, err := locks.Class("order")
	if err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	tenants, err := locks.Class("tenant")
	if err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	free := func(context.Context, Order) error { return nil }
	return &Shop{Charge: free, db: db, tracers: tracers, orders: orders, tenants: tenants}, nil
}

// stateError is a request that does not fit the state of its order.
type stateError struct{ state, want string }

func (e *stateError) Error() string { return fmt.Sprintf("the order is %s, not %s", e.state, e.want) }

// create, pay and ship run under the order's lock: nothing else keeps what they
// have read true until they write.

func (s *Shop) create(ctx context.Context, id OrderID, cents int64) (Order, error) {
	o, err := s.db.read(ctx, id)
	if !errors.Is(err, errNoOrder) {
		return o, err // it is there already: the request was sent twice
	}
	o.Cents, o.State = cents, "new"
	return o, s.db.write(ctx, o)
}

func (s *Shop) pay(ctx context.Context, id OrderID) (Order, error) {
	o, err := s.db.read(ctx, id)
	if err != nil {
		return o, err
	}
	if o.State != "new" {
		return o, &stateError{o.State, "new"}
	}
	charging, span := s.tracers.Tracer("shop").Start(ctx, "charge")
	err = s.Charge(charging, o)
	span.End()
	if err != nil {
		return o, err
	}
	o.State = "paid"
	return o, s.db.write(ctx, o)
}

func (s *Shop) ship(ctx context.Context, id OrderID) (Order, error) {
	o, err := s.db.read(ctx, id)
	if err != nil {
		return o, err
	}
	if o.State != "paid" {
		return o, &stateError{o.State, "paid"}
	}
	o.State = "shipped"
	return o, s.db.write(ctx, o)
}
