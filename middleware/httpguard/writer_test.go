package httpguard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

// use calls every optional ability that w has, and returns how often each was
// called.
func use(t *testing.T, w http.ResponseWriter) map[string]int {
	t.Helper()
	used := map[string]int{}
	if a, ok := w.(http.Flusher); ok {
		used["Flush"]++
		a.Flush()
	}
	if a, ok := w.(http.Hijacker); ok {
		used["Hijack"]++
		_, _, err := a.Hijack()
		assert.NoError(t, err)
	}
	if a, ok := w.(io.ReaderFrom); ok {
		used["ReadFrom"]++
		n, err := a.ReadFrom(strings.NewReader("abc"))
		assert.NoError(t, err)
		assert.Equal(t, int64(3), n)
	}
	if a, ok := w.(http.Pusher); ok {
		used["Push"]++
		assert.NoError(t, a.Push("/style.css", nil))
	}
	if a, ok := w.(interface{ CloseNotify() <-chan bool }); ok {
		used["CloseNotify"]++
		a.CloseNotify()
	}
	return used
}

func TestTheHandlersWriterHasExactlyTheAbilitiesOfTheOriginal(t *testing.T) {
	l := newLocks(t)
	all := []string{"Flush", "Hijack", "ReadFrom", "Push", "CloseNotify"}
	for set := range 32 {
		want := map[string]int{}
		for bit, name := range all {
			if set>>bit&1 == 1 {
				want[name] = 1
			}
		}
		p := &plain{httptest.NewRecorder(), map[string]int{}}
		original := abilities(p)[set]
		assert.Equal(t, want, use(t, original), "the test's own writer")
		clear(p.calls)
		lock := byID(l)
		r := get(t.Context(), "/")
		r.SetPathValue("id", "42")
		lock(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			assert.Equal(t, want, use(t, w), "offered")
		})).ServeHTTP(original, r)
		assert.Equal(t, want, p.calls, "arrived at the original")
	}
}

// controlled has the abilities that only a ResponseController reaches.
type controlled struct {
	http.ResponseWriter
	flush error
}

func (c controlled) FlushError() error       { return c.flush }
func (c controlled) EnableFullDuplex() error { return errNetwork }

// hidden is a wrapper as many programs have one.
type hidden struct{ http.ResponseWriter }

func (h hidden) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func TestAResponseControllerReachesTheOriginal(t *testing.T) {
	l := newLocks(t)
	in := func(w http.ResponseWriter, f func(*http.ResponseController)) {
		r := get(t.Context(), "/")
		r.SetPathValue("id", "42")
		byID(l)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			f(http.NewResponseController(w))
		})).ServeHTTP(w, r)
	}
	in(hidden{controlled{httptest.NewRecorder(), errNetwork}}, func(c *http.ResponseController) {
		assert.Equal(t, errNetwork, c.Flush(), "its error is not lost")
		assert.Equal(t, errNetwork, c.EnableFullDuplex())
	})
	p := &plain{httptest.NewRecorder(), map[string]int{}}
	in(p, func(c *http.ResponseController) {
		assert.ErrorIs(t, c.Flush(), http.ErrNotSupported)
		_, _, err := c.Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
	})
	in(hidden{abilities(p)[3]}, func(c *http.ResponseController) {
		assert.NoError(t, c.Flush())
		_, _, err := c.Hijack()
		assert.NoError(t, err)
	})
	assert.Equal(t, map[string]int{"Flush": 1, "Hijack": 1}, p.calls)
}

// Whatever starts the response must be noticed: a 500 in the middle of one would
// be taken for its content.
func TestALostLeaseAbortsAStartedResponseHoweverItWasStarted(t *testing.T) {
	rc := http.NewResponseController
	for name, tc := range map[string]struct {
		start  func(http.ResponseWriter) error
		aborts bool
	}{
		"nothing":          {func(http.ResponseWriter) error { return nil }, false},
		"headers only":     {func(w http.ResponseWriter) error { w.Header().Set("A", "b"); return nil }, false},
		"WriteHeader":      {func(w http.ResponseWriter) error { w.WriteHeader(http.StatusNoContent); return nil }, true},
		"WriteHeader, 4xx": {func(w http.ResponseWriter) error { w.WriteHeader(http.StatusBadRequest); return nil }, true},
		"WriteHeader, 5xx": {func(w http.ResponseWriter) error { w.WriteHeader(http.StatusBadGateway); return nil }, false},
		"WriteHeader, twice": {func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusInternalServerError)
			return nil
		}, true},
		"WriteHeader, 101":    {func(w http.ResponseWriter) error { w.WriteHeader(http.StatusSwitchingProtocols); return nil }, true},
		"Write":               {func(w http.ResponseWriter) error { _, err := w.Write(nil); return err }, true},
		"WriteString":         {func(w http.ResponseWriter) error { _, err := io.WriteString(w, "x"); return err }, true},
		"Flush":               {func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil }, true},
		"Flush by controller": {func(w http.ResponseWriter) error { return rc(w).Flush() }, true},
		"ReadFrom": {func(w http.ResponseWriter) error {
			_, err := io.Copy(w, onlyReader{strings.NewReader("x")})
			return err
		}, true},
		"Hijack":               {func(w http.ResponseWriter) error { _, _, err := w.(http.Hijacker).Hijack(); return err }, false},
		"Hijack by controller": {func(w http.ResponseWriter) error { _, _, err := rc(w).Hijack(); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocks(t)
			l.store.release = func(context.Context, guard.Lease) error { return guard.ErrLost }
			rec := httptest.NewRecorder()
			p := &plain{rec, map[string]int{}}
			r := get(t.Context(), "/")
			r.SetPathValue("id", "42")
			var panicked any
			func() {
				defer func() { panicked = recover() }()
				byID(l)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					assert.NoError(t, tc.start(w))
				})).ServeHTTP(abilities(p)[7], r)
			}()
			if tc.aborts {
				assert.Equal(t, http.ErrAbortHandler, panicked)
			} else {
				assert.Nil(t, panicked)
			}
			switch {
			case name == "nothing" || name == "headers only":
				assert.Equal(t, "lost", problemIn(t, rec).Code)
			case strings.HasPrefix(name, "Hijack"):
				assert.Empty(t, rec.Body.String(), "nothing is written to a connection that was taken over")
				assert.Empty(t, rec.Header())
			default:
				assert.NotContains(t, rec.Body.String(), "lost")
			}
		})
	}
}

// A flush that is not supported, and a hijack that failed, started nothing.
func TestFailedAttemptsStartNoResponse(t *testing.T) {
	for name, w := range map[string]func(*httptest.ResponseRecorder) http.ResponseWriter{
		"flush":  func(r *httptest.ResponseRecorder) http.ResponseWriter { return &plain{r, nil} },
		"hijack": func(r *httptest.ResponseRecorder) http.ResponseWriter { return noHijack{r} },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocks(t)
			l.store.release = func(context.Context, guard.Lease) error { return guard.ErrLost }
			rec := httptest.NewRecorder()
			r := get(t.Context(), "/")
			r.SetPathValue("id", "42")
			byID(l)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if name == "flush" {
					assert.Error(t, http.NewResponseController(w).Flush())
					return
				}
				_, _, err := http.NewResponseController(w).Hijack()
				assert.Error(t, err)
			})).ServeHTTP(w(rec), r)
			require.Equal(t, 500, rec.Code)
			assert.Equal(t, "lost", problemIn(t, rec).Code)
		})
	}
}

type onlyReader struct{ io.Reader }
