package httpguard

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// statusClientGone is what access logs show for a client that left before its
// answer, a convention of nginx.
const statusClientGone = 499

// retryCap keeps Retry-After short: what is left of a lease bounds the wait for
// a holder that crashed and says little about one that renews.
const retryCap = 5 * time.Second

// problem is a problem details object.
//
// Source: RFC 9457, https://www.rfc-editor.org/rfc/rfc9457
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`

	retryIn time.Duration // Retry-After is sent if it is more than 0
}

// Error answers r with the status and the problem that err stands for; see the
// package comment. It is what the middleware answers with, and serves handlers
// that meet such an error themselves and a function given to [Respond]. Nothing
// of the response may have been written before.
//
// A fence.ErrStale is the client's (412) if r presents that token, see
// [Presented], or err matches [ErrBadRequest] too; otherwise it is the
// handler's own and treated as a lost lease. So is the cancellation of r's
// context by a lost lease. What is none of this package's errors gives 500.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r, err)
	h := w.Header()
	h.Del("Content-Length") // may be the handler's
	h.Set("Cache-Control", "no-store")
	if p.Status == statusClientGone {
		w.WriteHeader(p.Status)
		return
	}
	h.Set("Content-Type", "application/problem+json")
	if p.retryIn > 0 {
		// Up to a second more, so that not all who wait come back at once.
		d := min(p.retryIn, retryCap) + rand.N(time.Second)
		h.Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // the client may be gone
}

const docs = "https://pkg.go.dev/github.com/holdfast-go/holdfast/"

// problemOf asks first what the client must know most: whether the handler ran.
func problemOf(r *http.Request, err error) problem {
	var lack *lackError
	switch gone := errors.Is(err, context.Canceled); {
	case errors.Is(err, fence.ErrStale) && fromClient(r, err):
		return problem{docs + "fence#ErrStale", "Stale fencing token", http.StatusPreconditionFailed,
			"A later holder of the lock has been here. Acquire the lock again before the next attempt.", "fence_stale", 0}
	case errors.Is(err, fence.ErrStale):
		return problem{docs + "fence#ErrStale", "Lock lost", http.StatusInternalServerError, lostDetail, "fence_stale", 0}
	case errors.Is(err, guard.ErrLost), gone && errors.Is(context.Cause(r.Context()), guard.ErrLost):
		return problem{docs + "guard#ErrLost", "Lock lost", http.StatusInternalServerError, lostDetail, "lost", 0}
	case errors.As(err, &lack):
		return problem{docs + "middleware/httpguard#ErrBadRequest", "Bad request", http.StatusBadRequest, lack.what, "invalid", 0}
	case errors.Is(err, ErrBadRequest):
		return problem{docs + "middleware/httpguard#ErrBadRequest", "Bad request", http.StatusBadRequest,
			"The request has no usable lock key.", "invalid", 0}
	case gone && r.Context().Err() != nil:
		return problem{Status: statusClientGone}
	case errors.Is(err, guard.ErrHeld):
		return problem{docs + "guard#ErrHeld", "Locked", http.StatusConflict,
			"Another request holds the lock. This one was not processed and may be sent again.", "contended", retryIn(err)}
	case errors.Is(err, guard.ErrClosed):
		return unavailable("guard#ErrClosed", "closed")
	case errors.Is(err, guard.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return unavailable("guard#ErrUnavailable", "unavailable")
	}
	return mistake(err)
}

const lostDetail = "The request was processed, but its lock was lost before the end. The outcome is unknown."

func unavailable(doc, code string) problem {
	return problem{docs + doc, "Lock service unavailable", http.StatusServiceUnavailable,
		"The lock could not be acquired. The request was not processed and may be sent again.", code, time.Second}
}

func mistake(err error) problem {
	p := problem{"about:blank", http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError,
		"The server cannot process this request.", "other", 0}
	switch {
	case errors.Is(err, guard.ErrNested):
		p.Type, p.Code = docs+"guard#ErrNested", "nested"
	case errors.Is(err, guard.ErrUnsupported):
		p.Type, p.Code = docs+"guard#ErrUnsupported", "unsupported"
	case errors.Is(err, guard.ErrInvalid):
		p.Type, p.Code = docs+"guard#ErrInvalid", "invalid"
	}
	return p
}

// retryIn is more than 0 also where nothing is known of the holder.
func retryIn(err error) time.Duration {
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) {
		return max(hint.RetryAfter(), time.Millisecond)
	}
	return time.Millisecond
}

// fromClient tells whether the refused token is the one that the client sent.
func fromClient(r *http.Request, err error) bool {
	if errors.Is(err, ErrBadRequest) {
		return true
	}
	var stale *fence.StaleError
	if !errors.As(err, &stale) {
		return false
	}
	sent, err := Presented(r.Header)
	return err == nil && sent.Name == stale.Name && sent.Token == stale.Presented
}
