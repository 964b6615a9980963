package otelx_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

// What a request lacks, and how a handler leaves, is no failure of the lock.
func TestRequestsThatTakeNoLockHaveNoSpan(t *testing.T) {
	for name, tc := range map[string]struct {
		key   httpguard.Key
		do    http.HandlerFunc
		spans []string
	}{
		"no key":    {key: httpguard.Header("Order"), do: ok},
		"bad name":  {key: httpguard.PathValue("long"), do: ok},
		"skipped":   {key: func(*http.Request) ([]string, error) { return nil, httpguard.ErrSkip }, do: ok},
		"processed": {key: httpguard.PathValue("id"), do: ok, spans: []string{"lock order Unset outcome=acquired attempts=1"}},
		"handler aborts": {
			key: httpguard.PathValue("id"), do: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			spans: []string{"lock order Unset outcome=acquired attempts=1"},
		},
		"handler panics": {
			key: httpguard.PathValue("id"), do: func(http.ResponseWriter, *http.Request) { panic("bug") },
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=panic"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newTelemetry())
			mux := http.NewServeMux()
			mux.Handle("/{id}/{long}", httpguard.New(s.orders, tc.key)(tc.do))
			func() {
				defer func() { _ = recover() }()
				mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/42/"+strings.Repeat("x", 600), nil))
			}()
			assert.Equal(t, tc.spans, s.traces())
			if tc.spans == nil {
				assert.Empty(t, s.metrics(t))
			}
		})
	}
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func TestTenThousandPathsAndPeersMakeAFewSeries(t *testing.T) {
	tel := newTelemetry()
	g, err := guard.New(memstore.New(), guard.Observe(tel))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/{id}", httpguard.New(guard.Must(g.Class("order")), httpguard.PathValue("id"))(http.HandlerFunc(ok)))
	for range 10_000 {
		secret := fmt.Sprintf("secret-%x", rand.Uint64())
		r := httptest.NewRequest(http.MethodPost, "/"+secret, nil)
		r.Host, r.RemoteAddr = secret, secret
		r.Header.Set("User-Agent", secret)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
	}
	tel.fewSeries(t)
}
