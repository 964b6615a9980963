package shop_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/examples/shop"
	"github.com/holdfast-go/holdfast/internal/examples/shop/shoppb"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func replica(t *testing.T, store guard.Locker, db *shop.Database, opts ...guard.Option) *shop.Shop {
	t.Helper()
	locks, err := guard.New(store, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locks.Close(context.Background())) })
	s, err := shop.New(locks, db, noop.NewTracerProvider())
	require.NoError(t, err)
	return s
}

// client calls the HTTP edge as a tenant.
type client struct {
	h      http.Handler
	tenant string
}

func (c client) do(method, path, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if c.tenant != "" {
		r.SetBasicAuth(c.tenant, "")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w
}

func (c client) create(id string) int {
	return c.do(http.MethodPost, "/orders", id, `{"cents": 100}`).Code
}

func (c client) pay(id string) *httptest.ResponseRecorder {
	return c.do(http.MethodPost, "/orders/"+id+"/pay", "", "")
}

// names is an observer that keeps the names of locks.
type names struct {
	mu  sync.Mutex
	all []string
}

func (n *names) Begin(ctx context.Context, c guard.Call) context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, c.Name)
	return ctx
}
func (*names) Event(context.Context, guard.Event) {}
func (*names) End(context.Context, guard.Outcome) {}

func TestRoutesAnswerAndTakeTheLockOfTheirTenantsOrder(t *testing.T) {
	n := &names{}
	s := replica(t, memstore.New(), new(shop.Database), guard.Observe(n))
	acme, evil := client{s.HTTP(), "acme"}, client{s.HTTP(), "acme/1"}
	for _, tc := range []struct {
		client
		method, path, key, body string
		status                  int
		lock                    string
	}{
		{client{s.HTTP(), ""}, "POST", "/orders/1/pay", "", "", 401, ""}, // nobody unknown holds a lock
		{acme, "POST", "/orders", "", "{}", 400, ""},
		{acme, "POST", "/orders", "1", "nonsense", 400, "order/acme/1"},
		{acme, "POST", "/orders/1/pay", "", "", 404, "order/acme/1"},
		{acme, "POST", "/orders", "1", `{"cents": 100}`, 200, "order/acme/1"},
		{acme, "POST", "/orders", "1", `{"cents": 999}`, 200, "order/acme/1"},
		{acme, "POST", "/orders/1/pay", "", "", 200, "order/acme/1"},
		{acme, "POST", "/orders/1/pay", "", "", 422, "order/acme/1"},
		{acme, "GET", "/orders/1", "", "", 200, ""},
		{evil, "GET", "/orders/1", "", "", 404, ""},
		{evil, "POST", "/orders/1/pay", "", "", 404, "order/acme%2F1/1"},
		{acme, "GET", "/export", "", "", 200, "tenant/acme"},
	} {
		n.all = nil
		w := tc.do(tc.method, tc.path, tc.key, tc.body)
		assert.Equal(t, tc.status, w.Code, "%s %s as %q: %s", tc.method, tc.path, tc.tenant, w.Body)
		var want []string
		if tc.lock != "" {
			want = []string{tc.lock}
		}
		assert.Equal(t, want, n.all)
	}
}

// serve starts the gRPC edge on loopback.
func serve(t *testing.T, s *shop.Shop) shoppb.OrdersClient {
	t.Helper()
	server, err := s.GRPC()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, server.Serve(listener)) })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, conn.Close())
		server.GracefulStop()
		serving.Wait()
	})
	return shoppb.NewOrdersClient(conn)
}

func TestMethodsAnswerWithStatuses(t *testing.T) {
	s := replica(t, memstore.New(), new(shop.Database))
	orders := serve(t, s)
	require.Equal(t, 200, client{s.HTTP(), "acme"}.create("1"))
	for _, tc := range []struct {
		tenant, id string
		want       codes.Code
	}{
		{"acme", "2", codes.NotFound},
		{"acme", "1", codes.FailedPrecondition},
		{"acme", "", codes.InvalidArgument},
		{"", "1", codes.InvalidArgument},
	} {
		_, err := orders.Ship(t.Context(), &shoppb.ShipRequest{Tenant: tc.tenant, OrderId: tc.id})
		assert.Equal(t, tc.want, status.Code(err), "%v", err)
	}
	stream, err := orders.Import(t.Context())
	require.NoError(t, err)
	_, err = stream.CloseAndRecv()
	assert.Equal(t, codes.InvalidArgument, status.Code(err), "no tenant")

	stream, err = orders.Import(metadata.AppendToOutgoingContext(t.Context(), "tenant", "acme"))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&shoppb.Order{Id: "7", Cents: 5}))
	reply, err := stream.CloseAndRecv()
	require.NoError(t, err)
	assert.Equal(t, int32(1), reply.GetOrders())
	assert.Equal(t, 200, client{s.HTTP(), "acme"}.pay("7").Code)
}

// Many ask at once, on two replicas and over a real Redis, and only one is
// charged. Afterwards no lock is left.
func TestAnOrderIsChargedOnceByTwoReplicas(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	db := new(shop.Database)
	charged := 0 // the lock protects it
	var replicas []client
	for range 2 {
		s := replica(t, store, db)
		s.Charge = func(context.Context, shop.Order) error { charged++; return nil }
		replicas = append(replicas, client{s.HTTP(), "acme"})
	}
	require.Equal(t, 200, replicas[0].create("1"))
	answers := make(chan int, 20)
	for i := range cap(answers) {
		go func() { answers <- replicas[i%2].pay("1").Code }()
	}
	got := map[int]int{}
	for range cap(answers) {
		got[<-answers]++
	}
	assert.Equal(t, map[int]int{200: 1, 422: 19}, got)
	assert.Equal(t, 1, charged)
	left, err := rdb.Exists(t.Context(), "lock:{order/acme/1}", "lock:{order/acme/1}:q").Result()
	require.NoError(t, err)
	assert.Zero(t, left)
}

// deaf never hears that its renewals arrived, as a replica that is paused.
type deaf struct{ guard.Locker }

func (d deaf) Renew(ctx context.Context, _ guard.Lease) (guard.Lease, error) {
	<-ctx.Done()
	return guard.Lease{}, context.Cause(ctx)
}

// A replica that is paused for longer than its lease, and does not look at its
// context when it goes on, is refused by the database.
func TestTheDatabaseRefusesALateReplica(t *testing.T) {
	store, db := memstore.New(), new(shop.Database)
	late := replica(t, deaf{store}, db, guard.TTL(guard.MinTTL))
	prompt := replica(t, store, db)
	promptly := client{prompt.HTTP(), "acme"}
	require.Equal(t, 200, promptly.create("1"))

	late.Charge = func(ctx context.Context, _ shop.Order) error {
		assert.Equal(t, 200, promptly.pay("1").Code, "as soon as the lease is over")
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
		return nil
	}
	w := client{late.HTTP(), "acme"}.pay("1")
	assert.Equal(t, 500, w.Code)
	assert.Contains(t, w.Body.String(), `"code":"fence_stale"`)
	assert.Contains(t, promptly.do(http.MethodGet, "/orders/1", "", "").Body.String(), `"state":"paid"`)
}
