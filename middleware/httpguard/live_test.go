package httpguard_test

import (
	"bufio"
	"bytes"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

func TestServerSentEventsReachTheClientWhileTheHandlerRuns(t *testing.T) {
	for proto, start := range map[string]func(*testing.T, http.Handler) *httptest.Server{"HTTP/1.1": live, "HTTP/2.0": liveHTTP2} {
		t.Run(proto, func(t *testing.T) {
			l := newLocks(t)
			arrived := make(chan struct{})
			s := start(t, routed(byID(l), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 3 {
					_, _ = io.WriteString(w, "data: tick\n")
					w.(http.Flusher).Flush()
					select {
					case <-arrived:
					case <-r.Context().Done():
						return
					}
				}
			}))
			resp, err := s.Client().Get(s.URL + "/orders/42")
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, proto, resp.Proto)
			lines := bufio.NewScanner(resp.Body)
			for range 3 {
				require.True(t, lines.Scan())
				assert.Equal(t, "data: tick", lines.Text())
				assert.False(t, l.free(t))
				arrived <- struct{}{}
			}
			assert.False(t, lines.Scan())
			l.over(t)
		})
	}
}

// A client that sends its next request as soon as it has the answer may meet its
// own lock; it waits a moment then.
func TestALargeResponseEndsForTheClientBeforeTheLockIsFree(t *testing.T) {
	const size = 64 << 10
	l := newLocks(t)
	read := make(chan struct{})
	s := live(t, routed(byID(l), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(make([]byte, size))
		<-read
	}))
	resp, err := s.Client().Get(s.URL + "/orders/42")
	require.NoError(t, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	assert.Equal(t, int64(size), n)
	assert.False(t, l.free(t))
	close(read)
	l.over(t)
}

func TestAStreamWhoseLeaseIsLostBreaksOff(t *testing.T) {
	l := newLocks(t, guard.MaxHold(50*time.Millisecond))
	s := live(t, routed(byID(l), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: tick\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	resp, err := s.Client().Get(s.URL + "/orders/42")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A small response is still in the server's buffer when the release finds the
// lease gone.
func TestASmallResponseIsNotSentIfTheReleaseFindsTheLeaseGone(t *testing.T) {
	l := newLocks(t, guard.MaxHold(50*time.Millisecond))
	s := live(t, routed(byID(l), func(w http.ResponseWriter, r *http.Request) { ok(w, r); <-r.Context().Done() }))
	_, err := s.Client().Get(s.URL + "/orders/42") //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, io.EOF)
}

// The lock belongs to the handler, whatever becomes of the connection.
func TestAHijackedConnectionOutlivesTheLock(t *testing.T) {
	l := newLocks(t)
	finish := make(chan struct{})
	s := live(t, routed(byID(l), func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, rw)
		}()
		<-finish
	}))
	conn, in := dial(t, s, "GET /orders/42 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	head, err := in.ReadMIMEHeaderAfter("HTTP/1.1 101 Switching Protocols")
	require.NoError(t, err)
	assert.Equal(t, "echo", head.Get("Upgrade"))
	echo := func(line string) {
		_, err := io.WriteString(conn, line+"\n")
		require.NoError(t, err)
		got, err := in.ReadLine()
		require.NoError(t, err)
		assert.Equal(t, line, got)
	}
	echo("held")
	assert.False(t, l.free(t))
	close(finish)
	l.over(t)
	echo("and still there")
}

type wire struct{ *textproto.Reader }

func (w wire) ReadMIMEHeaderAfter(status string) (textproto.MIMEHeader, error) {
	line, err := w.ReadLine()
	if err != nil || line != status {
		return nil, &net.ParseError{Type: "status line", Text: line}
	}
	return w.ReadMIMEHeader()
}

func dial(t *testing.T, s *httptest.Server, request string) (net.Conn, wire) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn, wire{textproto.NewReader(bufio.NewReader(conn))}
}

func TestARefusedClientIsNotAskedForItsBody(t *testing.T) {
	const request = "POST /orders/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
	l := newLocks(t)
	s := live(t, routed(byID(l, httpguard.MaxWait(0)), func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "body", string(b))
	}))
	leave := l.rival(t, time.Minute)
	_, in := dial(t, s, request)
	_, err := in.ReadMIMEHeaderAfter("HTTP/1.1 409 Conflict")
	require.NoError(t, err)

	leave()
	conn, in := dial(t, s, request)
	_, err = in.ReadMIMEHeaderAfter("HTTP/1.1 100 Continue")
	require.NoError(t, err)
	_, err = io.WriteString(conn, "body")
	require.NoError(t, err)
	_, err = in.ReadMIMEHeaderAfter("HTTP/1.1 200 OK")
	require.NoError(t, err)
}

func TestAnEarlyHintLeavesRoomForTheFinalStatus(t *testing.T) {
	l := newLocks(t, guard.MaxHold(50*time.Millisecond))
	s := live(t, routed(byID(l), func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		<-r.Context().Done()
	}))
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/orders/42", nil)
	require.NoError(t, err)
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, 1, hints)
	assert.Equal(t, 500, resp.StatusCode)
	assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
}

// net/http removes the files of a form that it finds in the request it made.
func TestUploadedFilesAreRemovedAfterTheRequest(t *testing.T) {
	l := newLocks(t)
	var name string
	s := live(t, routed(byID(l), func(_ http.ResponseWriter, r *http.Request) {
		if !assert.NoError(t, r.ParseMultipartForm(0)) {
			return
		}
		f, err := r.MultipartForm.File["file"][0].Open()
		if assert.NoError(t, err) {
			name = f.(*os.File).Name()
			_ = f.Close()
		}
	}))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.bin")
	require.NoError(t, err)
	_, err = part.Write(bytes.Repeat([]byte("x"), 1<<10))
	require.NoError(t, err)
	require.NoError(t, form.Close())
	resp, err := s.Client().Post(s.URL+"/orders/42", form.FormDataContentType(), &body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NotEmpty(t, name)
	eventually(t, "the file is gone", func() bool { _, err := os.Stat(name); return os.IsNotExist(err) })
}

func TestMiddlewaresOutsideSeeThePatternThatMatchedInside(t *testing.T) {
	l := newLocks(t)
	inner := http.NewServeMux()
	inner.HandleFunc("GET /orders/{id}/pay", ok)
	lock := httpguard.New(l.class, httpguard.Query("user"))
	r := get(t.Context(), "/orders/42/pay?user=u")
	w, _ := serve(lock(inner), r)
	assert.Equal(t, 200, w.Code)
	assert.Equal(t, "GET /orders/{id}/pay", r.Pattern)
}

func TestInsideATimeoutHandlerTheLockLastsAsLongAsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t)
		h := http.TimeoutHandler(routed(byID(l), func(http.ResponseWriter, *http.Request) {
			time.Sleep(3 * time.Second)
		}), time.Second, "too late")
		start := time.Now()
		w, _ := serve(h, get(t.Context(), "/orders/42"))
		assert.Equal(t, 503, w.Code)
		assert.Equal(t, "too late", w.Body.String())
		assert.Equal(t, time.Second, time.Since(start))
		assert.False(t, l.free(t), "its handler still runs")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.True(t, l.free(t))
		require.NoError(t, l.Close(t.Context()))
	})
}

func TestAroundATimeoutHandlerTheLockIsReleasedTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t)
		var running atomic.Bool
		h := routed(byID(l), http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			running.Store(true)
			time.Sleep(3 * time.Second)
			running.Store(false)
		}), time.Second, "too late").ServeHTTP)
		w, _ := serve(h, get(t.Context(), "/orders/42"))
		assert.Equal(t, 503, w.Code)
		assert.True(t, running.Load())
		assert.True(t, l.free(t), "this is why the order of middlewares matters")
		time.Sleep(3 * time.Second)
	})
}

func TestInsideATimeoutHandlerARefusalComesBeforeItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t)
		l.rival(t, time.Minute)
		start := time.Now()
		w, _ := serve(http.TimeoutHandler(routed(byID(l), unreached(t)), time.Second, "too late"), get(t.Context(), "/orders/42"))
		assert.Equal(t, 409, w.Code)
		assert.Equal(t, "contended", problemIn(t, w).Code)
		assert.Equal(t, 900*time.Millisecond, time.Since(start))
		require.NoError(t, l.Close(t.Context()))
	})
}

func TestInsideATimeoutHandlerALostLeaseDropsTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t, guard.MaxHold(100*time.Millisecond))
		w, panicked := serve(http.TimeoutHandler(routed(byID(l), func(w http.ResponseWriter, r *http.Request) {
			_, flushes := w.(http.Flusher)
			assert.False(t, flushes, "it has none to offer")
			_, pushes := w.(http.Pusher)
			assert.True(t, pushes)
			ok(w, r)
			<-r.Context().Done()
		}), time.Second, "too late"), get(t.Context(), "/orders/42"))
		assert.Equal(t, http.ErrAbortHandler, panicked)
		assert.NotContains(t, w.Body.String(), "done")
		require.NoError(t, l.Close(t.Context()))
	})
}
