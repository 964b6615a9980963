package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A waiter that is told to give up at once is forgotten: its place in the
// process must not keep the subscription open for ever.
func TestARefusedWaiterDoesNotKeepTheSubscription(t *testing.T) {
	t.Parallel()
	for how, refuse := range map[string]func(*redistest.Proxy) *redistest.Fault{
		"OOM": func(p *redistest.Proxy) *redistest.Fault {
			return p.Answer(every(call(t, "stand")), "-OOM command not allowed when used memory > 'maxmemory'.")
		},
		"NOPERM": func(p *redistest.Proxy) *redistest.Fault {
			return p.Answer(every(call(t, "stand")), "-NOPERM this user has no permissions")
		},
		"tombstone": func(p *redistest.Proxy) *redistest.Fault {
			m := call(t, "stand")
			m.Times = 3
			return p.Answer(m, "+T")
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			direct := s.Client(t)
			load(t, direct)
			p := redistest.NewProxy(t, s.Addr())
			g := newGuard(t, p.Client(t))
			held, err := guard.Acquire(t.Context(), newGuard(t, direct).Name("x"))
			require.NoError(t, err)
			f := refuse(p)
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				err := guard.Do(ctx, g.Name("x"), unreached(t))
				cancel()
				require.Error(t, err)
			}
			f.End()
			require.NoError(t, held.Release())
			eventually(t, "the subscription closes", func() bool { return len(direct.PubSubChannels(t.Context(), "*").Val()) == 0 })
		})
	}
}

// move hands a slot and its keys from one master to another while it is in use.
func move(t *testing.T, clients []*redis.Client, addrs []string, slot, from, to int) {
	ctx := context.Background()
	id := func(i int) string { return clients[i].Do(ctx, "CLUSTER", "MYID").Val().(string) }
	do := func(i int, args ...any) {
		assert.NoError(t, clients[i].Do(ctx, args...).Err(), args)
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	host, port := addrs[to][:len("127.0.0.1")], addrs[to][len("127.0.0.1:"):]
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		keys, err := clients[from].Do(ctx, "CLUSTER", "GETKEYSINSLOT", slot, 1).StringSlice()
		assert.NoError(t, err)
		if len(keys) == 0 {
			break
		}
		do(from, "MIGRATE", host, port, "", 0, 2000, "KEYS", keys[0])
	}
	for _, i := range []int{to, from, 0, 1, 2} {
		do(i, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
}

// A Cluster moves the slot of a name, key by key, while processes contend for it.
func TestASlotMovesWhileItIsLocked(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	rdb := cluster.Client(t)
	addrs := cluster.Addrs()
	clients := make([]*redis.Client, len(addrs))
	at := -1
	for i, s := range cluster {
		clients[i] = s.Client(t)
		if s == cluster.Of(leaseKey("x")) {
			at = i
		}
	}
	slot, err := rdb.ClusterKeySlot(t.Context(), leaseKey("x")).Result()
	require.NoError(t, err)
	var oracle redistest.Oracle
	var mu sync.Mutex
	var tokens []fence.Token
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range 3 {
		g := newGuard(t, cluster.Client(t), guard.TTL(5*time.Second))
		for range 2 {
			work.Go(func() {
				for ctx.Err() == nil {
					err := guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
						defer oracle.Enter("x")()
						mu.Lock()
						tokens = append(tokens, fence.From(ctx))
						mu.Unlock()
						time.Sleep(time.Duration(i) * time.Millisecond)
						return ctx.Err()
					})
					assert.NoError(t, err)
				}
			})
		}
	}
	used := func() { // somewhere since it was called
		t.Helper()
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(tokens) }
		enough := count() + 10
		eventually(t, "the lock is used", func() bool { return count() >= enough })
	}
	for range 3 {
		used()
		to := (at + 1) % len(addrs)
		move(t, clients, addrs, int(slot), at, to)
		at = to
	}
	used()
	stop()
	work.Wait()
	assert.Equal(t, 1, oracle.Max())
	for i := 1; i < len(tokens); i++ {
		require.Greater(t, tokens[i], tokens[i-1], strconv.Itoa(i))
	}
	t.Log(fmt.Sprint(len(tokens), " acquisitions"))
	nothingLeft(t, cluster, "")
}
