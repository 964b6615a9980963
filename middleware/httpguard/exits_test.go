package httpguard_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

// lockedBuffer is where a server logs to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestEveryWayOutOfAHandlerReleases(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		status  int    // 0: the connection breaks off
		logged  string // by the server
	}{
		"plain":     {ok, 200, ""},
		"no write":  {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"redirect":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, 302, ""},
		"not found": {http.NotFound, 404, ""},
		"serve content": {func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("abc"))
		}, 200, ""},
		"stream": {func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "data: x\n\n")
				w.(http.Flusher).Flush()
			}
		}, 200, ""},
		"hijack": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				_ = conn.Close()
			}
		}, 204, ""},
		"panic":  {func(http.ResponseWriter, *http.Request) { panic("a bug of the handler") }, 0, "a bug of the handler"},
		"abort":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, ""},
		"Goexit": {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 0, ""},
		"longer than the TTL": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				assert.Fail(t, "the lease was lost")
			case <-time.After(1300 * time.Millisecond):
			}
		}, 200, ""},
		"the client leaves in the middle of its body": {func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			assert.Error(t, err)
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocks(t, guard.TTL(time.Second))
			var serverLog lockedBuffer
			s := httptest.NewUnstartedServer(routed(byID(l), tc.handler))
			s.Config.ErrorLog = log.New(&serverLog, "", 0)
			s.Start()
			defer s.Close()
			if strings.HasPrefix(name, "the client leaves") {
				conn, err := net.Dial("tcp", s.Listener.Addr().String())
				require.NoError(t, err)
				_, err = io.WriteString(conn, "POST /orders/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
				require.NoError(t, err)
				eventually(t, "granted", func() bool { return l.seen.count(guard.Granted) == 1 })
				require.NoError(t, conn.Close())
			} else {
				client := s.Client()
				client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				resp, err := client.Get(s.URL + "/orders/42")
				if tc.status == 0 {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					assert.Equal(t, tc.status, resp.StatusCode)
				}
			}
			l.over(t)
			require.NoError(t, l.Close(t.Context()))
			if tc.logged == "" {
				assert.Empty(t, serverLog.String())
			} else {
				eventually(t, "logged", func() bool { return strings.Contains(serverLog.String(), tc.logged) })
			}
		})
	}
}

// Users hang up after a moment; what they asked for must not be done after that,
// and nobody waits behind them.
func TestClientsThatLeaveMakeRoomForThoseWhoStay(t *testing.T) {
	for name, pick := range map[string]func(*memstore.Store) guard.Locker{
		"exclusive": func(s *memstore.Store) guard.Locker { return s },
		"fair":      func(s *memstore.Store) guard.Locker { return s.Fair() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocks(t)
				l.store.Locker = pick(l.store.Locker.(*memstore.Store))
				start := time.Now()
				time.AfterFunc(3*time.Second, l.rival(t, time.Minute))
				ran := 0
				h := routed(byID(l), func(http.ResponseWriter, *http.Request) {
					ran++
					assert.Equal(t, 3*time.Second, time.Since(start), "entered when the rival left")
				})
				var left sync.WaitGroup
				for range 100 {
					ctx, leave := context.WithTimeoutCause(t.Context(), time.Minute, nil)
					time.AfterFunc(500*time.Millisecond, leave)
					left.Go(func() {
						w, _ := serve(h, get(ctx, "/orders/42"))
						assert.Equal(t, 499, w.Code)
						assert.Equal(t, 500*time.Millisecond, time.Since(start))
					})
				}
				left.Wait()
				time.Sleep(1500 * time.Millisecond)
				w, _ := serve(h, get(t.Context(), "/orders/42"))
				assert.Equal(t, 200, w.Code)
				assert.Equal(t, 1, ran)
				assert.True(t, l.free(t))
				require.NoError(t, l.Close(t.Context()))
			})
		})
	}
}

// What net/http notices of a client that has left depends on protocol and body;
// it is why waiting has a limit of its own.
func TestWhichClientsAreSeenToLeave(t *testing.T) {
	drain := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			assert.NoError(t, err)
			next.ServeHTTP(w, r)
		})
	}
	none := func(next http.Handler) http.Handler { return next }
	for name, tc := range map[string]struct {
		request string
		outer   func(http.Handler) http.Handler
		wait    time.Duration
		want    string
	}{
		"no body":       {"GET /orders/42 HTTP/1.1\r\nHost: x\r\n\r\n", none, time.Minute, guard.ResultCanceled},
		"body was read": {"POST /orders/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", drain, time.Minute, guard.ResultCanceled},
		"unread body":   {"POST /orders/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", none, 300 * time.Millisecond, guard.ResultTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocks(t)
			l.rival(t, time.Minute)
			s := live(t, tc.outer(routed(byID(l, httpguard.MaxWait(tc.wait)), unreached(t))))
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			require.NoError(t, err)
			_, err = io.WriteString(conn, tc.request)
			require.NoError(t, err)
			eventually(t, "waiting", func() bool { return l.seen.count(guard.Waiting) == 1 })
			require.NoError(t, conn.Close())
			eventually(t, "ended", func() bool { n, _ := l.seen.ended(); return n == 1 })
			_, o := l.seen.ended()
			assert.Equal(t, tc.want, o.Result)
		})
	}
	t.Run("unread body, HTTP/2", func(t *testing.T) {
		l := newLocks(t)
		l.rival(t, time.Minute)
		s := liveHTTP2(t, routed(byID(l, httpguard.MaxWait(time.Minute)), unreached(t)))
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		body, feed := io.Pipe()
		defer feed.Close()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/orders/42", body)
		require.NoError(t, err)
		failed := make(chan error)
		go func() {
			resp, err := s.Client().Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			failed <- err
		}()
		eventually(t, "waiting", func() bool { return l.seen.count(guard.Waiting) == 1 })
		leave()
		require.ErrorIs(t, <-failed, context.Canceled)
		eventually(t, "ended", func() bool { n, _ := l.seen.ended(); return n == 1 })
		_, o := l.seen.ended()
		assert.Equal(t, guard.ResultCanceled, o.Result)
	})
}

func liveHTTP2(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		h.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// An empty reply would be a 200 for work that was never done.
func TestACancelledRequestWhoseClientIsThereDoesNotGetA200(t *testing.T) {
	l := newLocks(t)
	l.rival(t, time.Minute)
	base, shutdown := context.WithCancel(context.Background())
	s := httptest.NewUnstartedServer(routed(byID(l), unreached(t)))
	s.Config.BaseContext = func(net.Listener) context.Context { return base }
	s.Start()
	defer s.Close()
	status := make(chan int)
	go func() {
		resp, err := s.Client().Get(s.URL + "/orders/42")
		if assert.NoError(t, err) {
			_ = resp.Body.Close()
		}
		status <- resp.StatusCode
	}()
	eventually(t, "waiting", func() bool { return l.seen.count(guard.Waiting) == 1 })
	shutdown()
	assert.Equal(t, 499, <-status)
}

func TestAPanicOfTheHandlerKeepsItsStack(t *testing.T) {
	l := newLocks(t)
	var stack string
	recovery := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				assert.Equal(t, errNetwork, recover())
				buf := make([]byte, 1<<16)
				stack = string(buf[:runtime.Stack(buf, false)])
			}()
			next.ServeHTTP(w, r)
		})
	}
	serve(recovery(routed(byID(l), handlerWithABug)), get(t.Context(), "/orders/42"))
	assert.Contains(t, stack, "handlerWithABug")
	assert.True(t, l.free(t))
}

func handlerWithABug(http.ResponseWriter, *http.Request) { panic(errNetwork) }
