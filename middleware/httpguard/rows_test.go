package httpguard_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

var errNetwork = fmt.Errorf("%w: connection reset by test", guard.ErrUnavailable)

// row is one way a request can end.
type row struct {
	name    string
	policy  []guard.Policy
	options []httpguard.Option
	ctx     func(context.Context) (context.Context, context.CancelFunc)
	before  func(*testing.T, *locks)
	handler http.HandlerFunc // nil: it must not run

	status    int
	code      string        // of the problem; "" if the response is the handler's
	retry     [2]int        // range of Retry-After; zero if there is none
	after     time.Duration // when the response is there
	result    string        // what observers are told, "" if the lock was never asked
	errorType string
	panics    any
}

func (r row) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t, r.policy...)
		if r.before != nil {
			r.before(t, l)
		}
		h := r.handler
		if h == nil {
			h = unreached(t)
		}
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if r.ctx != nil {
			ctx, cancel = r.ctx(ctx)
		}
		defer cancel()
		start := time.Now()
		w, panicked := serve(routed(byID(l, r.options...), h), get(ctx, "/orders/42"))
		assert.Equal(t, r.panics, panicked)
		assert.Equal(t, r.after, time.Since(start), "time of the answer")
		assert.Equal(t, r.status, w.Code)
		if r.code != "" {
			assert.Equal(t, r.code, problemIn(t, w).Code)
			assert.NotContains(t, w.Body.String(), "42", "the lock's name is nobody's business")
			assert.NotContains(t, w.Body.String(), "secret-host", "nor its holder")
		}
		retry, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		assert.GreaterOrEqual(t, retry, r.retry[0])
		assert.LessOrEqual(t, retry, r.retry[1])

		n, o := l.seen.ended()
		assert.Equal(t, r.result, o.Result)
		assert.Equal(t, r.errorType, o.ErrorType)
		if r.result == "" {
			assert.Zero(t, n)
			assert.Zero(t, l.store.calls.Load(), "commands")
		}
		_ = l.Close(context.Background())
	})
}

func held(ttl time.Duration) func(*testing.T, *locks) {
	return func(t *testing.T, l *locks) { l.rival(t, ttl) }
}

func down(_ *testing.T, l *locks) {
	l.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, errNetwork }
}

func timeout(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func goneAfter(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		if d == 0 {
			cancel()
		}
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

func TestEveryRequestIsAnsweredByWhatBecameOfItsLock(t *testing.T) {
	for _, r := range []row{
		{
			name: "free at the first attempt", handler: ok,
			status: 200, result: guard.ResultAcquired,
		},
		{
			name: "acquired after waiting", handler: ok, before: held(3 * time.Second),
			status: 200, after: 3*time.Second + time.Millisecond, result: guard.ResultAfterWait,
		},
		{
			name: "held, and the class does not wait", policy: []guard.Policy{guard.NoWait()}, before: held(time.Minute),
			status: 409, code: "contended", retry: [2]int{5, 6}, result: guard.ResultRefused,
		},
		{
			name: "held, and the route does not wait", options: []httpguard.Option{httpguard.MaxWait(0)}, before: held(time.Second),
			status: 409, code: "contended", retry: [2]int{1, 2}, result: guard.ResultRefused,
		},
		{
			name: "held for longer than the default wait", before: held(time.Minute),
			status: 409, code: "contended", retry: [2]int{5, 6}, after: 5 * time.Second,
			result: guard.ResultTimeout, errorType: "timeout",
		},
		{
			name: "held for longer than the route waits", options: []httpguard.Option{httpguard.MaxWait(2 * time.Second)}, before: held(time.Minute),
			status: 409, code: "contended", retry: [2]int{5, 6}, after: 2 * time.Second,
			result: guard.ResultTimeout, errorType: "timeout",
		},
		{
			name: "held for longer than the class waits", policy: []guard.Policy{guard.Wait(time.Second)}, before: held(time.Minute),
			status: 409, code: "contended", retry: [2]int{5, 6}, after: time.Second,
			result: guard.ResultTimeout, errorType: "timeout",
		},
		{
			name: "held for longer than nine tenths of the deadline", ctx: timeout(time.Second), before: held(time.Minute),
			status: 409, code: "contended", retry: [2]int{5, 6}, after: 900 * time.Millisecond,
			result: guard.ResultTimeout, errorType: "timeout",
		},
		{
			name: "the client leaves while waiting", ctx: goneAfter(time.Second), before: held(time.Minute),
			status: 499, after: time.Second, result: guard.ResultCanceled,
		},
		{
			name: "the client has left before", ctx: goneAfter(0),
			status: 499, result: guard.ResultCanceled,
		},
		{
			name: "the deadline has passed before", ctx: timeout(0),
			status: 503, code: "unavailable", retry: [2]int{1, 2}, result: guard.ResultTimeout, errorType: "timeout",
		},
		{
			name: "the store does not answer in the time to wait", before: down,
			status: 503, code: "unavailable", retry: [2]int{1, 2}, after: 5 * time.Second,
			result: guard.ResultFailed, errorType: "unavailable",
		},
		{
			name: "the store does not answer and the route does not wait", options: []httpguard.Option{httpguard.MaxWait(0)}, before: down,
			status: 503, code: "unavailable", retry: [2]int{1, 2}, result: guard.ResultFailed, errorType: "unavailable",
		},
		{
			name:   "the guard is closed",
			before: func(t *testing.T, l *locks) { require.NoError(t, l.Close(t.Context())) },
			status: 503, code: "closed", retry: [2]int{1, 2}, result: guard.ResultFailed, errorType: "closed",
		},
		{
			name: "the guard is closed while the request waits",
			before: func(t *testing.T, l *locks) {
				l.rival(t, time.Minute)
				time.AfterFunc(time.Second, func() { _ = l.Close(context.Background()) })
			},
			status: 503, code: "closed", retry: [2]int{1, 2}, after: time.Second, result: guard.ResultFailed, errorType: "closed",
		},
		{
			name:    "the handler answers with an error",
			handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such order", http.StatusNotFound) },
			status:  404, result: guard.ResultAcquired,
		},
		{
			name:    "the handler panics",
			handler: func(http.ResponseWriter, *http.Request) { panic("a bug") },
			status:  200, result: guard.ResultAcquired, errorType: "panic", panics: "a bug",
		},
		{
			name:    "the handler aborts the response",
			handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			status:  200, result: guard.ResultAcquired, panics: http.ErrAbortHandler,
		},
		{
			name: "the lease is lost before anything was written", policy: []guard.Policy{guard.MaxHold(time.Second)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "4")
				<-r.Context().Done()
				assert.ErrorIs(t, context.Cause(r.Context()), guard.ErrLost)
			},
			status: 500, code: "lost", after: time.Second, result: guard.ResultAcquired, errorType: "lost",
		},
		{
			name: "the lease is lost after the response was started", policy: []guard.Policy{guard.MaxHold(time.Second)},
			handler: func(w http.ResponseWriter, r *http.Request) { ok(w, r); <-r.Context().Done() },
			status:  200, after: time.Second, result: guard.ResultAcquired, errorType: "lost", panics: http.ErrAbortHandler,
		},
		{
			name: "the lease is lost and the handler has said that it failed", policy: []guard.Policy{guard.MaxHold(time.Second)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				http.Error(w, "interrupted", http.StatusInternalServerError)
			},
			status: 500, after: time.Second, result: guard.ResultAcquired, errorType: "lost",
		},
		{
			name: "the lease is lost and the handler has blamed the client", policy: []guard.Policy{guard.MaxHold(time.Second)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				http.Error(w, "not found", http.StatusNotFound)
			},
			status: 404, after: time.Second, result: guard.ResultAcquired, errorType: "lost", panics: http.ErrAbortHandler,
		},
		{
			name:    "the release finds the lease gone, nothing was written",
			handler: func(http.ResponseWriter, *http.Request) {},
			before: func(_ *testing.T, l *locks) {
				l.store.release = func(context.Context, guard.Lease) error { return guard.ErrLost }
			},
			status: 500, code: "lost", result: guard.ResultAcquired, errorType: "lost",
		},
		{
			name: "the release finds the lease gone, the response was started", handler: ok,
			before: func(_ *testing.T, l *locks) {
				l.store.release = func(context.Context, guard.Lease) error { return guard.ErrLost }
			},
			status: 200, result: guard.ResultAcquired, errorType: "lost", panics: http.ErrAbortHandler,
		},
		{
			name:   "the handler runs longer than its lease and renewals do not fail",
			policy: []guard.Policy{guard.TTL(time.Second)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(10 * time.Second):
				case <-r.Context().Done():
					assert.Fail(t, "the lease was lost")
				}
				ok(w, r)
			},
			status: 200, after: 10 * time.Second, result: guard.ResultAcquired,
		},
	} {
		t.Run(r.name, r.run)
	}
}

// The store is told to release, does not answer, and the handler's work is done.
func TestAFailedReleaseDoesNotChangeTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t)
		l.store.release = func(context.Context, guard.Lease) error { return errNetwork }
		w, panicked := serve(routed(byID(l), ok), get(t.Context(), "/orders/42"))
		assert.Nil(t, panicked)
		assert.Equal(t, 200, w.Code)
		assert.Equal(t, "done", w.Body.String())
		_, o := l.seen.ended()
		assert.Equal(t, "release_failed", o.ErrorType)
		require.NoError(t, l.Close(t.Context()))
	})
}

func TestALateAnswerOfAGrantDoesNotLeaveTheLockBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t)
		l.store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
			_, _ = l.store.Locker.Acquire(ctx, r) // granted, and the reply is lost
			return guard.Lease{}, errNetwork
		}
		w, _ := serve(routed(byID(l, httpguard.MaxWait(0)), unreached(t)), get(t.Context(), "/orders/42"))
		assert.Equal(t, 503, w.Code)
		synctest.Wait()
		assert.True(t, l.free(t))
	})
}

func TestTooManyLocalWaitersAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t, guard.MaxWaiters(1))
		leave := l.rival(t, time.Minute)
		h := routed(byID(l), ok)
		first := make(chan int)
		go func() {
			w, _ := serve(h, get(t.Context(), "/orders/42"))
			first <- w.Code
		}()
		synctest.Wait()
		start := time.Now()
		w, _ := serve(h, get(t.Context(), "/orders/42"))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 409, w.Code)
		assert.Equal(t, "contended", problemIn(t, w).Code)
		_, o := l.seen.ended()
		assert.Equal(t, guard.ResultRefused, o.Result)
		leave()
		assert.Equal(t, 200, <-first)
		require.NoError(t, l.Close(t.Context()))
	})
}

func TestALockInsideTheSameLockIsAMistakeAndNoDeadlock(t *testing.T) {
	l := newLocks(t)
	w, _ := serve(routed(byID(l), byID(l)(unreached(t)).ServeHTTP), get(t.Context(), "/orders/42"))
	assert.Equal(t, 500, w.Code)
	assert.Equal(t, "nested", problemIn(t, w).Code)
	assert.Empty(t, w.Header().Get("Retry-After"))
}

func TestAnUnfitServerIsAMistakeAndNotAnOutage(t *testing.T) {
	l := newLocks(t)
	l.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
		return guard.Lease{}, fmt.Errorf("%w: GETDEL", guard.ErrUnsupported)
	}
	w, _ := serve(routed(byID(l), unreached(t)), get(t.Context(), "/orders/42"))
	assert.Equal(t, 500, w.Code)
	assert.Equal(t, "unsupported", problemIn(t, w).Code)
}

func TestHandlerHasTheLockAndItsToken(t *testing.T) {
	l := newLocks(t)
	serve(routed(byID(l), func(_ http.ResponseWriter, r *http.Request) {
		assert.True(t, guard.Holds(r.Context(), l.class.Name("42")))
		assert.NotZero(t, fence.From(r.Context()))
		assert.Equal(t, "42", r.PathValue("id"))
		assert.False(t, l.free(t))
	}), get(t.Context(), "/orders/42"))
	assert.True(t, l.free(t))
}

func TestOneResponderReplacesAllResponses(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*testing.T, *locks)
		want   error
	}{
		"held":        {held(time.Minute), guard.ErrHeld},
		"unavailable": {down, guard.ErrUnavailable},
		"lost": {func(_ *testing.T, l *locks) {
			l.store.release = func(context.Context, guard.Lease) error { return guard.ErrLost }
		}, guard.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocks(t)
			tc.before(t, l)
			var got error
			own := httpguard.Respond(func(w http.ResponseWriter, _ *http.Request, err error) {
				got = err
				w.WriteHeader(http.StatusTeapot)
			})
			h := routed(byID(l, httpguard.MaxWait(0), own), func(http.ResponseWriter, *http.Request) {})
			w, _ := serve(h, get(t.Context(), "/orders/42"))
			assert.Equal(t, http.StatusTeapot, w.Code)
			assert.Empty(t, w.Header(), "nothing of ours")
			assert.ErrorIs(t, got, tc.want)
		})
	}
}

func TestWaitEndsAtHalfOfTheServersWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks(t)
		l.rival(t, time.Minute)
		ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{ReadHeaderTimeout: time.Second, WriteTimeout: 4 * time.Second})
		start := time.Now()
		w, _ := serve(routed(byID(l), unreached(t)), get(ctx, "/orders/42"))
		assert.Equal(t, 409, w.Code)
		assert.Equal(t, 2*time.Second, time.Since(start))
		require.NoError(t, l.Close(t.Context()))
	})
}

// What comes from the lock must not be held against the client.
func TestANameThatAnotherKindOfLockUsesIsNotTheClientsFault(t *testing.T) {
	l := newLocks(t)
	l.store.acquire = func(context.Context, guard.Request) (guard.Lease, error) {
		return guard.Lease{}, fmt.Errorf("%w: the name is a semaphore", guard.ErrInvalid)
	}
	w, _ := serve(routed(byID(l), unreached(t)), get(t.Context(), "/orders/42"))
	assert.Equal(t, 500, w.Code)
	assert.Equal(t, "invalid", problemIn(t, w).Code)
}
