package guard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

type valueKey struct{}

// The work's context is made when it is first asked for something. When that
// happens must make no difference.
func TestTheWorksContextIsTheSameWheneverItIsFirstUsed(t *testing.T) {
	ended := func(t *testing.T, ctx context.Context, cause error) {
		t.Helper()
		select {
		case <-ctx.Done():
		default:
			t.Error("not done")
		}
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.ErrorIs(t, context.Cause(ctx), cause)
	}
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprint("used early: ", early), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newFaults()
				g := newGuard(t, store, guard.TTL(time.Minute))
				caller, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, 7), time.Hour)
				defer cancel()
				acquire := func(name string) (*guard.Held, context.Context) {
					h, err := guard.Acquire(caller, g.Name(name))
					require.NoError(t, err)
					ctx := h.Context()
					if early {
						require.NoError(t, ctx.Err())
						require.Equal(t, h.Token(), fence.From(ctx))
					}
					return h, ctx
				}

				h, ctx := acquire("released")
				require.NoError(t, h.Release())
				ended(t, ctx, context.Canceled)
				assert.Equal(t, h.Token(), fence.From(ctx), "the token stays: that is what the storage refuses")

				store.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
				h, ctx = acquire("lost")
				time.Sleep(30 * time.Second)
				synctest.Wait()
				ended(t, ctx, guard.ErrLost)
				require.ErrorIs(t, h.Release(), guard.ErrLost)
				store.renew = nil

				h, ctx = acquire("caller")
				assert.Equal(t, 7, ctx.Value(valueKey{}))
				want, _ := caller.Deadline()
				at, ok := ctx.Deadline()
				assert.True(t, ok)
				assert.Equal(t, want, at)
				cancel()
				ended(t, ctx, context.Canceled)
				require.NoError(t, h.Release())
			})
		})
	}
}

func TestTheWorksContextMayBeUsedFirstByManyAtOnce(t *testing.T) {
	g := newGuard(t, newFaults())
	for range 50 {
		h, err := guard.Acquire(t.Context(), g.Name("a"))
		require.NoError(t, err)
		ctx := h.Context()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				inner, cancel := context.WithCancel(ctx)
				defer cancel()
				<-inner.Done()
			})
		}
		all.Go(func() { assert.NoError(t, h.Release()) })
		all.Wait()
		assert.ErrorIs(t, context.Cause(ctx), context.Canceled)
	}
}

func TestAContextOfWorkPrintsItsName(t *testing.T) {
	g := newGuard(t, newFaults())
	require.NoError(t, guard.Do(t.Context(), g.Name("a", "b"), func(ctx context.Context) error {
		assert.Equal(t, "lock a/b", fmt.Sprint(ctx))
		return nil
	}))
}
