package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
)

func TestContextWithoutLockHasNoToken(t *testing.T) {
	ctx := t.Context()
	assert.Zero(t, fence.From(ctx))
	assert.Zero(t, fence.For(ctx, "a"))
	assert.Zero(t, fence.For(ctx, ""))
	g, err := fence.Require(ctx)
	assert.Zero(t, g)
	require.ErrorIs(t, err, fence.ErrMissing)
}

func TestGrantTravelsWithTheContext(t *testing.T) {
	type key struct{}
	want := fence.Grant{Name: "a", Token: 7, Owner: "x"}
	ctx := fence.NewContext(context.WithValue(t.Context(), key{}, "kept"), want, nil)
	derived, cancel := context.WithCancel(context.WithValue(ctx, key{}, "other"))
	cancel()

	assert.Equal(t, "kept", ctx.Value(key{}))
	for name, ctx := range map[string]context.Context{
		"itself": ctx, "derived and ended": derived, "detached": context.WithoutCancel(derived),
	} {
		got, err := fence.Require(ctx)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
		assert.Equal(t, fence.Token(7), fence.From(ctx), name)
		assert.Equal(t, fence.Token(7), fence.For(ctx, "a"), name)
		assert.Zero(t, fence.For(ctx, "b"), name)
	}
}

func TestContextEndsWithItsParent(t *testing.T) {
	gone := errors.New("gone")
	parent, cancel := context.WithCancelCause(t.Context())
	ctx := fence.NewContext(parent, fence.Grant{Name: "a", Token: 7}, nil)
	child, stop := context.WithCancel(ctx)
	defer stop()
	require.NoError(t, ctx.Err())
	cancel(gone)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), gone)
	require.ErrorIs(t, context.Cause(child), gone)
}

func TestNestedLocksAreAllFoundByName(t *testing.T) {
	ctx := fence.NewContext(t.Context(), fence.Grant{Name: "a", Token: 7}, nil)
	ctx = context.WithValue(ctx, new(int), "between")
	ctx = fence.NewContext(ctx, fence.Grant{Name: "b", Token: 3}, nil)
	assert.Equal(t, fence.Token(3), fence.From(ctx))
	assert.Equal(t, fence.Token(7), fence.For(ctx, "a"))
	assert.Equal(t, fence.Token(3), fence.For(ctx, "b"))
	assert.Zero(t, fence.For(ctx, "c"))

	ctx = fence.NewContext(ctx, fence.Grant{Name: "a", Token: 9}, nil)
	assert.Equal(t, fence.Token(9), fence.For(ctx, "a"), "the innermost of equal names")
}

func TestGrantWithoutTokenHidesTheOthersButNotByName(t *testing.T) {
	for _, none := range []fence.Token{0, -1} {
		ctx := fence.NewContext(t.Context(), fence.Grant{Name: "a", Token: 7}, nil)
		ctx = fence.NewContext(ctx, fence.Grant{Name: "b", Token: 8}, nil)
		ctx = fence.NewContext(ctx, fence.Grant{Token: none}, nil)
		assert.Zero(t, fence.From(ctx))
		_, err := fence.Require(ctx)
		require.ErrorIs(t, err, fence.ErrMissing)
		assert.Equal(t, fence.Token(7), fence.For(ctx, "a"))
		assert.Equal(t, fence.Token(8), fence.For(ctx, "b"))
	}
}

func TestPrintedContextLeavesOutTheOwner(t *testing.T) {
	ctx := fence.NewContext(context.Background(), fence.Grant{Name: "a", Token: 7, Owner: "secret"}, nil)
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	assert.Equal(t, "context.Background.fence(a#7)", fmt.Sprint(ctx))
	assert.Equal(t, "context.Background.fence(a#7).WithCancel", fmt.Sprint(child))
	assert.NotContains(t, fmt.Sprintf("%v %+v %s", child, ctx, ctx), "secret")
}

func TestReportTellsTheLockOfThatNameAndReturnsTheError(t *testing.T) {
	told := map[string][]fence.StaleError{}
	tell := func(lock string) func(*fence.StaleError) {
		return func(e *fence.StaleError) { told[lock] = append(told[lock], *e) }
	}
	ctx := fence.NewContext(t.Context(), fence.Grant{Name: "a", Token: 7}, tell("a"))
	ctx = fence.NewContext(ctx, fence.Grant{Name: "b", Token: 3}, tell("b"))
	ctx = fence.NewContext(ctx, fence.Grant{Name: "deaf", Token: 4}, nil)
	ctx = fence.NewContext(ctx, fence.Grant{}, tell("all"))

	a := &fence.StaleError{Name: "a", Presented: 7, Seen: 8}
	wrapped := fmt.Errorf("saving: %w", &fence.StaleError{Name: "b", Presented: 3, Seen: 5})
	for _, err := range []error{a, wrapped, fence.ErrMissing, fence.ErrStale,
		&fence.StaleError{Name: "deaf"}, &fence.StaleError{Name: "unknown"}} {
		assert.Equal(t, err, fence.Report(ctx, err))
	}
	require.NoError(t, fence.Report(ctx, nil))
	require.NoError(t, fence.Report(context.Background(), nil))
	assert.Equal(t, a, fence.Report(context.Background(), a))

	assert.Equal(t, map[string][]fence.StaleError{
		"a": {*a}, "b": {{Name: "b", Presented: 3, Seen: 5}},
	}, told)
}

func TestCarryingAGrantTakesOneAllocationAndReadingItNone(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := fence.Grant{Name: "a", Token: 7, Owner: "x"}
	ctx := fence.NewContext(parent, g, nil)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { sink = fence.NewContext(parent, g, nil) }), 1.0)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		fence.From(ctx)
		fence.For(ctx, "a")
		_, _ = fence.Require(ctx)
	}))
}

var sink any

func BenchmarkNewContext(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sink = fence.NewContext(context.Background(), fence.Grant{Name: "a", Token: 7, Owner: "x"}, nil)
	}
}

// nested is what a handler sees that runs under two locks, below a few
// contexts of a web framework.
func nested() context.Context {
	ctx := fence.NewContext(context.Background(), fence.Grant{Name: "a", Token: 7}, nil)
	ctx = fence.NewContext(ctx, fence.Grant{Name: "b", Token: 3}, nil)
	for range 5 {
		ctx = context.WithValue(ctx, new(int), 1)
	}
	return ctx
}

func BenchmarkFrom(b *testing.B) {
	ctx := nested()
	b.ReportAllocs()
	for b.Loop() {
		fence.From(ctx)
	}
}

func BenchmarkFor(b *testing.B) {
	ctx := nested()
	b.ReportAllocs()
	for b.Loop() {
		fence.For(ctx, "a")
	}
}

func BenchmarkGateRaise(b *testing.B) {
	var gate fence.Gate
	ctx := nested()
	b.ReportAllocs()
	for b.Loop() {
		_ = gate.Raise(ctx)
	}
}
