package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
)

func under(t *testing.T, name string, token fence.Token, owner string) context.Context {
	return fence.NewContext(t.Context(), fence.Grant{Name: name, Token: token, Owner: owner}, nil)
}

func TestGateKeepsAMarkPerName(t *testing.T) {
	var gate fence.Gate
	require.NoError(t, gate.Raise(under(t, "a", 33, "x")))
	require.NoError(t, gate.Raise(under(t, "b", 5, "y")), "another name, another mark")
	require.NoError(t, gate.Raise(under(t, "a", 33, "x")), "the holder may come back")
	require.NoError(t, gate.Raise(under(t, "a", 34, "z")))
	require.ErrorIs(t, gate.Raise(under(t, "a", 33, "x")), fence.ErrStale)
	require.NoError(t, gate.Raise(under(t, "b", 6, "y")))
}

func TestGateKeepsItsMarkAfterARefusal(t *testing.T) {
	var gate fence.Gate
	require.NoError(t, gate.Raise(under(t, "a", 34, "x")))
	for _, ctx := range []context.Context{under(t, "a", 33, "y"), under(t, "a", 34, "y"), under(t, "a", 0, "y"), t.Context()} {
		require.Error(t, gate.Raise(ctx))
	}
	require.NoError(t, gate.Raise(under(t, "a", 34, "x")))
}

func TestGateRefusesWorkWithoutALock(t *testing.T) {
	var gate fence.Gate
	require.ErrorIs(t, gate.Raise(t.Context()), fence.ErrMissing)
	severalNames := fence.NewContext(under(t, "a", 33, "x"), fence.Grant{}, nil)
	require.ErrorIs(t, gate.Raise(severalNames), fence.ErrMissing)
}

// The callback may use the gate again: it is called outside the gate's mutex.
func TestRefusedGateTellsTheLock(t *testing.T) {
	var gate fence.Gate
	require.NoError(t, gate.Raise(under(t, "a", 34, "x")))
	var told []*fence.StaleError
	ctx := fence.NewContext(t.Context(), fence.Grant{Name: "a", Token: 33, Owner: "y"}, func(e *fence.StaleError) {
		told = append(told, e)
		assert.NoError(t, gate.Raise(under(t, "b", 1, "y")))
	})
	err := gate.Raise(ctx)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fence.StaleError{Name: "a", Presented: 33, Seen: 34}, *stale)
	assert.Equal(t, []*fence.StaleError{stale}, told)
}

func TestGateLetsTheHighestOfManyIn(t *testing.T) {
	const holders = 200
	var gate fence.Gate
	var wg sync.WaitGroup
	for n := range holders {
		wg.Go(func() {
			ctx := under(t, "a", fence.Token(n+1), "x")
			if err := gate.Raise(ctx); err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
	}
	wg.Wait()
	require.NoError(t, gate.Raise(under(t, "a", holders, "x")))
	require.ErrorIs(t, gate.Raise(under(t, "a", holders-1, "x")), fence.ErrStale)
}

// stock is data behind a gate, with the two halves of an update apart, so that a
// holder can be paused between them.
type stock struct {
	gate fence.Gate
	left int
}

var errShort = errors.New("not enough left")

func (s *stock) read(ctx context.Context, raise bool) (int, error) {
	if raise {
		if err := s.gate.Raise(ctx); err != nil {
			return 0, err
		}
	}
	return s.left, nil
}

func (s *stock) write(ctx context.Context, left int) error {
	if left < 0 {
		return errShort
	}
	if err := s.gate.Raise(ctx); err != nil {
		return err
	}
	s.left = left
	return nil
}

// Holder 33 pauses between its read and its write and outlives its lease;
// holder 34 works meanwhile.
func TestPausedHolderLosesNoUpdateIfMarksAreRaisedBeforeTheRead(t *testing.T) {
	for _, tc := range []struct {
		raise  bool
		paused error
		left   int
	}{
		{raise: true, paused: fence.ErrStale, left: 8}, // 34 took 2, 33 was refused
		{raise: false, paused: nil, left: 8},           // 33 took 1 as well, and it is lost
	} {
		s := &stock{left: 10}
		first, second := under(t, "stock", 33, "x"), under(t, "stock", 34, "y")
		seenByFirst, err := s.read(first, tc.raise)
		require.NoError(t, err)
		seenBySecond, err := s.read(second, tc.raise)
		require.NoError(t, err)
		require.ErrorIs(t, s.write(first, seenByFirst-1), tc.paused)
		require.NoError(t, s.write(second, seenBySecond-2))
		assert.Equal(t, tc.left, s.left)
	}
}
