package httpguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

// Programs use redisstore; memstore needs no server.
func ordersClass() *guard.Class {
	locks := guard.Must(guard.New(memstore.New()))
	return guard.Must(locks.Class("order"))
}

// Whoever pays or cancels an order has it alone meanwhile.
func ExampleNew() {
	lock := httpguard.New(ordersClass(), httpguard.PathValue("id"))

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "paid, with a token:", fence.From(r.Context()) > 0)
	})))
	mux.Handle("POST /orders/{id}/cancel", lock(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "cancelled")
	})))

	s := httptest.NewServer(mux)
	defer s.Close()
	fmt.Print(post(s.URL+"/orders/42/pay", nil))
	fmt.Print(post(s.URL+"/orders/42/cancel", nil))
	// Output:
	// 200 paid, with a token: true
	// 200 cancelled
}

// An idempotent POST: of requests with the same key one does the work, and the
// others wait for it and find its result. The lock closes the gap between
// looking for a result and storing one; keeping results is the program's part.
func Example_idempotentPost() {
	var receipts sync.Map // in real life a table
	var charges atomic.Int32
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		receipt, done := receipts.Load(key)
		if !done {
			receipt = charges.Add(1)
			receipts.Store(key, receipt)
		}
		fmt.Fprintln(w, "receipt", receipt.(int32))
	})
	lock := httpguard.New(ordersClass(), httpguard.Header("Idempotency-Key"))
	s := httptest.NewServer(lock(charge))
	defer s.Close()

	answers := make(chan string)
	for range 3 { // an impatient client
		go func() { answers <- post(s.URL, http.Header{"Idempotency-Key": {"7f3a"}}) }()
	}
	for range 3 {
		fmt.Print(<-answers)
	}
	fmt.Print(post(s.URL, nil))
	// Output:
	// 200 receipt 1
	// 200 receipt 1
	// 200 receipt 1
	// 400 {"type":"https://pkg.go.dev/github.com/holdfast-go/holdfast/middleware/httpguard#ErrBadRequest","title":"Bad request","status":400,"detail":"the header \"Idempotency-Key\" is missing or empty","code":"invalid"}
}

type userKey struct{}

// One request per user at a time, and no queue: a second one is told at once.
// The key comes from what authentication found out, never from what a client
// says about itself. Administrators are not limited.
func Example_oneRequestPerUser() {
	byUser := func(r *http.Request) ([]string, error) {
		switch user, _ := r.Context().Value(userKey{}).(string); user {
		case "":
			return nil, errors.New("nobody is logged in")
		case "admin":
			return nil, httpguard.ErrSkip
		default:
			return []string{user}, nil
		}
	}
	lock := httpguard.New(ordersClass(), byUser, httpguard.MaxWait(0))

	started, finish := make(chan struct{}), make(chan struct{})
	export := authenticated(lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(started)
			<-finish
		}
		fmt.Fprintln(w, "exported")
	})))
	s := httptest.NewServer(export)
	defer s.Close()

	first := make(chan string)
	go func() { first <- post(s.URL+"/slow", http.Header{"User": {"ann"}}) }()
	<-started
	for _, user := range []string{"ann", "bob", "admin"} {
		fmt.Print(user, " ", post(s.URL, http.Header{"User": {user}})[:3], "\n")
	}
	close(finish)
	fmt.Print("ann ", <-first)
	// Output:
	// ann 409
	// bob 200
	// admin 200
	// ann 200 exported
}

func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("User"))))
	})
}

// A route that streams keeps its lock, and renews it, for as long as the stream
// lasts. It ends when the client leaves or the lease is lost: r.Context() tells.
func Example_stream() {
	lock := httpguard.New(ordersClass(), httpguard.PathValue("tenant"))
	mux := http.NewServeMux()
	mux.Handle("GET /tenants/{tenant}/events", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := 1; n <= 3 && r.Context().Err() == nil; n++ {
			fmt.Fprintf(w, "data: event %d\n\n", n)
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
		}
	})))
	s := httptest.NewServer(mux)
	defer s.Close()

	resp, err := http.Get(s.URL + "/tenants/acme/events")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if lines.Text() != "" {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// data: event 1
	// data: event 2
	// data: event 3
}

// Respond changes what is ours and leaves the rest to Error.
func ExampleRespond() {
	respond := func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, guard.ErrHeld) {
			http.Error(w, "somebody else edits this order", http.StatusLocked)
			return
		}
		httpguard.Error(w, r, err)
	}
	orders := ordersClass()
	lock := httpguard.New(orders, httpguard.PathValue("id"), httpguard.MaxWait(0), httpguard.Respond(respond))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", lock(http.NotFoundHandler()))
	s := httptest.NewServer(mux)
	defer s.Close()

	_ = guard.Do(context.Background(), orders.Name("42"), func(context.Context) error {
		fmt.Print(post(s.URL+"/orders/42", nil))
		return nil
	})
	// Output: 423 somebody else edits this order
}

// A service fences its own storage with the token of the client that calls it:
// the call of a holder that was paused beyond its lease comes too late.
func ExamplePresented() {
	var gate fence.Gate // in real life a column beside the data, see package sqlfence
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, err := httpguard.Presented(r.Header) // r comes from a client we trust
		if err == nil {
			err = gate.Raise(fence.NewContext(r.Context(), grant, nil))
		}
		if err != nil {
			httpguard.Error(w, r, err)
			return
		}
		fmt.Fprintln(w, "written")
	}))
	defer s.Close()

	write := func(token fence.Token) string {
		h := http.Header{}
		httpguard.Present(h, fence.Grant{Name: "order/42", Token: token, Owner: "of this grant"})
		return post(s.URL, h)[:3]
	}
	fmt.Println(write(33), write(34), write(33))
	// Output: 200 200 412
}

// post returns status and body.
func post(url string, h http.Header) string {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, nil)
	if err != nil {
		return err.Error()
	}
	if h != nil {
		r.Header = h
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}
