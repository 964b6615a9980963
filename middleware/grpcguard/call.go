package grpcguard

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// call is one call of a listed method.
type call struct {
	*rule
	trailer func(metadata.MD)
}

// run does work under the lock and returns what the server is to answer.
func (c call) run(ctx context.Context, req any, work func(context.Context) error) error {
	n, err := c.name(ctx, req)
	if err == nil {
		err = checkName(n)
	} else if _, chosen := status.FromError(err); chosen {
		return err
	}
	if err != nil {
		return c.refuse(ctx, err)
	}
	var ran, mine bool
	var own error
	err = guard.Do(ctx, n.Wait(c.patience(ctx)), func(ctx context.Context) error {
		ran = true
		own = work(ctx)
		mine = presented(ctx, own)
		return own
	})
	if err != nil && !ran {
		return c.refuse(ctx, err)
	}
	return c.answer(err, own, mine)
}

// checkName finds the names that no verb accepts, so that an ErrInvalid after it
// is the program's mistake. Slashes of a part are escaped, so that two in a row
// have an empty part between them.
func checkName(n guard.Name) error {
	const longest = 512 // bytes, of guard
	s := n.String()
	switch {
	case n == guard.Name{}:
		return invalid("the zero Name")
	case s == "" || len(s) > longest:
		return lacks("the lock key is empty or too long")
	case strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/") || strings.Contains(s, "//"):
		return lacks("a part of the lock key is empty")
	}
	return nil
}

// patience is how long the call may wait: a lock acquired at the deadline would
// be of no use to the handler.
func (c call) patience(ctx context.Context) time.Duration {
	wait := c.maxWait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-left/10)
	}
	return wait
}

// refuse is the answer to a call that did not run and will not.
func (c call) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &failure{status.FromContextError(ctx.Err()), err}
	}
	v := refusalOf(err)
	retryIn := v.retryIn(err)
	switch v.code {
	case codes.Aborted:
		c.pushBack(retryIn.Milliseconds())
	case codes.Internal:
		c.report(ctx, err)
	}
	return v.fail(err, retryIn)
}

// answer is the one to a call that ran: err is what the lock made of own, which
// is what the handler returned.
func (c call) answer(err, own error, mine bool) error {
	gone := errors.Is(err, guard.ErrLost)
	if gone || errors.Is(own, fence.ErrStale) {
		c.pushBack(-1)
	}
	// A cancellation is what work does when its context ends, not what it chose.
	if st, ok := status.FromError(own); own != nil && ok && st.Code() != codes.Canceled {
		return own
	}
	switch {
	case gone:
		return lost.fail(err, 0)
	case errors.Is(own, fence.ErrStale) && mine:
		return staleOwn.fail(own, 0)
	case errors.Is(own, fence.ErrStale):
		return staleTheirs.fail(own, 0)
	case errors.Is(own, fence.ErrMissing):
		return missing.fail(own, 0)
	case errors.Is(own, guard.ErrNested):
		return nested.fail(own, 0)
	}
	return own
}

// presented tells whether err is the refusal of a token under which ctx runs.
func presented(ctx context.Context, err error) bool {
	var stale *fence.StaleError
	return errors.As(err, &stale) && stale.Presented == fence.For(ctx, stale.Name)
}

// pushBack tells a client with a retry policy when to try again, in ms, or with
// -1 that it must not.
//
// Source: gRPC proposal A6, https://github.com/grpc/proposal/blob/master/A6-client-retries.md
func (c call) pushBack(ms int64) {
	c.trailer(metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(ms, 10)))
}

// report logs a mistake in the program, about which the client learns nothing,
// the first time that it meets a call of the method.
func (r *rule) report(ctx context.Context, err error) {
	r.reported.Do(func() {
		slog.ErrorContext(ctx, "grpcguard: calls are refused", "method", r.method, "error", err)
	})
}
