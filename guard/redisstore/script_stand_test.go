package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScriptStand(t *testing.T) {
	t.Parallel()
	t.Run("grants a free name", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		reply := l.stand(l.x, 20_000)
		token := l.token(reply)
		assert.True(t, strings.HasSuffix(reply, " 0"), reply)
		assert.Equal(t, fmt.Sprintf("-%s|%d|%s", l.x, token, tail), l.lease())
		assert.Equal(t, fmt.Sprint(token), l.mark())
	})
	t.Run("grants to the same owner again, and never shortens", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.stand(l.x, 20_000))
		assert.Equal(t, token, l.token(l.stand(l.x, 1000)))
		l.about(20_000, leaseKey(l.name))
		assert.Equal(t, token, l.token(l.stand(l.x, 60_000)))
		l.about(60_000, leaseKey(l.name))
		assert.Equal(t, fmt.Sprint(token), l.mark())
	})
	t.Run("refuses with what is known of the holder", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.stand(l.y, 20_000))
		f := strings.SplitN(l.stand(l.x, 20_000), " ", 8)
		require.Len(t, f, 8)
		assert.Equal(t, []string{"H", fmt.Sprint(token), "-1", "-", l.lease()}, []string{f[0], f[2], f[5], f[6], f[7]})
		ms, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		assert.InDelta(t, 20_000, ms, 5000)
		assert.Equal(t, byte('-'), l.lease()[0], "who does not queue leaves no trace")
		assert.Equal(t, fmt.Sprint(token), l.mark())
	})
	t.Run("queues in order of arrival and keeps places", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.token(l.stand(strings.Repeat("h", 22), 20_000))
		for _, want := range []struct{ owner, rank, ticket string }{{l.x, "0", "1"}, {l.y, "1", "2"}, {l.x, "0", "1"}} {
			f := strings.SplitN(l.queue(want.owner), " ", 8)
			assert.Equal(t, []string{want.rank, want.ticket}, f[5:7])
		}
		assert.Equal(t, byte('+'), l.lease()[0])
		l.about(20_000, leaseKey(l.name))
		l.about(6000, leaseKey(l.name)+":q")
		l.about(6000, leaseKey(l.name)+":w")
		_, until, ok := strings.Cut(l.mark(), "|")
		require.True(t, ok, "the mark says to look further")
		ms, err := strconv.ParseInt(until, 10, 64)
		require.NoError(t, err)
		assert.InDelta(t, l.now/1000+6000, ms, 5000)
		entry := l.rdb.HGet(t.Context(), leaseKey(l.name)+":w", l.x).Val()
		assert.True(t, strings.HasSuffix(entry, "|"+l.channel(l.x)+"|"+tail), entry)
	})
	t.Run("a waiter that was forgotten comes back with its ticket", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.token(l.stand(strings.Repeat("h", 22), 20_000))
		l.queue(l.x)
		l.queue(l.y)
		require.NoError(t, l.rdb.ZRem(t.Context(), leaseKey(l.name)+":q", l.x).Err())
		f := strings.SplitN(l.stand(l.x, 20_000, "", "", "", "ch", "1"), " ", 8)
		assert.Equal(t, []string{"0", "1"}, f[5:7])
	})
	t.Run("a newcomer that finds the name free grants the head and is refused", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		first := l.token(l.stand(strings.Repeat("h", 22), 20_000))
		l.queue(l.x)
		require.NoError(t, l.rdb.Del(t.Context(), leaseKey(l.name)).Err())
		sub := l.rdb.Subscribe(t.Context(), l.channel(l.x))
		defer sub.Close()
		_, err := sub.Receive(t.Context())
		require.NoError(t, err)
		f := strings.SplitN(l.stand(l.y, 20_000), " ", 8)
		assert.Equal(t, "H", f[0])
		assert.Equal(t, byte('+'), l.lease()[0])
		assert.Contains(t, l.lease(), l.x)
		left := pttl(t, l.rdb, leaseKey(l.name))
		assert.LessOrEqual(t, left, 300*time.Millisecond)
		msg, err := sub.ReceiveMessage(t.Context())
		require.NoError(t, err)
		g := strings.Fields(msg.Payload)
		require.Len(t, g, 7)
		assert.Equal(t, []string{"G", l.x, "300", leaseKey(l.name)}, []string{g[0], g[1], g[3], g[6]})
		assert.Contains(t, l.lease(), "|"+g[2]+"|")
		token, err := strconv.ParseInt(g[2], 10, 64)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, token, first+64)
		assert.Equal(t, g[2], f[2], "the refusal reports the new mark")
	})
	t.Run("a waiter that finds the name free has it if those before it have not asked lately", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.token(l.stand(strings.Repeat("h", 22), 20_000))
		l.queue(l.x)
		l.queue(l.y)
		require.NoError(t, l.rdb.Del(t.Context(), leaseKey(l.name)).Err())
		silent := fmt.Sprintf("%d|ch|%s", l.now/1000+900, tail) // of two seconds
		require.NoError(t, l.rdb.HSet(t.Context(), leaseKey(l.name)+":w", l.x, silent).Err())
		reply := l.stand(l.y, 20_000, "", "", "", "ch", "2")
		l.token(reply)
		assert.True(t, strings.HasSuffix(reply, " 1"), "x still waits")
		assert.Equal(t, byte('+'), l.lease()[0])
		assert.Equal(t, []string{l.x}, l.rdb.ZRange(t.Context(), leaseKey(l.name)+":q", 0, -1).Val())
		assert.False(t, l.rdb.HExists(t.Context(), leaseKey(l.name)+":w", l.y).Val())
	})
	t.Run("else it gives way to the first that has, and keeps its place", func(t *testing.T) {
		t.Parallel()
		for _, forgotten := range []bool{false, true} {
			l := newLua(t)
			first := l.token(l.stand(strings.Repeat("h", 22), 20_000))
			l.queue(strings.Repeat("s", 22))
			l.queue(l.x)
			l.queue(l.y)
			l.queue(strings.Repeat("z", 22))
			require.NoError(t, l.rdb.Del(t.Context(), leaseKey(l.name)).Err())
			silent := fmt.Sprintf("%d|ch|%s", l.now/1000+900, tail)
			require.NoError(t, l.rdb.HSet(t.Context(), leaseKey(l.name)+":w", strings.Repeat("s", 22), silent).Err())
			if forgotten {
				require.NoError(t, l.rdb.ZRem(t.Context(), leaseKey(l.name)+":q", l.y).Err())
			}
			f := strings.SplitN(l.stand(l.y, 20_000, "", "", "", l.channel(l.y), "3"), " ", 8)
			assert.Equal(t, []string{"H", "1", "3"}, []string{f[0], f[5], f[6]})
			assert.Contains(t, l.lease(), l.x)
			mark, err := strconv.ParseInt(f[2], 10, 64)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, mark, first+64)
			assert.Equal(t, []string{strings.Repeat("s", 22), l.y, strings.Repeat("z", 22)}, l.rdb.ZRange(t.Context(), leaseKey(l.name)+":q", 0, -1).Val())
		}
	})
	t.Run("the dead are passed over", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		for i := range 30 {
			l.dead(fmt.Sprintf("dead-%017d", i), i)
		}
		reply := l.stand(l.x, 20_000)
		l.token(reply)
		assert.True(t, strings.HasSuffix(reply, " 0"))
		assert.Zero(t, l.rdb.Exists(t.Context(), leaseKey(l.name)+":q", leaseKey(l.name)+":w").Val())
	})
	t.Run("a released owner is refused", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.set(leaseKey(l.name)+":x:"+l.x, "1", time.Minute)
		assert.Equal(t, "T", l.stand(l.x, 20_000))
		assert.Equal(t, "T", l.queue(l.x))
		assert.Empty(t, l.lease())
		assert.Zero(t, l.rdb.Exists(t.Context(), leaseKey(l.name)+":q").Val())
	})
	t.Run("a server that was started lately grants nothing new", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		f := strings.Fields(l.stand(l.x, 20_000, "", "", "86000"))
		require.Len(t, f, 2)
		assert.Equal(t, "U", f[0])
		left, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		assert.InDelta(t, 86_000-1000, left, 1000)
		assert.Empty(t, l.lease())
		token := l.token(l.stand(l.x, 20_000, "", "", "0"))
		assert.Equal(t, token, l.token(l.stand(l.x, 20_000, "", "", "86000")), "what it has stands")
	})
	t.Run("a foreign value is told and never touched", func(t *testing.T) {
		t.Parallel()
		for _, foreign := range []string{"x", "", "-short", "-" + strings.Repeat("z", 22) + "|", "+ in use", strings.Repeat("y", 500)} {
			l := newLua(t)
			l.set(leaseKey(l.name), foreign, 0)
			f := strings.SplitN(l.queue(l.x), " ", 8)
			assert.Equal(t, []string{"H", "-1", foreign}, []string{f[0], f[1], f[7]})
			assert.Equal(t, foreign, l.lease())
			assert.EqualValues(t, -1, pttl(t, l.rdb, leaseKey(l.name)))
		}
	})
}

// dead puts an owner into the queue whose time is up.
func (l *lua) dead(owner string, ticket int) {
	l.Helper()
	ctx, k := l.Context(), leaseKey(l.name)
	require.NoError(l, l.rdb.ZAdd(ctx, k+":q", redis.Z{Score: float64(ticket), Member: owner}).Err())
	require.NoError(l, l.rdb.HSet(ctx, k+":w", owner, fmt.Sprintf("%d|ch|%s", l.now/1000-1, tail)).Err())
}
