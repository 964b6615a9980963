package guard

import (
	"context"
	"slices"
)

// Func is work with an input and an output. Plain functions convert to it.
type Func[In, Out any] func(context.Context, In) (Out, error)

// Middleware wraps a Func in another.
type Middleware[In, Out any] func(Func[In, Out]) Func[In, Out]

// Wrap returns fn run under the lock name(in), with [Value]'s results.
//
// Wrap returns a Func that is safe for concurrent use if name and fn are.
func Wrap[In, Out any](name func(In) Name, fn Func[In, Out]) Func[In, Out] {
	return func(ctx context.Context, in In) (Out, error) {
		return Value(ctx, name(in), func(ctx context.Context) (Out, error) { return fn(ctx, in) })
	}
}

// By is [Wrap] as a Middleware. Out comes first so that it is the only type a
// caller has to name: Chain(By[Receipt](byID), logged)(ship).
func By[Out, In any](name func(In) Name) Middleware[In, Out] {
	return func(next Func[In, Out]) Func[In, Out] { return Wrap(name, next) }
}

// Chain joins middlewares; the first one listed is the outermost. A nil one is
// skipped.
func Chain[In, Out any](ms ...Middleware[In, Out]) Middleware[In, Out] {
	return func(fn Func[In, Out]) Func[In, Out] {
		for _, m := range slices.Backward(ms) {
			if m != nil {
				fn = m(fn)
			}
		}
		return fn
	}
}
