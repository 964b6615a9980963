package httpguard_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

// locks is a class "order" on a store of its own, watched, with a layer that can
// be made to fail.
type locks struct {
	*guard.Guard
	class *guard.Class
	store *layer
	seen  *recorder
}

func newLocks(t *testing.T, ps ...guard.Policy) *locks {
	t.Helper()
	l := &locks{store: &layer{Locker: memstore.New()}, seen: &recorder{}}
	var err error
	l.Guard, err = guard.New(l.store, guard.Observe(l.seen))
	require.NoError(t, err)
	l.class, err = l.Class("order", ps...)
	require.NoError(t, err)
	return l
}

// layer puts functions in front of a store. A nil function passes.
type layer struct {
	guard.Locker
	acquire func(context.Context, guard.Request) (guard.Lease, error)
	release func(context.Context, guard.Lease) error
	calls   atomic.Int32
}

func (l *layer) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	l.calls.Add(1)
	if l.acquire != nil {
		return l.acquire(ctx, r)
	}
	return l.Locker.Acquire(ctx, r)
}

func (l *layer) Release(ctx context.Context, lease guard.Lease) error {
	if l.release != nil {
		return l.release(ctx, lease)
	}
	return l.Locker.Release(ctx, lease)
}

// rival takes order/42 for ttl like another process.
func (l *locks) rival(t *testing.T, ttl time.Duration) (leave func()) {
	t.Helper()
	lease, err := l.store.Locker.Acquire(t.Context(), guard.Request{
		Name: "order/42", Owner: "rivalrivalrivalrival22", TTL: ttl, Label: "secret-host:1",
	})
	require.NoError(t, err)
	return func() { assert.NoError(t, l.store.Locker.Release(context.Background(), lease)) }
}

// free tells whether somebody new would be granted order/42.
func (l *locks) free(t *testing.T) bool {
	t.Helper()
	lease, err := l.store.Locker.Acquire(context.Background(), guard.Request{
		Name: "order/42", Owner: "probeprobeprobeprobe22", TTL: time.Second,
	})
	if err != nil {
		require.ErrorIs(t, err, guard.ErrHeld)
		return false
	}
	require.NoError(t, l.store.Locker.Release(context.Background(), lease))
	return true
}

// over waits for the end of one call, and requires order/42 to be free by then.
func (l *locks) over(t *testing.T) {
	t.Helper()
	eventually(t, "ended", func() bool { n, _ := l.seen.ended(); return n == 1 })
	require.True(t, l.free(t))
}

// recorder is an observer that keeps what it sees.
type recorder struct {
	mu       sync.Mutex
	calls    []guard.Call
	events   []guard.Event
	outcomes []guard.Outcome
}

func (r *recorder) Begin(ctx context.Context, c guard.Call) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return ctx
}

func (r *recorder) Event(_ context.Context, e guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) End(_ context.Context, o guard.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

// ended is how many calls are over, and how the last one ended.
func (r *recorder) ended() (int, guard.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.outcomes) == 0 {
		return 0, guard.Outcome{}
	}
	return len(r.outcomes), r.outcomes[len(r.outcomes)-1]
}

// count is how many events of a kind there were.
func (r *recorder) count(k guard.Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// eventually waits for a condition that nobody announces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 10*time.Second, time.Millisecond, what)
}

// routed mounts h under lock at "/orders/{id}", as programs do.
func routed(lock func(http.Handler) http.Handler, h http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/orders/{id}", lock(h))
	return mux
}

// serve runs a request through h without a network, and gives back a panic.
func serve(h http.Handler, r *http.Request) (w *httptest.ResponseRecorder, panicked any) {
	w = httptest.NewRecorder()
	defer func() { panicked = recover() }()
	h.ServeHTTP(w, r)
	return w, nil
}

func get(ctx context.Context, target string) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
}

// live serves h on a loopback port until the test ends.
func live(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

type details struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

func problemIn(t *testing.T, w *httptest.ResponseRecorder) details {
	t.Helper()
	assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	var d details
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d), w.Body.String())
	assert.Equal(t, w.Code, d.Status)
	assert.NotEmpty(t, d.Title)
	assert.NotEmpty(t, d.Detail)
	assert.NotEmpty(t, d.Type)
	return d
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }

// unreached is a handler that must not run.
func unreached(t *testing.T) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { assert.Fail(t, "the handler ran") }
}

func byID(l *locks, opts ...httpguard.Option) func(http.Handler) http.Handler {
	return httpguard.New(l.class, httpguard.PathValue("id"), opts...)
}
