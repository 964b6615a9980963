package redistest_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestServerStartsEmptyAndPersistsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	require.Zero(t, c.DBSize(t.Context()).Val())
	require.Empty(t, c.ConfigGet(t.Context(), "save").Val()["save"])
	require.Equal(t, "no", c.ConfigGet(t.Context(), "appendonly").Val()["appendonly"])
}

func TestServersStartedTogetherAreIndependent(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, s := range redistest.Nodes(t, 5) {
		require.False(t, exists(t, s.Client(t), "k"))
		require.NoError(t, s.Client(t).Set(t.Context(), "k", "v", 0).Err())
		require.False(t, seen[s.Addr()], "two servers at %s", s.Addr())
		seen[s.Addr()] = true
	}
}

func TestArgumentsOverrideDefaults(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "100mb", "--rename-command", "FLUSHALL", "", "--requirepass", "secret")
	c := s.Client(t)
	require.Equal(t, "104857600", c.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"])
	require.ErrorContains(t, c.FlushAll(t.Context()).Err(), "unknown command")
	require.ErrorContains(t, redis.NewClient(&redis.Options{Addr: s.Addr()}).Ping(t.Context()).Err(), "NOAUTH")
	require.Empty(t, s.Keys(""), "helpers must know the password")
}

func TestRestartKeepsAddressAndLosesData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	addr := s.Addr()
	for _, end := range []func(){s.Kill, s.Stop, func() {}} {
		require.NoError(t, s.Client(t).Set(t.Context(), "k", "v", 0).Err())
		end()
		s.Restart()
		require.Equal(t, addr, s.Addr())
		require.False(t, exists(t, s.Client(t), "k"))
	}
}

func TestRestartKeepsDataWhenPersistenceWasAskedFor(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"append-only file": {"--appendonly", "yes", "--appendfsync", "always"},
		"snapshot":         {"--save", "3600 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, args...)
			require.NoError(t, s.Client(t).Set(t.Context(), "k", "v", 0).Err())
			s.Restart()
			require.True(t, exists(t, s.Client(t), "k"))
		})
	}
}

func TestPromotedReplicaRestartsEmpty(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, "--repl-diskless-sync", "no")
	require.NoError(t, primary.Client(t).Set(t.Context(), "k", "v", 0).Err())
	replica := redistest.Replica(t, primary)
	require.True(t, exists(t, replica.Client(t), "k"))
	primary.Kill()
	replica.Restart()
	c := replica.Client(t)
	require.NoError(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	require.False(t, exists(t, c, "k"), "the snapshot of the first synchronisation came back")
}

func TestReplicaFollowsPrimary(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, "--requirepass", "secret")
	replica := redistest.Replica(t, primary)
	require.NoError(t, primary.Client(t).Set(t.Context(), "k", "v", 0).Err())
	appears(t, replica.Client(t), "k")
	require.ErrorContains(t, replica.Client(t).Set(t.Context(), "k", "w", 0).Err(), "READONLY")
}

func TestRestartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	squatter, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	time.AfterFunc(silence, func() { _ = squatter.Close() })
	s.Restart()
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestKilledServerRefusesConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, end := range []func(){s.Kill, s.Kill, s.Stop} {
		end()
		_, err := net.Dial("tcp", s.Addr())
		require.ErrorContains(t, err, "refused")
	}
}

func TestServerThatEndsByItselfCanBeRestarted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Client(t, once).ShutdownNoSave(t.Context())
	s.Restart()
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestFrozenServerExecutesNothingUntilThaw(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t, once)
	require.NoError(t, c.Ping(t.Context()).Err())
	for range 20 {
		s.Freeze()
		s.Freeze()
		silent(t, set(c, "k"))
		s.Thaw()
		appears(t, s.Client(t), "k")
		require.NoError(t, c.Del(t.Context(), "k").Err())
	}
}

func TestFrozenServerCanBeStoppedAndKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	require.NoError(t, s.Client(t).Set(t.Context(), "k", "v", 0).Err())
	s.Freeze()
	s.Stop()
	s.Restart()
	require.True(t, exists(t, s.Client(t), "k"))
	s.Freeze()
	s.Kill()
	s.Restart()
	s.Freeze()
	s.Thaw()
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestCommandStatsCountExactly(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"open": nil, "password": {"--requirepass", "secret"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, args...)
			c := s.Client(t, once)
			require.NoError(t, c.Ping(t.Context()).Err()) // connect
			for range 2 {
				s.ResetStats()
				require.Empty(t, s.CommandStats())
				for range 3 {
					require.NoError(t, c.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"n"}).Err())
				}
				require.NoError(t, c.Info(t.Context()).Err())
				want := map[string]int64{"eval": 3, "incr": 3, "info": 1}
				require.Equal(t, want, s.CommandStats())
				require.Equal(t, want, s.CommandStats(), "counting must not be counted")
			}
		})
	}
}

func TestKeysShowRemainingTime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	require.NoError(t, c.Set(t.Context(), "lock:{a}", "v", time.Minute).Err())
	require.NoError(t, c.Set(t.Context(), "lock:{b}", "v", 0).Err())
	require.NoError(t, c.Set(t.Context(), "other", "v", 0).Err())
	keys := s.Keys("lock:")
	require.Len(t, keys, 2)
	require.Equal(t, time.Duration(-1), keys["lock:{b}"])
	require.InDelta(t, time.Minute, keys["lock:{a}"], float64(10*time.Second))
}

func TestClusterOwnsEverySlot(t *testing.T) {
	t.Parallel()
	began := time.Now()
	m := redistest.Cluster(t)
	t.Logf("a Cluster took %v", time.Since(began))
	require.Len(t, m, 3)
	require.Empty(t, m.CommandStats())

	c := m.Client(t)
	owners := make(map[*redistest.Server]bool)
	for _, key := range []string{"a", "b", "c", "d", "lock:{order/42}"} {
		require.NoError(t, c.Set(t.Context(), key, "v", 0).Err())
		require.Contains(t, m.Of(key).Keys(""), key)
		owners[m.Of(key)] = true
	}
	require.Len(t, owners, 3)
	require.Len(t, m.Keys("lock:"), 1)
	assert.EqualValues(t, 5, m.CommandStats()["set"])
	assert.NotContains(t, m.CommandStats(), "cluster|keyslot")
	m.ResetStats()
	require.NotContains(t, m.CommandStats(), "set")
}

func TestClusterReplicaTakesOver(t *testing.T) {
	t.Parallel()
	m, replicas := redistest.ClusterWithReplicas(t)
	require.Len(t, replicas, 3)
	c := m.Client(t, func(o *redis.ClusterOptions) { o.ClusterStateReloadInterval = 100 * time.Millisecond })
	require.NoError(t, c.Set(t.Context(), "a", "v", 0).Err())
	i := slices.Index(m, m.Of("a"))
	require.Eventually(t, func() bool {
		return slices.Contains(replicas[i].Client(t).Keys(t.Context(), "*").Val(), "a")
	}, 10*time.Second, 5*time.Millisecond)

	m[i].Kill()
	require.NoError(t, replicas[i].Client(t).Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err())
	require.Eventually(t, func() bool { return c.Set(t.Context(), "a", "w", 0).Err() == nil }, 20*time.Second, 10*time.Millisecond)
}

func TestClusterIsReachedThroughProxies(t *testing.T) {
	t.Parallel()
	m := redistest.Cluster(t)
	var proxies []*redistest.Proxy
	for _, s := range m {
		proxies = append(proxies, redistest.NewProxy(t, s.Addr()))
	}
	c := m.Client(t, func(o *redis.ClusterOptions) { o.Dialer = redistest.Through(proxies...) })
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(t, c.Set(t.Context(), key, "v", 0).Err())
	}
	var sets int64
	for i, p := range proxies {
		require.NotZero(t, p.Commands()["set"], "node %d was reached directly", i)
		sets += p.Commands()["set"]
	}
	require.EqualValues(t, 4, sets)
}

func TestSharedServerIsOneAndCannotBeHarmed(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	s := redistest.Shared(r)
	require.Equal(t, redistest.Shared(t).Addr(), s.Addr())
	for _, harm := range []func(){s.Stop, s.Kill, s.Freeze, s.Thaw, s.Restart, s.ResetStats} {
		harm()
	}
	require.Len(t, r.said, 6)
	require.Contains(t, r.said[1], "cannot kill the shared server")
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestUniqueWordsDiffer(t *testing.T) {
	t.Parallel()
	t.Run("a b/{c}", func(t *testing.T) {
		one, two := redistest.Unique(t), redistest.Unique(t)
		require.NotEqual(t, one, two)
		require.Regexp(t, `^TestUniqueWordsDiffer_a_b__c_-\d+$`, one)
	})
}

func TestVersionIsKnown(t *testing.T) {
	t.Parallel()
	major, _ := redistest.Version(t)
	require.GreaterOrEqual(t, major, 6)
}
