package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/examples/shop"
	"github.com/holdfast-go/holdfast/internal/examples/shop/shoppb"
	"github.com/holdfast-go/holdfast/otelx"
)

// world is two replicas, of which one is called over HTTP and the other over
// gRPC, as by a load balancer.
type world struct {
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
	watch   watch
	guards  []*guard.Guard

	web     *httptest.Server
	charge  func(context.Context) error // called in the middle of a payment
	backend *grpc.Server
	conn    *grpc.ClientConn
	orders  shoppb.OrdersClient
}

// watch is an observer that tells when a call begins to wait, and when a tenant's
// lock is taken.
type watch struct{ waiting, tenant chan struct{} }

func (watch) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }
func (watch) End(context.Context, guard.Outcome)                      {}
func (w watch) Event(_ context.Context, e guard.Event) {
	switch {
	case e.Kind == guard.Waiting:
		tell(w.waiting)
	case e.Kind == guard.Granted && e.Class == "tenant":
		tell(w.tenant)
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // was told already
	}
}

func newWorld(store guard.Locker) (*world, error) {
	w := &world{spans: tracetest.NewSpanRecorder(), watch: watch{make(chan struct{}, 1), make(chan struct{}, 1)}}
	w.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
	db := new(shop.Database)

	web, err := w.replica(store, db)
	if err != nil {
		return nil, err
	}
	web.Charge = func(ctx context.Context, _ shop.Order) error { return w.charge(ctx) }
	backend, err := w.replica(store, db)
	if err != nil {
		return nil, err
	}
	if w.backend, err = backend.GRPC(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if w.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	w.orders = shoppb.NewOrdersClient(w.conn)
	w.web = httptest.NewServer(web.HTTP())
	go func() { _ = w.backend.Serve(listener) }() // until Stop
	return w, nil
}

// replica has a Guard of its own, as a process has.
func (w *world) replica(store guard.Locker, db *shop.Database) (*shop.Shop, error) {
	locks, err := guard.New(store, guard.Observe(otelx.New(otelx.TracerProvider(w.tracers)), w.watch))
	if err != nil {
		return nil, err
	}
	w.guards = append(w.guards, locks)
	return shop.New(locks, db, w.tracers)
}

// close ends edges before locks, so that no request is left that wants one.
func (w *world) close(ctx context.Context) error {
	w.web.Close()
	err := w.conn.Close()
	w.backend.GracefulStop()
	for _, g := range w.guards {
		err = errors.Join(err, g.Close(ctx))
	}
	return errors.Join(err, w.tracers.Shutdown(ctx))
}

// request sends an HTTP request of the tenant acme.
func (w *world) request(ctx context.Context, method, path, key, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, w.web.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.SetBasicAuth("acme", "")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := w.web.Client().Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
