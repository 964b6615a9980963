package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/holdfast-go/holdfast/retry"
)

// Four attempts, 10, 20 and 25 ms apart.
func ExamplePolicy() {
	policy := retry.Exponential(10*time.Millisecond, 25*time.Millisecond, 2).Attempts(4)
	for run := policy(); ; {
		d := run.NextBackOff()
		if d == retry.Stop {
			break
		}
		fmt.Println(d)
	}
	// Output:
	// 10ms
	// 20ms
	// 25ms
}

func ExampleDo() {
	attempt := 0
	err := retry.Do(context.Background(), retry.Default, func(context.Context) error {
		if attempt++; attempt < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	fmt.Println(attempt, err)
	// Output: 3 <nil>
}

// The result keeps its type.
func ExampleValue() {
	answers := []error{errors.New("try again"), nil}
	price, err := retry.Value(context.Background(), retry.Constant(time.Millisecond),
		func(context.Context) (float64, error) {
			err := answers[0]
			answers = answers[1:]
			return 9.5, err
		})
	fmt.Println(price, err)
	// Output: 9.5 <nil>
}

// What will not get better is not tried again.
func ExamplePermanent() {
	attempt := 0
	err := retry.Do(context.Background(), retry.Default, func(context.Context) error {
		attempt++
		return retry.Permanent(errors.New("no such order"))
	})
	fmt.Println(attempt, err)
	// Output: 1 no such order
}

// A schedule of backoff/v4, or your own made for it, with a new value for every
// run.
func ExampleFrom() {
	policy := retry.From(func() backoff.BackOff {
		return backoff.WithMaxRetries(backoff.NewConstantBackOff(5*time.Millisecond), 1)
	})
	run := policy()
	fmt.Println(run.NextBackOff(), run.NextBackOff() == retry.Stop)
	// Output: 5ms true
}

// Pauses of at most 100 ms, for 2 s and no longer.
func ExamplePolicy_Elapsed() {
	policy := retry.Decorrelated(10*time.Millisecond, time.Minute).Cap(100 * time.Millisecond).Elapsed(2 * time.Second)
	d := policy().NextBackOff()
	fmt.Println(d >= 10*time.Millisecond && d <= 100*time.Millisecond)
	// Output: true
}

// ThrottledError is an error of a client for a service that says when to come back.
type ThrottledError struct{ after time.Duration }

func (t ThrottledError) Error() string             { return "too many requests" }
func (t ThrottledError) RetryAfter() time.Duration { return t.after }

func ExampleDo_retryAfter() {
	start, attempt := time.Now(), 0
	err := retry.Do(context.Background(), retry.Default, func(context.Context) error {
		if attempt++; attempt == 1 {
			return ThrottledError{after: 50 * time.Millisecond}
		}
		return nil
	})
	fmt.Println(err, time.Since(start) >= 50*time.Millisecond)
	// Output: <nil> true
}
