package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/holdfast-go/holdfast/internal/examples/shop/shoppb"
)

// play is what the clients do.
func (w *world) play(ctx context.Context, out io.Writer) error {
	for _, scene := range []func(context.Context, io.Writer) error{w.create, w.payAndShip, w.importAndExport} {
		if err := scene(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// create sends the same request twice.
func (w *world) create(ctx context.Context, out io.Writer) error {
	for range 2 {
		if err := w.show(ctx, out, http.MethodPost, "/orders", "42", `{"cents": 1250}`); err != nil {
			return err
		}
	}
	return nil
}

// payAndShip asks for the shipment in the middle of the payment. It waits, on
// another replica, and finds the order paid.
func (w *world) payAndShip(ctx context.Context, out io.Writer) error {
	shipped := make(chan string, 1)
	w.charge = func(work context.Context) error {
		go func() {
			o, err := w.orders.Ship(ctx, &shoppb.ShipRequest{Tenant: "acme", OrderId: "42"})
			shipped <- fmt.Sprintf("Ship: %v %s\n", err, o.GetState())
		}()
		return heard(work, w.watch.waiting)
	}
	if err := w.show(ctx, out, http.MethodPost, "/orders/42/pay", "", ""); err != nil {
		return err
	}
	fmt.Fprint(out, <-shipped)
	return nil
}

// importAndExport asks for an export in the middle of an import, which is
// refused at once, and again after it.
func (w *world) importAndExport(ctx context.Context, out io.Writer) error {
	stream, err := w.orders.Import(metadata.AppendToOutgoingContext(ctx, "tenant", "acme"))
	if err != nil {
		return err
	}
	if err := stream.Send(&shoppb.Order{Id: "43", Cents: 990}); err != nil {
		return err
	}
	if err := heard(ctx, w.watch.tenant); err != nil {
		return err
	}
	if err := w.show(ctx, out, http.MethodGet, "/export", "", ""); err != nil {
		return err
	}
	reply, err := stream.CloseAndRecv()
	fmt.Fprintf(out, "Import: %v %d\n", err, reply.GetOrders())
	return w.show(ctx, out, http.MethodGet, "/export", "", "")
}

func heard(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// show prints what a request was answered with.
func (w *world) show(ctx context.Context, out io.Writer, method, path, key, body string) error {
	status, answer, err := w.request(ctx, method, path, key, body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s: %d %s", method, path, status, answer)
	return err
}
