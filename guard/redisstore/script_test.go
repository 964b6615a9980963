package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
