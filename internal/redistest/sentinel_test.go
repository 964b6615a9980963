package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSentinelsPromoteAReplicaAndClientsFollow(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t, 1, 300)
	primary, replica := w.Servers[0], w.Servers[1]
	for i := range w.Sentinels {
		require.Same(t, primary, w.Current(i))
	}
	c := w.Client(t)
	require.NoError(t, c.Set(t.Context(), "k", "v", 0).Err())
	require.Eventually(t, func() bool { return exists(t, replica.Client(t), "k") }, 10*time.Second, 5*time.Millisecond)

	primary.Kill()
	require.Eventually(t, func() bool { return w.Current(0) == replica }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return c.Set(t.Context(), "k", "w", 0).Err() == nil }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "w", replica.Client(t).Get(t.Context(), "k").Val())
}
