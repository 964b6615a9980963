package shop

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

// HTTP is the edge for tenants. The order of middlewares, from the outside in:
// recovery, which is net/http's own here, tracing, authentication,
// TimeoutHandler, the lock, the handler.
func (s *Shop) HTTP() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, h http.Handler) {
		mux.Handle(pattern, otelhttp.NewHandler(authenticate(h), pattern, otelhttp.WithTracerProvider(s.tracers),
			otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return pattern })))
	}
	byOrder := httpguard.New(s.orders, httpguard.Join(tenant, httpguard.PathValue("id")))
	byKey := httpguard.New(s.orders, httpguard.Join(tenant, httpguard.Header("Idempotency-Key")))
	byTenant := httpguard.New(s.tenants, tenant, httpguard.MaxWait(0))

	handle("GET /orders/{id}", timeout(s.getOrder)) // no lock: it changes nothing
	handle("POST /orders", timeout(byKey(http.HandlerFunc(s.postOrder)).ServeHTTP))
	handle("POST /orders/{id}/pay", timeout(byOrder(http.HandlerFunc(s.postPay)).ServeHTTP))
	handle("GET /export", byTenant(http.HandlerFunc(s.getExport))) // a stream, which TimeoutHandler would hold back
	return mux
}

func timeout(next http.HandlerFunc) http.Handler {
	return http.TimeoutHandler(next, 10*time.Second, "timeout")
}

type tenantKey struct{}

// authenticate believes every name it is told, so that the example stays small.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, ok := r.BasicAuth()
		if !ok || name == "" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, name)))
	})
}

func tenantOf(r *http.Request) string {
	name, _ := r.Context().Value(tenantKey{}).(string)
	return name
}

// tenant is a lock key: what authentication found, not what the client says.
func tenant(r *http.Request) ([]string, error) { return []string{tenantOf(r)}, nil }

func (s *Shop) getOrder(w http.ResponseWriter, r *http.Request) {
	o, err := s.db.look(OrderID{tenantOf(r), r.PathValue("id")})
	answer(w, r, o, err)
}

// postOrder may be sent again: its idempotency key is the order's id, and the
// lock keeps a second request out until the first one is done.
func (s *Shop) postOrder(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Cents int64 `json:"cents"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil {
		http.Error(w, "the body is no order", http.StatusBadRequest)
		return
	}
	o, err := s.create(r.Context(), OrderID{tenantOf(r), r.Header.Get("Idempotency-Key")}, in.Cents)
	answer(w, r, o, err)
}

func (s *Shop) postPay(w http.ResponseWriter, r *http.Request) {
	o, err := s.pay(r.Context(), OrderID{tenantOf(r), r.PathValue("id")})
	answer(w, r, o, err)
}

// getExport sends order after order, as slowly as its reader likes: the lease is
// renewed meanwhile.
func (s *Shop) getExport(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, o := range s.db.ofTenant(tenantOf(r)) {
		if r.Context().Err() != nil || send(w, o) != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

func send(w http.ResponseWriter, o Order) error {
	return json.NewEncoder(w).Encode(struct {
		ID    string `json:"id"`
		Cents int64  `json:"cents"`
		State string `json:"state"`
	}{o.ID, o.Cents, o.State})
}

func answer(w http.ResponseWriter, r *http.Request, o Order, err error) {
	var state *stateError
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = send(w, o)
	case errors.Is(err, errNoOrder):
		http.Error(w, "no such order", http.StatusNotFound)
	case errors.As(err, &state):
		http.Error(w, state.Error(), http.StatusUnprocessableEntity)
	default:
		httpguard.Error(w, r, err) // a lost lease or a stale token; what it does not know is a 500
	}
}
