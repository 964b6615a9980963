package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// permanent tells whether the store has answered, and would answer the same
// again.
func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported) || (errors.As(err, &p) && p.Permanent())
}

// final tells whether asking again is of no use.
func (h *hold) final(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil, h.limit == 0:
		return true
	case errors.Is(err, ErrHeld):
		return false
	}
	if !errors.Is(err, ErrUnavailable) || permanent(err) {
		return true
	}
	return !h.hasLimit() && now().sub(h.wait().downSince) >= downFor
}

// hasLimit tells whether the caller said how long to wait.
func (h *hold) hasLimit() bool {
	_, deadline := h.ctx.Deadline()
	return deadline || h.limit >= 0
}

// explain is what the caller is told when the wait ends with err, after the
// verdict last. A question that the end of the wait cut off says nothing; then
// the verdict before it counts, and without one the service did not answer.
func (h *hold) explain(ctx context.Context, err, last error) error {
	over := cutOff(ctx, err)
	switch {
	case over && errors.Is(context.Cause(ctx), ErrClosed):
		return &endedError{h.name, []error{ErrClosed}}
	case over && last != nil:
		err = last
	case over && errors.Is(h.ctx.Err(), context.Canceled):
		return h.ended(nil)
	case over:
		err = fmt.Errorf("%w: no answer about %q within %v", ErrUnavailable, h.name, now().sub(h.began).Round(time.Millisecond))
	}
	if h.ctx.Err() != nil {
		return h.ended(h.told(err))
	}
	return h.told(err)
}

// cutOff tells whether err only says that the wait, which ctx ends, is over. A
// dial that timed out by itself is a DeadlineExceeded too.
func cutOff(ctx context.Context, err error) bool {
	if ctx.Err() == nil && errors.Is(err, ErrUnavailable) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx))
}

// told completes a HeldError for the caller.
func (h *hold) told(err error) error {
	var held *HeldError
	if !errors.As(err, &held) {
		return err
	}
	he := *held
	he.Wake, he.Waited, he.Attempts = nil, now().sub(h.began), int(h.attempts)
	return &he
}
