package httpguard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// writer notices whether the response was started, and with which status. What
// it does not have itself is reached through expose and Unwrap.
type writer struct {
	http.ResponseWriter
	started  bool // status line and headers are settled, or the connection is the handler's
	hijacked bool
	status   int
}

func (w *writer) start(status int) {
	if !w.started {
		w.started, w.status = true, status
	}
}

// WriteHeader leaves the response unstarted for an informational status: the
// final one is still to come.
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.start(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.start(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// WriteString spares the copy where the original can.
func (w *writer) WriteString(s string) (int, error) {
	w.start(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// FlushError is where a ResponseController flushes. It answers as the original
// does, with http.ErrNotSupported if that cannot flush.
func (w *writer) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.start(http.StatusOK)
	}
	return err
}

// Unwrap leads a ResponseController to the original.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type flusher struct{ *writer }

func (w flusher) Flush() { _ = w.FlushError() } // Flusher has no way to tell

type hijacker struct{ *writer }

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		w.started, w.hijacked = true, true
	}
	return conn, rw, err
}

type readerFrom struct{ *writer }

func (w readerFrom) ReadFrom(r io.Reader) (int64, error) {
	w.start(http.StatusOK)
	return w.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

// closeNotifier is http.CloseNotifier, which is deprecated and still asserted by
// frameworks.
type closeNotifier interface{ CloseNotify() <-chan bool }
