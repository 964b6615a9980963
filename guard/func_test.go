package guard_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

type parcel struct{ id int }

func TestWrapKeepsTheSignatureAndLocksByInput(t *testing.T) {
	g := newGuard(t, newFaults())
	byID := func(p parcel) guard.Name { return g.Name("parcel", strconv.Itoa(p.id)) }
	ship := guard.Wrap(byID, func(ctx context.Context, p parcel) (string, error) {
		assert.True(t, guard.Holds(ctx, byID(p)))
		return "shipped " + strconv.Itoa(p.id), errWork
	})
	got, err := ship(t.Context(), parcel{7})
	assert.Equal(t, "shipped 7", got)
	assert.Equal(t, errWork, err)
}

func TestChainRunsTheFirstListedOutermost(t *testing.T) {
	g := newGuard(t, newFaults())
	var order []string
	log := func(name string) guard.Middleware[parcel, int] {
		return func(next guard.Func[parcel, int]) guard.Func[parcel, int] {
			return func(ctx context.Context, p parcel) (int, error) {
				order = append(order, name)
				return next(ctx, p)
			}
		}
	}
	byID := func(p parcel) guard.Name { return g.Name("parcel", strconv.Itoa(p.id)) }
	f := guard.Chain(log("outer"), guard.By[int](byID), nil, log("inner"))(func(ctx context.Context, p parcel) (int, error) {
		assert.True(t, guard.Holds(ctx, byID(p)))
		return p.id, nil
	})
	v, err := f(t.Context(), parcel{3})
	require.NoError(t, err)
	assert.Equal(t, 3, v)
	assert.Equal(t, []string{"outer", "inner"}, order)
}

func TestStackPutsTheFirstLayerOutermostAndSkipsNil(t *testing.T) {
	var order []string
	layer := func(name string) guard.Layer {
		return func(next guard.Locker) guard.Locker {
			f := &faults{Locker: next}
			f.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
				order = append(order, name)
				return next.Acquire(ctx, r)
			}
			return f
		}
	}
	g := newGuard(t, guard.Stack(newFaults(), layer("outer"), nil, layer("inner")))
	require.NoError(t, guard.Do(t.Context(), g.Name("a"), nothing))
	assert.Equal(t, []string{"outer", "inner"}, order)
}
