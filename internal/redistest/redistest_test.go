package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// once is a client that does nothing on its own: one connection, no retry.
func once(o *redis.Options) {
	o.MaxRetries, o.PoolSize = -1, 1
	o.ContextTimeoutEnabled = true
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestServerStartsEmptyAndAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	require.NoError(t, c.Ping(t.Context()).Err())
	require.Zero(t, c.DBSize(t.Context()).Val())
}

func TestFrozenServerExecutesNothingUntilThaw(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t, once)
	require.NoError(t, c.Ping(t.Context()).Err())
	s.Freeze()
	s.Freeze()
	require.Error(t, c.Set(within(t, 50*time.Millisecond), "k", "v", 0).Err())
	s.Thaw()
	require.Eventually(t, func() bool { return s.Client(t).Get(t.Context(), "k").Val() == "v" }, 5*time.Second, time.Millisecond,
		"what was sent to a frozen server must be executed after the thaw")
}

func TestStalledLinkDeliversAfterPass(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := p.Client(t, once)
	require.NoError(t, c.Ping(t.Context()).Err())
	p.Stall()
	require.Error(t, c.Set(within(t, 50*time.Millisecond), "k", "v", 0).Err())
	require.Zero(t, s.Client(t).Exists(t.Context(), "k").Val())
	p.Pass()
	require.Eventually(t, func() bool { return s.Client(t).Exists(t.Context(), "k").Val() == 1 }, 5*time.Second, time.Millisecond)
}

func TestSwallowLosesOneReplyOfTheNamedCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := p.Client(t, once)
	f := p.Swallow(redistest.Match{Command: "set"})
	require.ErrorIs(t, c.Get(t.Context(), "k").Err(), redis.Nil)
	require.Error(t, c.Set(within(t, 50*time.Millisecond), "k", "v", 0).Err())
	f.Wait(t, 1)
	require.Equal(t, "v", s.Client(t).Get(t.Context(), "k").Val())
	require.NoError(t, c.Set(t.Context(), "k", "w", 0).Err())
}
