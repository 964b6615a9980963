// A tour of holdfast on the embedded store, which needs no Redis. Put
// redisstore.New(rdb) in the place of memstore.New() and the same code locks
// across processes.
package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

var ctx = context.Background()

func buildReport(ctx context.Context) error {
	fmt.Println("building the report")
	return ctx.Err()
}

// A function runs while its process holds the lock.
func Example() {
	locks, err := guard.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = guard.Do(ctx, locks.Name("nightly-report"), func(ctx context.Context) error {
		return buildReport(ctx) // ctx ends, with a cause matching guard.ErrLost, if the lease is lost
	})
	fmt.Println(err)
	// Output:
	// building the report
	// <nil>
}

// How it is wired to Redis in a service.
func wireRedis() (*guard.Guard, error) {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	store, err := redisstore.New(rdb)
	if err != nil {
		return nil, err
	}
	return guard.New(store, guard.TTL(30*time.Second))
}

var _ = wireRedis

type Money int

func charge(_ context.Context, token fence.Token) (Money, error) {
	fmt.Println("token > 0:", token > 0)
	return 1250, nil
}

// A class carries a policy and a label for telemetry; a value comes back with
// its own type; the token tells the storage which of two writers is the later.
func Example_value() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order", guard.TTL(10*time.Second), guard.Wait(2*time.Second)))

	total, err := guard.Value(ctx, orders.Name("42"), func(ctx context.Context) (Money, error) {
		return charge(ctx, fence.From(ctx)) // a token only grows with each grant of a name; the storage refuses lower ones
	})
	fmt.Println(total, err)
	// Output:
	// token > 0: true
	// 1250 <nil>
}

type Order struct{ Tenant, ID string }

type Receipt struct{ Text string }

func shipOrder(_ context.Context, o Order) (Receipt, error) {
	return Receipt{"shipped " + o.ID}, nil
}

// A function is wrapped once and keeps its signature.
func Example_wrap() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order"))

	ship := guard.Wrap(func(o Order) guard.Name { return orders.Name(o.Tenant, o.ID) }, shipOrder)

	receipt, err := ship(ctx, Order{Tenant: "acme", ID: "42"})
	fmt.Println(receipt.Text, err)
	// Output: shipped 42 <nil>
}

// Each state has one error, and details for those who want them.
func Example_errors() {
	store := memstore.New()
	locks := guard.Must(guard.New(store, guard.Label("web-1")))
	others := guard.Must(guard.New(store)) // like another process

	err := guard.Do(ctx, locks.Name("stock"), func(context.Context) error {
		err := guard.Do(ctx, others.Name("stock").Wait(20*time.Millisecond), buildReport)
		if held, ok := errors.AsType[*guard.HeldError](err); ok {
			fmt.Println("held by", held.Holder)
		}
		ran, err := guard.Try(ctx, others.Name("stock"), buildReport)
		fmt.Println("ran:", ran, err)
		return err
	})
	fmt.Println(err)
	// Output:
	// held by web-1
	// ran: false <nil>
	// <nil>
}

// Storage that raises its mark before the first read refuses the one who was
// paused beyond its lease.
func Example_fencing() {
	locks := guard.Must(guard.New(memstore.New(), guard.TTL(100*time.Millisecond)))
	var mu sync.Mutex
	var gate fence.Gate // stands for the storage
	stock := 10
	take := func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if err := gate.Raise(ctx); err != nil {
			return err
		}
		stock--
		return nil
	}
	var late context.Context
	_ = guard.Do(ctx, locks.Name("stock"), func(ctx context.Context) error {
		late = ctx // as if this process fell asleep here
		return nil
	})
	fmt.Println(guard.Do(ctx, locks.Name("stock"), take), stock)
	fmt.Println(errors.Is(take(late), fence.ErrStale), stock)
	// Output:
	// <nil> 9
	// true 9
}

// A lock is mounted per route.
func Example_http() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order"))
	payHandler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		alone := guard.Holds(r.Context(), orders.Name(r.PathValue("id")))
		fmt.Fprintf(w, "paid, alone: %t", alone)
	})

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", httpguard.New(orders, httpguard.PathValue("id"))(payHandler))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", http.NoBody))
	fmt.Println(w.Code, w.Body)
	// Output: 200 paid, alone: true
}

// Several independent nodes make one lock, with fencing tokens.
func Example_quorum() {
	store, err := guard.Quorum([]guard.Locker{memstore.New(), memstore.New(), memstore.New()})
	if err != nil {
		fmt.Println(err)
		return
	}
	locks := guard.Must(guard.New(store))
	fmt.Println(guard.Do(ctx, locks.Name("nightly-report"), buildReport))
	// Output:
	// building the report
	// <nil>
}
