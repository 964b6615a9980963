package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestClockOfAServerIsItsOwn(t *testing.T) {
	t.Parallel()
	servers := redistest.NodesWithClock(t, 2, -time.Hour)
	ahead := func(s *redistest.Server) time.Duration {
		return time.Until(s.Client(t).Time(t.Context()).Val()).Round(time.Minute)
	}
	require.Equal(t, -time.Hour, ahead(servers[0]))

	c := servers[0].Client(t)
	require.NoError(t, c.Set(t.Context(), "k", "v", time.Minute).Err())
	servers[0].SetClock(2 * time.Hour)
	require.Equal(t, 2*time.Hour, ahead(servers[0]))
	require.Equal(t, -time.Hour, ahead(servers[1]))
	require.False(t, exists(t, c, "k"), "a step forward ends what was to expire before")
	require.Eventually(t, func() bool { return uptime(t, c) >= 3*60*60 }, 20*time.Second, 5*time.Millisecond)

	servers[0].Restart()
	require.Equal(t, 2*time.Hour, ahead(servers[0]))
	require.Less(t, uptime(t, c), 60, "it starts by the clock that it was given")
}

func TestClockThatIsEverybodysCannotBeSet(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	redistest.Start(r).SetClock(time.Second)
	for _, f := range r.cleanups {
		f()
	}
	require.Len(t, r.said, 1)
	require.Contains(t, r.said[0], "use NodesWithClock")
}

func uptime(t *testing.T, c *redis.Client) int {
	t.Helper()
	n, err := c.InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	seconds, err := time.ParseDuration(n["Server"]["uptime_in_seconds"] + "s")
	require.NoError(t, err)
	return int(seconds.Seconds())
}
