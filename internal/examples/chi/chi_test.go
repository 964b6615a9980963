// Package chi_test shows and tests locks on routes of chi.
package chi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

// On a route of chi the lock is an inline middleware, With, since only there the
// path is known. Recoverer and Logger stay outside of it.
func Example() {
	locks := guard.Must(guard.New(memstore.New()))
	orders := guard.Must(locks.Class("order"))
	lock := httpguard.New(orders, httpguard.PathValue("id"))

	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.With(lock).Post("/orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "with a token:", fence.From(r.Context()) > 0)
	})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 200 with a token: true
}

// lock is a class of its own with the lock by path value, and the names taken.
func lock(value string, ps ...guard.Policy) (mw func(http.Handler) http.Handler, names *[]string) {
	names = new([]string)
	locks := guard.Must(guard.New(memstore.New(), guard.Observe(seen{names})))
	return httpguard.New(guard.Must(locks.Class("order", ps...)), httpguard.PathValue(value)), names
}

type seen struct{ names *[]string }

func (s seen) Begin(ctx context.Context, c guard.Call) context.Context {
	*s.names = append(*s.names, c.Name)
	return ctx
}
func (seen) Event(context.Context, guard.Event) {}
func (seen) End(context.Context, guard.Outcome) {}

func get(h http.Handler, path string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
	return w.Code
}

func done(http.ResponseWriter, *http.Request) {}

func TestPathValuesNameTheLockWhereverChiKnowsThem(t *testing.T) {
	type mw = func(http.Handler) http.Handler
	for name, tc := range map[string]struct {
		value  string
		mount  func(r chi.Router, lock mw)
		path   string
		status int
		names  []string
	}{
		"inline": {
			"id", func(r chi.Router, lock mw) { r.With(lock).Get("/orders/{id}", done) },
			"/orders/42", 200, []string{"order/42"},
		},
		"inline, with a regexp": {
			"id", func(r chi.Router, lock mw) { r.With(lock).Get("/orders/{id:[0-9]+}", done) },
			"/orders/42", 200, []string{"order/42"},
		},
		"in a group": {
			"id", func(r chi.Router, lock mw) { r.Group(func(r chi.Router) { r.Use(lock); r.Get("/orders/{id}", done) }) },
			"/orders/42", 200, []string{"order/42"},
		},
		"below the wildcard": {
			"id", func(r chi.Router, lock mw) {
				r.Route("/orders/{id}", func(r chi.Router) { r.Use(lock); r.Get("/pay", done) })
			},
			"/orders/42/pay", 200, []string{"order/42"},
		},
		"rest of the path": {
			"*", func(r chi.Router, lock mw) { r.With(lock).Get("/files/*", done) },
			"/files/a/b", 200, []string{"order/a%2Fb"},
		},
		"empty rest of the path": {
			"*", func(r chi.Router, lock mw) { r.With(lock).Get("/files/*", done) },
			"/files/", 400, nil,
		},
		"around the router": {
			"id", func(r chi.Router, lock mw) { r.Use(lock); r.Get("/orders/{id}", done) },
			"/orders/42", 500, nil,
		},
		"with another wildcard": {
			"id", func(r chi.Router, lock mw) { r.With(lock).Get("/orders/{number}", done) },
			"/orders/42", 500, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock, names := lock(tc.value)
			r := chi.NewRouter()
			tc.mount(r, lock)
			assert.Equal(t, tc.status, get(r, tc.path))
			assert.Equal(t, tc.names, *names)
		})
	}
}

// chi's Recoverer lets the abort pass, so a client is not told "500" in the
// middle of a response.
func TestRecovererLetsALostLeaseAbortTheResponse(t *testing.T) {
	lock, _ := lock("id", guard.MaxHold(10*time.Millisecond))
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.With(lock).Get("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		<-r.Context().Done()
	})
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { get(r, "/orders/42") })
}

// chi's own wrapper around the ResponseWriter has the abilities of the original,
// and the lock's around it too.
func TestAbilitiesPassThroughBothWrappers(t *testing.T) {
	lock, _ := lock("id")
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(middleware.NewWrapResponseWriter(w, r.ProtoMajor), r)
		})
	})
	r.With(lock).Get("/orders/{id}", func(w http.ResponseWriter, _ *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		assert.True(t, flushes)
		assert.True(t, hijacks)
		assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)))
	})
	s := httptest.NewServer(r)
	defer s.Close()
	resp, err := s.Client().Get(s.URL + "/orders/42")
	if assert.NoError(t, err) {
		_ = resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
}
