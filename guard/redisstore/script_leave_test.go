package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
