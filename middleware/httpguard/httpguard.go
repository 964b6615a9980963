package httpguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

// Option configures the middleware that [New] returns.
type Option func(*route)

// MaxWait limits how long a request waits for the lock: 0 or more, default 5 s.
// 0 means not to wait. A request waits less if the class says so, and never
// longer than nine tenths of what is left of its context's deadline or half of
// the server's WriteTimeout, so that the answer can still be sent. It panics if d
// is negative.
func MaxWait(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("httpguard: MaxWait(%v): want 0 or more", d))
	}
	return func(m *route) { m.maxWait = d }
}

// Respond replaces [Error] for all responses that are the middleware's own. f
// is called on the request's goroutine, before anything of the response was
// written, and writes all of it: if it writes nothing, the client gets a 200. err
// matches one of guard's errors, fence.ErrStale, [ErrBadRequest] or the error of
// the request's context. If it matches guard.ErrLost the handler has run,
// otherwise it has not and will not. It panics if f is nil.
func Respond(f func(w http.ResponseWriter, r *http.Request, err error)) Option {
	if f == nil {
		panic("httpguard: Respond: the function is nil")
	}
	return func(m *route) { m.respond = f }
}

// New returns a middleware that runs a handler while it holds the lock c.Name(k...),
// where k is what key returns for the request. Routes that share a class and a
// key exclude each other.
//
// Like [http.ServeMux.Handle], New panics if it is used wrongly: if c, key or
// the handler is nil.
//
// The handler's ResponseWriter is a wrapper that notices whether the response
// was started. It has Unwrap and of [http.Flusher], [http.Hijacker],
// [http.Pusher], [io.ReaderFrom] and CloseNotify exactly what the original has.
// A panic of the handler goes on with its value after the lease was given back.
//
// The middleware and its handlers are safe for concurrent use if key is.
func New(c *guard.Class, key Key, opts ...Option) func(http.Handler) http.Handler {
	if c == nil {
		panic("httpguard: New: the class is nil")
	}
	if key == nil {
		panic("httpguard: New: the key is nil")
	}
	base := route{class: c, key: key, maxWait: 5 * time.Second, respond: Error}
	for _, o := range opts {
		o(&base)
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httpguard: the handler is nil")
		}
		m := base
		m.next, m.mistake = next, new(sync.Once)
		return &m
	}
}

// route is one handler under a lock.
type route struct {
	class   *guard.Class
	key     Key
	maxWait time.Duration
	respond func(http.ResponseWriter, *http.Request, error)
	next    http.Handler
	mistake *sync.Once // logged
}

func (m *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, err := m.name(r)
	if errors.Is(err, ErrSkip) {
		m.next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	out := &writer{ResponseWriter: w}
	var ran, aborted bool
	err = guard.Do(r.Context(), name.Wait(m.patience(r.Context())), func(ctx context.Context) error {
		ran = true
		inner := r.WithContext(ctx)
		defer handBack(r, inner)
		aborted = m.run(out.expose(), inner)
		return nil
	})
	switch {
	case aborted:
		panic(http.ErrAbortHandler)
	case err == nil:
	case !ran:
		m.refuse(w, r, err)
	case !out.started:
		m.respond(w, r, err)
	case !out.hijacked && out.status < http.StatusInternalServerError:
		panic(http.ErrAbortHandler)
	}
}

// run keeps http.ErrAbortHandler from the lock: with it a handler asks the
// server for something, and it is no failure of the work.
func (m *route) run(w http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			aborted = true
		default:
			panic(p) // from here, so that the stack still shows where it began
		}
	}()
	m.next.ServeHTTP(w, r)
	return false
}

// name is the lock of the request. What the request lacks is found here, before
// the lock service hears of it.
func (m *route) name(r *http.Request) (guard.Name, error) {
	parts, err := m.key(r)
	switch {
	case err == nil:
	case errors.Is(err, ErrSkip), errors.Is(err, ErrBadRequest), errors.Is(err, guard.ErrInvalid):
		return guard.Name{}, err
	default:
		return guard.Name{}, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	n := m.class.Name(parts...)
	return n, checkName(parts, n)
}

// patience is how long the request may wait. Both the context and the server
// may end it without an answer, and the handler needs some of the time too.
func (m *route) patience(ctx context.Context) time.Duration {
	d := m.maxWait
	if by, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(by)*9/10)
	}
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.WriteTimeout > 0 {
		d = min(d, s.WriteTimeout/2)
	}
	return d
}

func (m *route) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, guard.ErrInvalid) {
		m.mistake.Do(func() { slog.Error("httpguard: a route cannot be locked", "class", m.class.Label(), "error", err) })
	}
	m.respond(w, r, err)
}

// handBack copies what others expect in the request that they passed in: the
// pattern, by which they name the route, and the form, whose files the server
// removes.
func handBack(r, inner *http.Request) {
	r.Pattern = inner.Pattern
	r.MultipartForm = inner.MultipartForm
}
