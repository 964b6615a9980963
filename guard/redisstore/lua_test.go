package redisstore_test

import (
	"context"
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
