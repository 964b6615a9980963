package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Permanent marks err as one that no further attempt would mend: [Do] and
// [Value] return at once. It returns nil for nil. The mark is that of
// backoff/v4.
func Permanent(err error) error { return backoff.Permanent(err) }

// Do calls fn until it returns nil, and pauses as p says in between. It returns
//
//   - nil once fn does,
//   - the last error of fn when p allows no further attempt,
//   - the error of fn at once if [Permanent] was applied to it, without that
//     mark, or as it is if fn wrapped it further,
//   - as soon as ctx ends, during a pause or after a failed attempt, an error
//     that matches ctx.Err(), ctx's cause and the last error of fn.
//
// fn is not called with a ctx that has ended, not even once.
//
// If an error of fn has a method RetryAfter() time.Duration (found with
// errors.As), the pause begins after that time: the next attempt is never
// earlier, and those who were told the same time are still spread by their
// jitter. A limit set with [Policy.Elapsed] holds for both together,
// [Policy.Cap] for the pause only.
//
// Do may be called concurrently with the same p. Time spent in fn counts for
// Elapsed and is not taken off the pauses.
func Do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	_, err := Value(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// Value is [Do] for a function with a result. With an error it returns the
// value that came with fn's last error.
func Value[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error)) (T, error) {
	run := p.start()
	var value T
	var err error
	for {
		if ctx.Err() != nil {
			return value, ended(ctx, err)
		}
		if value, err = fn(ctx); err == nil {
			return value, nil
		}
		if _, final := errors.AsType[*backoff.PermanentError](err); final {
			return value, unmarked(err)
		}
		if ctx.Err() != nil {
			continue
		}
		after := asked(err)
		pause := next(run, after)
		if pause == Stop {
			return value, err
		}
		sleep(ctx, after, pause)
	}
}

// unmarked is err without the marks on its outside. Marks further in cannot be
// taken off without losing what err says.
func unmarked(err error) error {
	for {
		mark, is := err.(*backoff.PermanentError) //nolint:errorlint // see above
		if !is {
			return err
		}
		err = mark.Err
	}
}

// asked is how long err asks to wait, 0 if it does not.
func asked(err error) time.Duration {
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) {
		return max(hint.RetryAfter(), 0)
	}
	return 0
}

// sleep returns once both durations have passed, or ctx has ended.
func sleep(ctx context.Context, after, pause time.Duration) {
	t := time.NewTimer(after + min(pause, math.MaxInt64-after))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// ended is the error for a ctx that has ended after last, nil if there was no
// attempt.
func ended(ctx context.Context, last error) error {
	e := &endedError{last, ctx.Err(), context.Cause(ctx)}
	if errors.Is(last, e.err) && errors.Is(last, e.cause) {
		return last
	}
	return e
}

// endedError is how attempts that the context cut short ended.
type endedError struct{ last, err, cause error }

func (e *endedError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("retry: %v before the first attempt", e.cause)
	}
	return fmt.Sprintf("retry: %v after: %v", e.cause, e.last)
}

func (e *endedError) Unwrap() []error {
	if e.last == nil {
		return []error{e.err, e.cause}
	}
	return []error{e.last, e.err, e.cause}
}
