package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// strange are name parts that break naive keys.
func strange() []string {
	parts := []string{
		"a", "a ", "A", " ", "x", "x:queue", "x:fence", "x:q", "x:w", "x:x:", "x:readers", "x:once", "%", "%7B", "*", "?", "[a]", "a/b", "a%2Fb",
		"\x00", "\xff", "\r\n", "\n", "a\nb", "\xc3\x28", "é", "😀", "|", "-", "~", "..", "'", `"`, "\\",
		"{a}b", "a{b}c", "{}x", "}{", "{a", "{{x}}", "a}b{c", "{", "}", "{}", strings.Repeat("n", 512),
	}
	return parts
}

func TestEveryNameIsItsOwnLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	inside := make(chan struct{})
	var all, work sync.WaitGroup
	names := map[string]bool{}
	for _, part := range strange() {
		n := g.Name(part)
		require.False(t, names[n.String()], "%q", part)
		names[n.String()] = true
		all.Add(1)
		work.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := guard.Do(ctx, n, func(context.Context) error {
				all.Done()
				<-inside
				return nil
			})
			assert.NoError(t, err, "%q", part)
		})
	}
	all.Wait() // all are held at once
	keys := s.Keys("")
	assert.Len(t, keys, 2*len(names), "one lease and one mark each")
	for name := range names {
		assert.Contains(t, keys, leaseKey(name))
		assert.Contains(t, keys, fenceKey(name))
	}
	close(inside)
	work.Wait()
	nothingLeft(t, s, "")
}

func TestBadNamesSendNoCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := newGuard(t, s.Client(t))
	s.ResetStats()
	for _, part := range []string{"", strings.Repeat("n", 513), strings.Repeat("{", 200), strings.Repeat("n", 1<<20)} {
		assert.ErrorIs(t, guard.Do(t.Context(), g.Name(part), unreached(t)), guard.ErrInvalid)
	}
	assert.ErrorIs(t, guard.Do(t.Context(), g.Name(), unreached(t)), guard.ErrInvalid)
	assert.ErrorIs(t, guard.Do(t.Context(), guard.Name{}, unreached(t)), guard.ErrInvalid)
	assert.Empty(t, s.CommandStats())
}

// hook keeps the keys and channels of every command.
type hook struct {
	mu       sync.Mutex
	calls    int
	keys     map[string]bool
	channels map[string]bool
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.take(cmd)
		return next(ctx, cmd)
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, c := range cmds {
			h.take(c)
		}
		return next(ctx, cmds)
	}
}

func (h *hook) take(cmd redis.Cmder) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	n, _ := args[2].(int)
	for _, k := range args[3 : 3+n] {
		h.keys[fmt.Sprint(k)] = true
	}
	for _, a := range args[3+n:] {
		if text := fmt.Sprint(a); strings.Contains(text, "lock:wake:") {
			h.channels[text] = true
		}
	}
}

func (h *hook) seen() (keys, channels map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.keys), maps.Clone(h.channels)
}

// All keys of a name, with whatever braces, lie in one slot.
func TestAllKeysOfANameShareASlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	rdb := cluster.Client(t)
	h := &hook{keys: map[string]bool{}, channels: map[string]bool{}}
	spied := cluster.Client(t)
	spied.AddHook(h)
	g, rival := newGuard(t, spied), newGuard(t, cluster.Client(t))
	var wg sync.WaitGroup
	for _, part := range strange() {
		wg.Go(func() { // every script, with and without contention
			var wg sync.WaitGroup
			for i, g := range []*guard.Guard{g, rival, g, rival} {
				wg.Go(func() {
					assert.NoError(t, guard.Do(t.Context(), g.Name(part), func(ctx context.Context) error {
						time.Sleep(time.Duration(i) * time.Millisecond)
						return ctx.Err()
					}), "%q", part)
				})
			}
			wg.Wait()
			assert.NoError(t, guard.Do(t.Context(), g.Name(part), nothing))
		})
	}
	wg.Wait()
	keys, _ := h.seen()
	slots := map[string]int64{} // by name
	for key := range keys {
		_, rest, ok := strings.Cut(key, "lock:{")
		require.True(t, ok, key)
		name, suffix, ok := strings.Cut(rest, "}")
		require.True(t, ok, key)
		assert.NotContains(t, name, "{")
		slot, err := rdb.ClusterKeySlot(t.Context(), key).Result()
		require.NoError(t, err)
		if other, ok := slots[name]; ok {
			assert.Equal(t, other, slot, "%q %q", name, suffix)
		}
		slots[name] = slot
	}
	assert.Len(t, slots, len(strange()))
	nothingLeft(t, cluster, "")
}

func TestEveryKeyAndChannelCarriesThePrefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := &hook{keys: map[string]bool{}, channels: map[string]bool{}}
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(h)
	a, b := newStore(t, rdb, redisstore.Prefix("app:")), newStore(t, rdb, redisstore.Prefix("app:"))
	l := acquire(t, a, request("x"))
	r := request("x")
	queued(t, b, r)
	r.Queue = true
	l.Waiters = true
	require.NoError(t, a.Release(t.Context(), l))
	eventually(t, "granted", func() bool { _, err := b.Acquire(t.Context(), r); return err == nil })
	require.NoError(t, b.Release(t.Context(), guard.Lease{Request: r}))
	keys, channels := h.seen()
	assert.NotEmpty(t, channels)
	for k := range keys {
		assert.True(t, strings.HasPrefix(k, "app:lock:{x}"), k)
	}
	for c := range channels {
		assert.True(t, strings.HasPrefix(c, "app:lock:wake:"), c)
	}
	assert.Len(t, s.Keys("app:lock:{x}"), len(s.Keys("")))
	// Without the prefix it is another lock.
	other := newStore(t, rdb)
	held := acquire(t, a, request("x"))
	require.NoError(t, other.Release(t.Context(), acquire(t, other, request("x"))))
	require.NoError(t, a.Release(t.Context(), held))
}

// What the user's client does with every command, such as tracing, it does with
// ours too.
func TestTheClientsHooksSeeEveryCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	load(t, s.Client(t))
	rdb := s.Client(t)
	h := &hook{keys: map[string]bool{}, channels: map[string]bool{}}
	rdb.AddHook(h)
	g := newGuard(t, rdb)
	for i := range 3 {
		require.NoError(t, guard.Do(t.Context(), g.Name(fmt.Sprint(i)), nothing))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	assert.GreaterOrEqual(t, h.calls, 6)
}

func TestTTLOnTheServer(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	g := newGuard(t, rdb)
	for _, ttl := range []time.Duration{
		100 * time.Millisecond, 1500 * time.Millisecond, 1999 * time.Millisecond, 30 * time.Second, time.Hour, 24 * time.Hour,
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			c, err := g.Class("ttl", guard.TTL(ttl))
			require.NoError(t, err)
			name := c.Name(redistest.Unique(t))
			sent := time.Now()
			err = guard.Do(t.Context(), name, func(context.Context) error {
				left := pttl(t, rdb, leaseKey(name.String()))
				slack := time.Since(sent) + max(ttl/100, 2*time.Millisecond)
				assert.LessOrEqual(t, left, ttl)
				assert.GreaterOrEqual(t, left, ttl-slack)
				return nil
			})
			if ttl > time.Second || !errors.Is(err, guard.ErrLost) { // a busy machine may take 100 ms
				require.NoError(t, err)
			}
		})
	}
	s := redistest.Start(t)
	g = newGuard(t, s.Client(t))
	s.ResetStats()
	for _, ttl := range []time.Duration{
		-time.Second, 0, 1, 999 * time.Microsecond, time.Millisecond, 99 * time.Millisecond,
		1500*time.Millisecond + 1, 24*time.Hour + time.Millisecond, math.MaxInt64, math.MinInt64,
	} {
		_, err := g.Class("ttl", guard.TTL(ttl))
		assert.ErrorIs(t, err, guard.ErrInvalid, ttl)
		assert.ErrorContains(t, err, "TTL")
	}
	assert.Empty(t, s.CommandStats())
}

// Whatever the options, no script ever meets an argument it cannot use.
func TestNoOptionOverflowsAnArgument(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	values := []time.Duration{
		math.MinInt64, -1, 0, 1, time.Microsecond, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Second,
		time.Hour, 24 * time.Hour, 24*time.Hour + 1, 1000 * time.Hour, math.MaxInt64 - 1, math.MaxInt64,
	}
	pick := func() time.Duration { return values[rand.N(len(values))] }
	g := newGuard(t, s.Client(t))
	ran := 0
	for i := range 400 {
		var ps []guard.Policy
		for _, p := range []guard.Policy{
			guard.TTL(pick()), guard.Wait(pick()), guard.MaxHold(pick()), guard.MinHold(pick()), guard.ReleaseWithin(pick()), guard.MaxWaiters(int(pick())),
		} {
			if rand.N(3) == 0 {
				ps = append(ps, p)
			}
		}
		c, err := g.Class("c", ps...)
		if err != nil {
			require.ErrorIs(t, err, guard.ErrInvalid)
			continue
		}
		err = guard.Do(t.Context(), c.Name(redistest.Unique(t)), nothing)
		if err != nil { // MaxHold, ReleaseWithin or Wait of next to nothing
			assert.True(t, strings.Contains(err.Error(), "max_hold") || strings.Contains(err.Error(), "no answer"), "%d %v", i, err)
			continue
		}
		ran++
	}
	assert.Positive(t, ran)
}

// At no moment may a key be without an expiry: a crash then would block for ever.
func TestNoKeyIsEverWithoutExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	var sampler, work sync.WaitGroup
	seen := map[string]bool{}
	sampler.Go(func() {
		look := redis.NewScript(`local bad = {} for _, k in ipairs(redis.call('KEYS', '*')) do
			bad[#bad+1] = k if redis.call('PTTL', k) == -1 then bad[#bad+1] = '!' end end return bad`)
		for ctx.Err() == nil {
			keys, err := look.Run(context.Background(), rdb, nil).StringSlice()
			assert.NoError(t, err)
			for i, k := range keys {
				if k == "!" {
					assert.Fail(t, "without expiry: "+keys[i-1])
				}
				seen[k[strings.IndexByte(k, '}')+1:min(len(k), strings.IndexByte(k, '}')+3)]] = true
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	for i := range 8 {
		work.Go(func() {
			g, err := guard.New(newStore(t, s.Client(t)), guard.TTL(200*time.Millisecond))
			if !assert.NoError(t, err) {
				return
			}
			for j := range 12 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(120))*time.Millisecond)
				_ = guard.Do(ctx, g.Name(fmt.Sprint(j%3)), func(context.Context) error {
					time.Sleep(time.Duration(rand.N(20)) * time.Millisecond)
					return nil
				})
				cancel()
			}
			if i%2 == 0 { // half of them crash: their leases, places and tombstones stay
				assert.NoError(t, g.Close(context.Background()))
			}
		})
	}
	work.Wait()
	stop()
	sampler.Wait()
	assert.Subset(t, []string{"", ":f", ":q", ":w", ":x"}, slices.Collect(maps.Keys(seen)))
	assert.True(t, seen[":q"] && seen[":w"] && seen[""] && seen[":f"], "%v", seen)
}
