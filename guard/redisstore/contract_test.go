package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/guardtest"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func newStore(t testing.TB, rdb redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(rdb, opts...)
	require.NoError(t, err)
	return s
}

func TestContract(t *testing.T) {
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.Start(t).Client(t, func(o *redis.Options) { o.Protocol = protocol })
			guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker { return newStore(t, rdb) }})
		})
	}
	t.Run("fair", func(t *testing.T) {
		rdb := redistest.Start(t).Client(t)
		guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker { return newStore(t, rdb).Fair() }})
	})
	t.Run("one server", func(t *testing.T) {
		rdb := redistest.Start(t).Client(t)
		guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker { return newStore(t, rdb, redisstore.OneServer()) }})
	})
	t.Run("prefix", func(t *testing.T) {
		rdb := redistest.Start(t).Client(t)
		guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker {
			return newStore(t, rdb, redisstore.Prefix("app:"))
		}})
	})
	t.Run("cluster", func(t *testing.T) {
		rdb := redistest.Cluster(t).Client(t)
		guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker { return newStore(t, rdb) }})
	})
	t.Run("ring", func(t *testing.T) {
		a, b := redistest.Start(t), redistest.Start(t)
		rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
		t.Cleanup(func() { _ = rdb.Close() })
		guardtest.Run(t, guardtest.Config{New: func(t *testing.T) guard.Locker { return newStore(t, rdb) }})
	})
}
