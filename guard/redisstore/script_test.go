package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// lua runs the scripts as their headers say, without the store.
type lua struct {
	*testing.T
	rdb  *redis.Client
	name string
	x    string // an owner
	y    string // another
	now  int64  // server time, µs, at the start
}

const (
	hour = int64(3_600_000_000) // µs
	tail = "00-trace-01|label|with|bars"
)

func newLua(t *testing.T) *lua {
	t.Helper()
	rdb := redistest.Shared(t).Client(t)
	return &lua{
		T: t, rdb: rdb, name: redistest.Unique(t), now: rdb.Time(context.Background()).Val().UnixMicro(),
		x: strings.Repeat("x", 22), y: strings.Repeat("y", 22),
	}
}

func (l *lua) run(script string, keys []string, args ...any) string {
	l.Helper()
	s, err := l.rdb.Eval(l.Context(), source(l.T, script), keys, args...).Text()
	require.NoError(l, err)
	return s
}

func (l *lua) keys(owner string) []string {
	k := leaseKey(l.name)
	return []string{k, k + ":fence", k + ":q", k + ":w", k + ":x:" + owner}
}

func (l *lua) acquire(owner string, ttl int64, more ...any) string {
	l.Helper()
	return l.run("acquire", l.keys(owner)[:2], append([]any{"-" + owner + "|", ttl, tail}, more...)...)
}

// stand takes floor, propose, grace, channel, ticket.
func (l *lua) stand(owner string, ttl int64, opts ...any) string {
	l.Helper()
	o := [5]any{"", "", "", "", ""}
	copy(o[:], opts)
	return l.run("stand", l.keys(owner), owner, ttl, tail, o[0], o[1], o[2], o[3], 2000, 300, o[4])
}

func (l *lua) queue(owner string) string {
	l.Helper()
	return l.stand(owner, 20_000, "", "", "", l.channel(owner))
}

// leave takes late, freeAt, and the liveness left of a waiter that has just asked.
func (l *lua) leave(owner string, opts ...any) string {
	l.Helper()
	o := [3]any{"", "", 5000}
	copy(o[:], opts)
	return l.run("leave", l.keys(owner), owner, 60_000, o[0], o[1], 300, o[2])
}

func (l *lua) release(owner string) string {
	l.Helper()
	return l.run("release", l.keys(owner)[:1], "-"+owner+"|")
}

func (l *lua) renew(owner string, ttl, token int64) string {
	l.Helper()
	return l.run("renew", l.keys(owner)[:2], owner, ttl, token)
}

func (l *lua) channel(owner string) string { return l.name + "-" + owner }

func (l *lua) lease() string { l.Helper(); return value(l.T, l.rdb, leaseKey(l.name)) }
func (l *lua) mark() string  { l.Helper(); return value(l.T, l.rdb, fenceKey(l.name)) }

func (l *lua) set(key, v string, ttl time.Duration) {
	l.Helper()
	require.NoError(l, l.rdb.Set(l.Context(), key, v, ttl).Err())
}

// token of a reply that grants.
func (l *lua) token(reply string) int64 {
	l.Helper()
	f := strings.Fields(reply)
	require.GreaterOrEqual(l, len(f), 4, reply)
	require.Equal(l, "G", f[0], reply)
	n, err := strconv.ParseInt(f[1], 10, 64)
	require.NoError(l, err)
	assert.Less(l, n, int64(1)<<53)
	sec, err := strconv.ParseInt(f[2], 10, 64)
	require.NoError(l, err)
	assert.InDelta(l, l.now/1_000_000, sec, 60)
	return n
}

// about checks a time to live in ms.
func (l *lua) about(want int64, key string) {
	l.Helper()
	got := pttl(l.T, l.rdb, key).Milliseconds()
	assert.LessOrEqual(l, got, want, key)
	assert.Greater(l, got, want-5000, key)
}

func TestScriptAcquire(t *testing.T) {
	t.Parallel()
	t.Run("grants a free name", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.acquire(l.x, 20_000))
		assert.GreaterOrEqual(t, token, l.now)
		assert.Equal(t, fmt.Sprintf("-%s|%d|%s", l.x, token, tail), l.lease())
		assert.Equal(t, fmt.Sprint(token), l.mark())
		l.about(20_000, leaseKey(l.name))
		l.about(3_600_000, fenceKey(l.name))
	})
	t.Run("starts 64 above a mark that is ahead, which lives an hour longer", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		ahead := l.now + 2*hour/60 // two minutes
		l.set(fenceKey(l.name), fmt.Sprint(ahead), time.Hour)
		assert.Equal(t, ahead+64, l.token(l.acquire(l.x, 20_000)))
		assert.Equal(t, fmt.Sprintf("-%s|%d|%s", l.x, ahead+64, tail), l.lease())
		assert.Equal(t, fmt.Sprint(ahead+64), l.mark())
		l.about(20_000, leaseKey(l.name))
		l.about(3_600_000+120_000, fenceKey(l.name))
	})
	t.Run("does not decide what is held, hinted, foreign or in grace", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		assert.Equal(t, "S", l.acquire(l.x, 20_000, "", "", "1000000"))
		l.set(leaseKey(l.name), "foreign", time.Minute)
		assert.Equal(t, "S", l.acquire(l.x, 20_000))
		assert.Equal(t, "foreign", l.lease())
		require.NoError(t, l.rdb.Del(t.Context(), leaseKey(l.name)).Err())
		l.set(fenceKey(l.name), fmt.Sprintf("%d|%d", l.now, l.now/1000+1000), time.Minute)
		assert.Equal(t, "S", l.acquire(l.x, 20_000))
		assert.Empty(t, l.lease())
		require.NoError(t, l.rdb.Del(t.Context(), fenceKey(l.name)).Err())
		for hint, life := range map[string]int64{ // put back as it was
			fmt.Sprintf("%d|%d", l.now, l.now/1000+1000):                   3_600_000,
			fmt.Sprintf("%d|%d", l.now+hour/60, l.now/1000+1000):           3_660_000,
			fmt.Sprintf("%d|%d", l.now-hour+hour/60, l.now/1000+90_000):    90_000,
			fmt.Sprintf("%d|%d", l.now-hour+hour/60, l.now/1000+7_200_000): 7_200_000,
		} {
			l.set(fenceKey(l.name), hint, time.Minute)
			assert.Equal(t, "S", l.acquire(l.x, 20_000))
			assert.Empty(t, l.lease())
			assert.Equal(t, hint, l.mark())
			l.about(life, fenceKey(l.name))
		}
		require.NoError(t, l.rdb.Del(t.Context(), fenceKey(l.name)).Err())
		token := l.token(l.acquire(l.x, 20_000))
		assert.Equal(t, "S", l.acquire(l.y, 20_000))
		assert.Equal(t, "S", l.acquire(l.x, 20_000), "the same owner again too")
		assert.Equal(t, fmt.Sprint(token), l.mark(), "no token is used up")
	})
	t.Run("floor and proposal", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct {
			name           string
			floor, propose int64 // µs ahead; 0 is not given
			want           int64 // µs ahead; 0 is now
			refused        bool
		}{
			{name: "proposal", propose: 30_000_000, want: 30_000_000},
			{name: "proposal behind", propose: -30_000_000},
			{name: "proposal too far ahead", propose: 70_000_000},
			{name: "floor", floor: hour / 2, want: hour / 2},
			{name: "floor behind", floor: -hour},
			{name: "floor too far ahead", floor: hour + 30_000_000, refused: true},
			{name: "both", floor: 20_000_000, propose: 10_000_000, want: 20_000_000},
			{name: "both, proposal larger", floor: 10_000_000, propose: 20_000_000, want: 20_000_000},
		} {
			for _, script := range []string{"acquire", "stand"} {
				t.Run(tc.name+" "+script, func(t *testing.T) {
					l := newLua(t)
					given := func(ahead int64) any {
						if ahead == 0 {
							return ""
						}
						return l.now + ahead
					}
					var reply string
					if script == "acquire" {
						reply = l.acquire(l.x, 20_000, given(tc.floor), given(tc.propose), "")
					} else {
						reply = l.stand(l.x, 20_000, given(tc.floor), given(tc.propose))
					}
					if tc.refused {
						assert.Equal(t, map[string]string{"acquire": "S", "stand": "R"}[script], reply)
						assert.Empty(t, l.lease())
						assert.Empty(t, l.mark())
						return
					}
					token := l.token(reply)
					if tc.want != 0 {
						assert.Equal(t, l.now+tc.want, token)
					} else {
						assert.InDelta(t, l.now, token, 5e6)
					}
					l.about((token-l.now)/1000+3_600_000, fenceKey(l.name))
				})
			}
		}
	})
}

func TestScriptsRefuseOtherTypes(t *testing.T) {
	t.Parallel()
	for key, suffix := range map[string]string{"lease": "", "fence": ":fence", "queue": ":q", "waiters": ":w"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			l := newLua(t)
			if key == "queue" || key == "waiters" {
				l.token(l.acquire(l.y, 20_000))
			}
			foreign := leaseKey(l.name) + suffix
			require.NoError(t, l.rdb.RPush(t.Context(), foreign, "theirs").Err())
			err := l.rdb.Eval(t.Context(), source(t, "stand"), l.keys(l.x), l.x, 1000, tail, "", "", "", "ch", 2000, 300, "").Err()
			require.ErrorContains(t, err, "WRONGTYPE")
			if key == "fence" {
				err := l.rdb.Eval(t.Context(), source(t, "acquire"), l.keys(l.x)[:2], "-"+l.x+"|", 1000, tail).Err()
				require.ErrorContains(t, err, "WRONGTYPE")
				assert.Empty(t, l.lease())
			}
			assert.Equal(t, []string{"theirs"}, l.rdb.LRange(t.Context(), foreign, 0, -1).Val(), "nothing is overwritten")
			if key == "lease" {
				assert.Equal(t, "S", l.acquire(l.x, 1000))
				for script, keys := range map[string]int{"release": 1, "renew": 2, "leave": 5} {
					err := l.rdb.Eval(t.Context(), source(t, script), l.keys(l.x)[:keys], l.x, 1000, "1", "", 300).Err()
					assert.ErrorContains(t, err, "WRONGTYPE", script)
				}
			}
		})
	}
}

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

func TestScriptRelease(t *testing.T) {
	t.Parallel()
	l := newLua(t)
	assert.Equal(t, "S", l.release(l.x), "nobody holds it")
	l.token(l.acquire(l.x, 20_000))
	assert.Equal(t, "S", l.release(l.y), "another holds it")
	assert.Equal(t, "D", l.release(l.x))
	assert.Empty(t, l.lease())
	l.token(l.acquire(l.x, 20_000))
	l.queue(l.y)
	assert.Equal(t, "S", l.release(l.x), "somebody waits")
	assert.Contains(t, l.lease(), l.x)
}

func TestScriptRenew(t *testing.T) {
	t.Parallel()
	t.Run("extends, and tells whether somebody waits", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.acquire(l.x, 20_000))
		assert.Equal(t, fmt.Sprintf("G 0 %d", token), l.renew(l.x, 60_000, token))
		l.about(60_000, leaseKey(l.name))
		l.queue(l.y)
		assert.Equal(t, fmt.Sprintf("G 1 %d", token), l.renew(l.x, 60_000, token))
	})
	t.Run("creates nothing and takes nothing", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		assert.Equal(t, "N", l.renew(l.x, 60_000, l.now))
		assert.Empty(t, l.lease())
		l.token(l.acquire(l.y, 20_000))
		assert.Equal(t, "O", l.renew(l.x, 60_000, l.now))
		l.about(20_000, leaseKey(l.name))
		l.set(leaseKey(l.name), "foreign", time.Minute)
		assert.Equal(t, "O", l.renew(l.x, 60_000, l.now))
	})
	t.Run("raises token and mark, keeps the hint, never lowers", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.acquire(l.x, 20_000))
		l.queue(l.y)
		_, hint, _ := strings.Cut(l.mark(), "|")
		higher := token + 1_000_000
		assert.Equal(t, fmt.Sprintf("G 1 %d", higher), l.renew(l.x, 20_000, higher))
		assert.Equal(t, fmt.Sprintf("%d|%s", higher, hint), l.mark())
		assert.Equal(t, fmt.Sprintf("+%s|%d|%s", l.x, higher, tail), l.lease())
		assert.Equal(t, fmt.Sprintf("G 1 %d", higher), l.renew(l.x, 20_000, token))
		assert.Equal(t, fmt.Sprintf("+%s|%d|%s", l.x, higher, tail), l.lease())
		l.set(fenceKey(l.name), fmt.Sprint(higher+5_000_000), time.Hour)
		assert.Equal(t, fmt.Sprintf("G 1 %d", higher+1), l.renew(l.x, 20_000, higher+1))
		assert.Equal(t, fmt.Sprint(higher+5_000_000), l.mark())
		assert.Equal(t, "R", l.renew(l.x, 20_000, l.now+hour+60_000_000))
		assert.Contains(t, l.lease(), fmt.Sprint(higher+1))
	})
	t.Run("a token of more than an hour ago does not delete the mark", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.set(leaseKey(l.name), fmt.Sprintf("-%s|%d|%s", l.x, l.now-3*hour, tail), time.Minute)
		assert.Equal(t, fmt.Sprintf("G 0 %d", l.now-2*hour), l.renew(l.x, 20_000, l.now-2*hour))
		assert.Contains(t, l.lease(), fmt.Sprint(l.now-2*hour))
		assert.Empty(t, l.mark(), "it would have run out")
		mark := fmt.Sprint(l.now - hour/2)
		l.set(fenceKey(l.name), mark, 30*time.Minute)
		assert.Equal(t, fmt.Sprintf("G 0 %d", l.now-2*hour+1), l.renew(l.x, 20_000, l.now-2*hour+1))
		assert.Equal(t, mark, l.mark())
	})
}

func TestScriptLeave(t *testing.T) {
	t.Parallel()
	t.Run("deletes", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.acquire(l.x, 20_000))
		assert.Equal(t, "D", l.leave(l.x))
		assert.Empty(t, l.lease())
		assert.Equal(t, fmt.Sprint(token), l.mark())
		assert.Zero(t, l.rdb.Exists(t.Context(), leaseKey(l.name)+":x:"+l.x).Val())
	})
	t.Run("an owner that does not hold leaves the queue", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		assert.Equal(t, "N", l.leave(l.x))
		token := l.token(l.acquire(l.y, 20_000))
		l.queue(l.x)
		assert.Equal(t, "O", l.leave(l.x))
		assert.Zero(t, l.rdb.Exists(t.Context(), leaseKey(l.name)+":q", leaseKey(l.name)+":w", leaseKey(l.name)+":x:"+l.x).Val())
		assert.Contains(t, l.lease(), l.y)
		assert.Contains(t, l.mark(), fmt.Sprint(token))
	})
	t.Run("late: an owner that does not hold leaves a tombstone too", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		assert.Equal(t, "N", l.leave(l.x, "1"))
		l.tombstone(l.x, 0)
		token := l.token(l.stand(l.y, 20_000))
		third := strings.Repeat("w", 22)
		l.queue(third)
		assert.Equal(t, "O", l.leave(third, "1"))
		l.tombstone(third, token)
		assert.Zero(t, l.rdb.Exists(t.Context(), leaseKey(l.name)+":q", leaseKey(l.name)+":w").Val())
		assert.Contains(t, l.lease(), l.y)
	})
	t.Run("late: a tombstone in every branch", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.acquire(l.x, 20_000))
		assert.Equal(t, "D", l.leave(l.x, "1"))
		l.tombstone(l.x, token)
		token = l.token(l.stand(l.y, 20_000))
		l.queue(strings.Repeat("w", 22))
		assert.Equal(t, "P "+strings.Repeat("w", 22), l.leave(l.y, "1"))
		l.tombstone(l.y, token)
		l = newLua(t)
		token = l.token(l.acquire(l.x, 20_000))
		assert.Equal(t, "M ", l.leave(l.x, "1", l.now/1000+5000)[:2])
		l.tombstone(l.x, token)
	})
	t.Run("passes on to the first that lives, and tells it and the next", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.token(l.acquire(strings.Repeat("h", 22), 20_000))
		l.dead(strings.Repeat("d", 22), 0)
		l.queue(l.x)
		l.queue(l.y)
		sub := l.rdb.Subscribe(t.Context(), l.channel(l.x), l.channel(l.y))
		defer sub.Close()
		for range 2 {
			_, err := sub.Receive(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, "P "+l.x, l.leave(strings.Repeat("h", 22)))
		for _, want := range []string{"G " + l.x + " ", "T " + l.y + " 300"} {
			msg, err := sub.ReceiveMessage(t.Context())
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(msg.Payload, want), msg.Payload)
		}
		assert.Equal(t, "+"+l.x, l.lease()[:23])
		assert.LessOrEqual(t, pttl(t, l.rdb, leaseKey(l.name)), 300*time.Millisecond)
		assert.Equal(t, "P "+l.y, l.leave(l.x))
		assert.Equal(t, "-"+l.y, l.lease()[:23], "nobody else waits")
		assert.Equal(t, "D", l.leave(l.y))
		assert.Zero(t, l.rdb.Exists(t.Context(), leaseKey(l.name)+":q", leaseKey(l.name)+":w").Val())
	})
	t.Run("the second is not told when the first has just asked", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.token(l.acquire(strings.Repeat("h", 22), 20_000))
		l.queue(l.x)
		l.queue(l.y)
		sub := l.rdb.Subscribe(t.Context(), l.channel(l.x), l.channel(l.y))
		defer sub.Close()
		for range 2 {
			_, err := sub.Receive(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, "P "+l.x, l.leave(strings.Repeat("h", 22), "", "", 1))
		assert.Equal(t, "P "+l.y, l.leave(l.x, "", "", 1))
		for _, want := range []string{"G " + l.x + " ", "G " + l.y + " "} {
			msg, err := sub.ReceiveMessage(t.Context())
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(msg.Payload, want), msg.Payload)
		}
	})
	t.Run("a minimum hold matches no owner and is not passed on", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		token := l.token(l.acquire(l.x, 20_000))
		l.queue(l.y)
		sub := l.rdb.Subscribe(t.Context(), l.channel(l.y))
		defer sub.Close()
		_, err := sub.Receive(t.Context())
		require.NoError(t, err)
		reply := l.leave(l.x, "", l.now/1000+8000)
		assert.Equal(t, "M ", reply[:2])
		rest, err := strconv.Atoi(reply[2:])
		require.NoError(t, err)
		assert.LessOrEqual(t, rest, 8000)
		assert.Equal(t, fmt.Sprintf("~%s|%d|%s", strings.Repeat(".", 22), token, tail), l.lease())
		l.about(8000, leaseKey(l.name))
		msg, err := sub.ReceiveMessage(t.Context())
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("T %s %d", l.y, rest), msg.Payload)
		assert.Equal(t, "O", l.renew(l.x, 60_000, token))
		assert.Equal(t, "S", l.release(l.x))
		assert.Equal(t, "O", l.leave(l.x))
		assert.Equal(t, "H", l.stand(strings.Repeat("n", 22), 60_000)[:1])
		l.about(8000, leaseKey(l.name))
	})
	t.Run("a minimum hold that is over is none", func(t *testing.T) {
		t.Parallel()
		l := newLua(t)
		l.token(l.acquire(l.x, 20_000))
		assert.Equal(t, "D", l.leave(l.x, "", l.now/1000-1))
	})
}

// tombstone checks what a late request of owner will meet.
func (l *lua) tombstone(owner string, mark int64) {
	l.Helper()
	l.about(60_000, leaseKey(l.name)+":x:"+owner)
	base, until, ok := strings.Cut(l.mark(), "|")
	require.True(l, ok, "the mark says to look further: %q", l.mark())
	n, err := strconv.ParseInt(base, 10, 64)
	require.NoError(l, err)
	assert.GreaterOrEqual(l, n, mark)
	ms, err := strconv.ParseInt(until, 10, 64)
	require.NoError(l, err)
	assert.InDelta(l, l.now/1000+60_000, ms, 5000)
	assert.GreaterOrEqual(l, pttl(l.T, l.rdb, fenceKey(l.name)), 55*time.Second)
	assert.Equal(l, "S", l.acquire(owner, 20_000))
	assert.Equal(l, "T", l.stand(owner, 20_000))
}

// A grant and a tombstone of others must not make the mark forget when to look.
func TestTheHintOutlivesGrants(t *testing.T) {
	t.Parallel()
	l := newLua(t)
	l.token(l.acquire(l.x, 20_000))
	assert.Equal(t, "D", l.leave(l.x, "1"))
	token := l.token(l.stand(l.y, 20_000))
	l.tombstone(l.x, token)
	assert.Equal(t, "D", l.release(l.y))
	l.tombstone(l.x, token)
}
