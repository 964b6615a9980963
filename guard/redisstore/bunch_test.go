package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// bunches is a store that sends what it is given together as bunches, and what
// it sends.
func bunches(t *testing.T) (*redistest.Server, *redistest.Proxy, *redisstore.Store, *sends) {
	t.Helper()
	s, p, store, seen := watched(t, func(rdb *redis.Client) *redisstore.Store { return newStore(t, rdb, redisstore.OneServer()) })
	acquire(t, store, request("warm")) // there is a connection
	seen.all()
	return s, p, store, seen
}

func TestOneServerIsNotForClientsOfMany(t *testing.T) {
	t.Parallel()
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "x", SentinelAddrs: []string{"127.0.0.1:1"}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	for _, c := range []redis.UniversalClient{sentinel, cluster, ring} {
		s, err := redisstore.New(c, redisstore.OneServer())
		if c == sentinel {
			assert.NoError(t, err)
		} else {
			assert.Nil(t, s)
			require.ErrorIs(t, err, guard.ErrInvalid)
			require.ErrorContains(t, err, "OneServer")
		}
		assert.NoError(t, c.Close())
	}
}

// Without the option nothing is assumed about where keys are.
func TestByDefaultEachCallNamesTheKeysOfOneName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	seen := &sends{}
	rdb.AddHook(seen)
	store := newStore(t, rdb)
	together(t, store, 5, func(i int) {
		_, err := store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
		assert.NoError(t, err)
	})
	lists, _ := seen.all()
	assert.Len(t, lists[0], 5)
}

func TestManyNamesShareACall(t *testing.T) {
	t.Parallel()
	s, _, store, seen := bunches(t)
	const n = 40
	var got [n]guard.Lease
	together(t, store, n, func(i int) {
		var err error
		got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
		assert.NoError(t, err)
	})
	lists, flat := seen.all()
	assert.Len(t, lists, 1)
	assert.Len(t, flat, 2, "32 in one, and the rest in another")
	for i, l := range got {
		assert.Contains(t, value(t, s.Client(t), leaseKey(fmt.Sprint("n", i))), fmt.Sprintf("-%s|%d|", l.Owner, l.Token))
	}
	together(t, store, n, func(i int) {
		if i%2 == 0 {
			l, err := store.Renew(t.Context(), got[i])
			assert.NoError(t, err)
			assert.Equal(t, got[i].Token, l.Token)
		} else {
			assert.NoError(t, store.Release(t.Context(), got[i]))
		}
	})
	_, flat = seen.all()
	assert.Len(t, flat, 2, "one for each script")
	together(t, store, n/2, func(i int) { assert.NoError(t, store.Release(t.Context(), got[2*i])) })
	_, flat = seen.all()
	assert.Len(t, flat, 1)
	require.NoError(t, store.Release(t.Context(), acquire(t, store, request("n"))))
	nothingLeft(t, s, "n")
}

// In a bunch, one name is of a wrong type, one has a mark of a wrong type, one is
// held by another, and the rest are free.
func TestAFailureInABunchIsItsOwn(t *testing.T) {
	t.Parallel()
	s, _, store, seen := bunches(t)
	rdb := s.Client(t)
	held := leases(t, store, "renewed", 3)
	held = append(held, leases(t, store, "released", 3)...)
	acquire(t, store, request("taken"))
	for _, key := range []string{leaseKey("list"), fenceKey("mark"), leaseKey("renewed1"), leaseKey("released1")} {
		rdb.Del(t.Context(), key)
		require.NoError(t, rdb.RPush(t.Context(), key, "theirs").Err())
	}
	names := []string{"free1", "list", "taken", "mark", "free2"}
	var errs [11]error
	seen.all()
	together(t, store, len(errs), func(i int) {
		switch {
		case i < 5:
			_, errs[i] = store.Acquire(t.Context(), request(names[i]))
		case i < 8:
			_, errs[i] = store.Renew(t.Context(), held[i-5])
		default:
			errs[i] = store.Release(t.Context(), held[i-5])
		}
	})
	lists, _ := seen.all()
	assert.Len(t, lists[0], 3, "they went together")
	for i, err := range errs {
		switch i {
		case 1, 3, 6, 9:
			require.ErrorIs(t, err, guard.ErrUnavailable, "%d", i)
			require.ErrorContains(t, err, "WRONGTYPE", "%d", i)
		case 2:
			require.ErrorIs(t, err, guard.ErrHeld)
		default:
			require.NoError(t, err, "%d", i)
		}
	}
	assert.Empty(t, value(t, rdb, leaseKey("mark")))
	assert.NotEmpty(t, value(t, rdb, leaseKey("free2")))
	assert.Empty(t, value(t, rdb, leaseKey("released2")))
}
