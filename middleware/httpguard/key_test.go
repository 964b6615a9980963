package httpguard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

func key(parts []string, err error) httpguard.Key {
	return func(*http.Request) ([]string, error) { return parts, err }
}

func TestKeysTakeTheirPartsFromTheRequest(t *testing.T) {
	for _, tc := range []struct {
		name   string
		key    httpguard.Key
		target string
		header http.Header
		want   string // the lock's name; "" if the request is refused with 400
		detail string
	}{
		{name: "path", key: httpguard.PathValue("id"), target: "/orders/42", want: "order/42"},
		{name: "path, decoded", key: httpguard.PathValue("id"), target: "/orders/a%2Fb%7B", want: "order/a%2Fb%7B"},
		{name: "two of the path", key: httpguard.PathValue("tenant", "id"), target: "/t/acme/orders/42", want: "order/acme/42"},
		{name: "rest of the path, empty", key: httpguard.PathValue("rest"), target: "/rest/", detail: `the path value "rest" is empty`},
		{name: "rest of the path", key: httpguard.PathValue("rest"), target: "/rest/a/b", want: "order/a%2Fb"},
		{name: "header", key: httpguard.Header("idempotency-key"), target: "/", header: http.Header{"Idempotency-Key": {"k1"}}, want: "order/k1"},
		{name: "no header", key: httpguard.Header("idempotency-key"), target: "/", detail: `the header "Idempotency-Key" is missing or empty`},
		{name: "empty header", key: httpguard.Header("A"), target: "/", header: http.Header{"A": {""}}, detail: `the header "A" is missing or empty`},
		{name: "two headers", key: httpguard.Header("A"), target: "/", header: http.Header{"A": {"1", "2"}}, detail: `the header "A" has 2 values`},
		{name: "query", key: httpguard.Query("user"), target: "/?user=u%201", want: "order/u 1"},
		{name: "no query", key: httpguard.Query("user"), target: "/?u=1", detail: `the query parameter "user" is missing or empty`},
		{name: "two queries", key: httpguard.Query("user"), target: "/?user=1&user=2", detail: `the query parameter "user" has 2 values`},
		{
			name: "joined", key: httpguard.Join(httpguard.PathValue("id"), httpguard.Header("A"), httpguard.Query("user")),
			target: "/orders/42?user=u", header: http.Header{"A": {"1"}}, want: "order/42/1/u",
		},
		{name: "joined, one is missing", key: httpguard.Join(httpguard.PathValue("id"), httpguard.Query("user")), target: "/orders/42", detail: `the query parameter "user" is missing or empty`},
		{name: "own", key: key([]string{"a", "b"}, nil), target: "/", want: "order/a/b"},
		{name: "own, no parts", key: key(nil, nil), target: "/", detail: "the lock key is empty"},
		{name: "own, an empty part", key: key([]string{"a", ""}, nil), target: "/", detail: "the lock key is empty"},
		{name: "own error, text not shown", key: key(nil, errors.New("secret")), target: "/", detail: "The request has no usable lock key."},
		{name: "as long as can be", key: key([]string{strings.Repeat("x", 506)}, nil), target: "/", want: "order/" + strings.Repeat("x", 506)},
		{name: "one byte more", key: key([]string{strings.Repeat("x", 507)}, nil), target: "/", detail: "the lock key is too long"},
		{name: "10 kB", key: httpguard.PathValue("id"), target: "/orders/" + strings.Repeat("x", 10_000), detail: "the lock key is too long"},
		{name: "too long by escaping", key: httpguard.PathValue("id"), target: "/orders/" + strings.Repeat("%7B", 200), detail: "the lock key is too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLocks(t)
			ran := false
			h := httpguard.New(l.class, tc.key)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
			mux := http.NewServeMux()
			mux.Handle("/{$}", h)
			mux.Handle("/orders/{id}", h)
			mux.Handle("/t/{tenant}/orders/{id}", h)
			mux.Handle("/rest/{rest...}", h)
			r := get(t.Context(), tc.target)
			maps.Copy(r.Header, tc.header)
			w, _ := serve(mux, r)
			if tc.want != "" {
				require.Equal(t, 200, w.Code, w.Body)
				assert.True(t, ran)
				_, o := l.seen.ended()
				assert.Equal(t, tc.want, o.Name)
				return
			}
			require.Equal(t, 400, w.Code)
			assert.False(t, ran)
			d := problemIn(t, w)
			assert.Equal(t, tc.detail, d.Detail)
			assert.Equal(t, "invalid", d.Code)
			assert.Empty(t, w.Header().Get("Retry-After"))
			assert.Empty(t, l.seen.calls, "there is no lock to watch")
		})
	}
}

func TestSkippedRequestsRunWithoutALockAndWithTheirOwnWriter(t *testing.T) {
	l := newLocks(t)
	lock := httpguard.New(l.class, httpguard.Join(key([]string{"x"}, nil), key(nil, httpguard.ErrSkip)))
	var got http.ResponseWriter
	w, _ := serve(lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = w
		assert.Zero(t, fence.From(r.Context()))
	})), get(t.Context(), "/"))
	assert.Same(t, w, got)
	assert.Empty(t, l.seen.calls)
}

func TestAKeyCanRefuseAStaleToken(t *testing.T) {
	l := newLocks(t)
	lock := httpguard.New(l.class, key(nil, &fence.StaleError{Name: "x", Presented: 1, Seen: 2}))
	w, _ := serve(lock(unreached(t)), get(t.Context(), "/"))
	assert.Equal(t, 412, w.Code)
	assert.Equal(t, "fence_stale", problemIn(t, w).Code)
}

func TestAMisplacedLockFailsClosedAndIsLoggedOnce(t *testing.T) {
	for name, mount := range map[string]func(lock func(http.Handler) http.Handler, h http.Handler) http.Handler{
		"around the mux": func(lock func(http.Handler) http.Handler, h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/orders/{id}", h)
			return lock(mux)
		},
		"with another wildcard": func(lock func(http.Handler) http.Handler, h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/orders/{number}", lock(h))
			return mux
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			l := newLocks(t)
			h := mount(byID(l), unreached(t))
			for range 3 {
				w, _ := serve(h, get(t.Context(), "/orders/42"))
				assert.Equal(t, 500, w.Code)
				assert.Equal(t, "invalid", problemIn(t, w).Code)
			}
			assert.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			assert.Contains(t, log.String(), `has no wildcard`)
			assert.Empty(t, l.seen.calls)
		})
	}
}

// Clients choose what is in a path. Whatever they choose, different values are
// different locks, in the route's class, in one Cluster slot each.
func TestRandomPathsNeitherCollideNorInject(t *testing.T) {
	l := newLocks(t)
	h := byID(l)(http.HandlerFunc(ok)) // without a mux, which refuses some paths by itself
	rnd := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", "b", "/", ":", "{", "}", "%", "%2F", "%25", "..", "é", "\x00", "\n", "\xff", "*", "[", "order/", " ", "?", "#", "~"}
	byName := map[string]string{}
	for range 10_000 {
		var id strings.Builder
		for range 1 + rnd.IntN(6) {
			id.WriteString(alphabet[rnd.IntN(len(alphabet))])
		}
		r := get(t.Context(), "/")
		r.SetPathValue("id", id.String())
		w, _ := serve(h, r)
		require.Equal(t, 200, w.Code, "%q", id.String())
		_, o := l.seen.ended()
		if other, known := byName[o.Name]; known {
			require.Equal(t, other, id.String(), "two values share a lock")
		}
		byName[o.Name] = id.String()
		value, found := strings.CutPrefix(o.Name, "order/")
		require.True(t, found, o.Name)
		require.False(t, strings.ContainsAny(value, "/{}\n\x00"), o.Name)
		require.Equal(t, "order", o.Class)
	}
	assert.Greater(t, len(byName), 5_000)
}

func TestWrongUsePanicsWhenTheRouteIsMade(t *testing.T) {
	l := newLocks(t)
	some := key([]string{"x"}, nil)
	for name, f := range map[string]func(){
		"nil class":         func() { httpguard.New(nil, some) },
		"nil key":           func() { httpguard.New(l.class, nil) },
		"nil handler":       func() { httpguard.New(l.class, some)(nil) },
		"negative wait":     func() { httpguard.MaxWait(-1) },
		"nil responder":     func() { httpguard.Respond(nil) },
		"no path value":     func() { httpguard.PathValue() },
		"empty path value":  func() { httpguard.PathValue("id", "") },
		"empty header":      func() { httpguard.Header("") },
		"empty query":       func() { httpguard.Query("") },
		"nothing to join":   func() { httpguard.Join() },
		"nil key in a join": func() { httpguard.Join(some, nil) },
	} {
		t.Run(name, func(t *testing.T) { assert.Panics(t, f) })
	}
}

func TestTwoRoutesWithOneClassAndKeyExcludeEachOther(t *testing.T) {
	l := newLocks(t)
	lock := byID(l, httpguard.MaxWait(0))
	mux := http.NewServeMux()
	refused := 0
	mux.Handle("/cancel/{id}", lock(unreached(t)))
	mux.Handle("/other/{id}", lock(http.HandlerFunc(ok)))
	mux.Handle("/pay/{id}", lock(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		for target, want := range map[string]int{"/cancel/42": 409, "/other/43": 200} {
			w, _ := serve(mux, get(context.Background(), target))
			assert.Equal(t, want, w.Code)
			refused++
		}
	})))
	serve(mux, get(t.Context(), "/pay/42"))
	assert.Equal(t, 2, refused)
}
