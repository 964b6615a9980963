package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

func TestErrorAnswersWhatAHandlerMetItself(t *testing.T) {
	own := fence.Grant{Name: "order/42", Token: 33, Owner: "own"}
	stale := &fence.StaleError{Name: "order/42", Presented: 33, Seen: 34}
	lostCtx, lose := context.WithCancelCause(t.Context())
	lose(&guard.LostError{Name: "order/42", Reason: guard.LostDeadline})
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		sent   *fence.Grant
		err    error
		status int
		code   string
	}{
		{"stale, and the client presented that token", nil, &own, stale, 412, "fence_stale"},
		{"stale, and the client presented another", nil, &fence.Grant{Name: "order/42", Token: 32}, stale, 500, "fence_stale"},
		{"stale, and the client presented one of another name", nil, &fence.Grant{Name: "order/43", Token: 33}, stale, 500, "fence_stale"},
		{"stale, and the client presented none", nil, nil, stale, 500, "fence_stale"},
		{"stale as the client's by the caller's word", nil, nil, fmt.Errorf("%w: %w", httpguard.ErrBadRequest, stale), 412, "fence_stale"},
		{"stale without details", nil, &own, fence.ErrStale, 500, "fence_stale"},
		{"the lease is lost", nil, nil, &guard.LostError{}, 500, "lost"},
		{"cancelled by a lost lease", lostCtx, nil, fmt.Errorf("query: %w", context.Canceled), 500, "lost"},
		{"cancelled by the client", gone, nil, fmt.Errorf("query: %w", context.Canceled), 499, ""},
		{"cancelled by somebody else", nil, nil, context.Canceled, 500, "other"},
		{"another error of a client that is gone", gone, nil, guard.ErrUnavailable, 503, "unavailable"},
		{"held, without details", nil, nil, guard.ErrHeld, 409, "contended"},
		{"no lock in the context", nil, nil, fence.ErrMissing, 500, "other"},
		{"an error of the program", nil, nil, errors.New("secret"), 500, "other"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			r := get(ctx, "/")
			if tc.sent != nil {
				httpguard.Present(r.Header, *tc.sent)
			}
			w := httptest.NewRecorder()
			httpguard.Error(w, r, tc.err)
			require.Equal(t, tc.status, w.Code)
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			if tc.code == "" {
				assert.Empty(t, w.Body.String())
				return
			}
			assert.Equal(t, tc.code, problemIn(t, w).Code)
			assert.NotContains(t, w.Body.String(), "secret")
			assert.NotContains(t, w.Body.String(), "33")
		})
	}
}

func TestErrorKeepsHeadersOfOthersAndDropsTheLengthOfTheOtherBody(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-ID", "7")
	w.Header().Set("Content-Length", "4")
	httpguard.Error(w, get(t.Context(), "/"), guard.ErrLost)
	assert.Equal(t, "7", w.Header().Get("X-Request-ID"))
	assert.Empty(t, w.Header().Get("Content-Length"))
}

// Everybody who was refused in the same moment would come back in the same
// second otherwise.
func TestRetryAfterIsSpreadOverTwoSeconds(t *testing.T) {
	seen := map[string]int{}
	for range 200 {
		w := httptest.NewRecorder()
		httpguard.Error(w, get(t.Context(), "/"), &guard.HeldError{RetryIn: 2500 * time.Millisecond})
		seen[w.Header().Get("Retry-After")]++
	}
	assert.Len(t, seen, 2)
	assert.NotZero(t, seen["3"])
	assert.NotZero(t, seen["4"])
}
