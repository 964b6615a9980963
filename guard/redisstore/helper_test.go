package redisstore_test

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestMain runs more tests at a time than there are processors: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = flag.Set("test.parallel", "8") // it is a number
	}
	os.Exit(m.Run())
}

// newGuard returns a Guard that looks to Redis like a process of its own. At the
// end of t nothing of it may be left.
func newGuard(t testing.TB, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(newStore(t, rdb), opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, g.Close(ctx), "nothing is left of the guard")
	})
	return g
}

func newOwner() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func request(name string) guard.Request {
	return guard.Request{Name: name, Owner: newOwner(), TTL: 20 * time.Second, Label: "test"}
}

func acquire(t testing.TB, l guard.Locker, r guard.Request) guard.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), r)
	require.NoError(t, err)
	return lease
}

// refused asks for r and returns the refusal.
func refused(t testing.TB, l guard.Locker, r guard.Request) *guard.HeldError {
	t.Helper()
	_, err := l.Acquire(t.Context(), r)
	var held *guard.HeldError
	require.ErrorAs(t, err, &held)
	return held
}

// queued asks for r until it has a place in the queue.
func queued(t testing.TB, l guard.Locker, r guard.Request) *guard.HeldError {
	t.Helper()
	r.Queue = true
	var held *guard.HeldError
	require.Eventually(t, func() bool {
		held = refused(t, l, r)
		return held.Wake != nil
	}, 5*time.Second, 5*time.Millisecond, "never queued")
	return held
}

func leaseKey(name string) string { return "lock:{" + name + "}" }
func fenceKey(name string) string { return leaseKey(name) + ":fence" }

// value is the key's value, "" if there is none.
func value(t testing.TB, rdb redis.UniversalClient, key string) string {
	t.Helper()
	v, err := rdb.Get(context.Background(), key).Result()
	if err != redis.Nil { //nolint:errorlint // go-redis returns it bare
		require.NoError(t, err)
	}
	return v
}

func pttl(t testing.TB, rdb redis.UniversalClient, key string) time.Duration {
	t.Helper()
	d, err := rdb.PTTL(context.Background(), key).Result()
	require.NoError(t, err)
	return d
}

// eventually waits for a condition that should come soon.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "in vain: "+what)
		}
	}
}

// isQueued waits until n owners stand in a name's queue.
func isQueued(t testing.TB, rdb redis.UniversalClient, name string, n int64) {
	t.Helper()
	eventually(t, "waiting for the queue", func() bool {
		return rdb.ZCard(context.Background(), leaseKey(name)+":q").Val() == n
	})
}

// nothingLeft checks that only what is documented remains of names that start
// with prefix: marks and tombstones, each with its documented life.
func nothingLeft(t testing.TB, s interface {
	Keys(prefix string) map[string]time.Duration
}, prefix string) {
	t.Helper()
	for key, ttl := range s.Keys("lock:{" + prefix) {
		switch {
		case strings.HasSuffix(key, "}:fence"):
			assert.Positive(t, ttl, key)
			assert.LessOrEqual(t, ttl, 2*time.Hour+time.Minute, key)
		case strings.Contains(key, "}:x:"):
			assert.Positive(t, ttl, key)
			assert.LessOrEqual(t, ttl, time.Minute, key)
		default:
			assert.Fail(t, "left behind: "+key)
		}
	}
}

// source is a script's text.
func source(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("lua/" + name + ".lua")
	require.NoError(t, err)
	return string(text)
}

// sha names a script in EVALSHA.
func sha(t testing.TB, name string) string {
	t.Helper()
	sum := sha1.Sum([]byte(source(t, name)))
	return hex.EncodeToString(sum[:])
}

// load makes a server know all scripts, so that no call needs a second command.
func load(t testing.TB, rdb redis.UniversalClient) {
	t.Helper()
	for _, name := range []string{"acquire", "stand", "release", "leave", "renew"} {
		require.NoError(t, rdb.ScriptLoad(context.Background(), source(t, name)).Err())
	}
}

// call matches requests that run a script.
func call(t testing.TB, script string) redistest.Match {
	t.Helper()
	return redistest.Match{Command: "EVALSHA", Contains: sha(t, script)}
}

// within fails if f takes longer than d. It is a generous limit, for what must
// not hang; exact bounds are tested in package timing.
func within(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	assert.Less(t, time.Since(start), d)
}

func nothing(context.Context) error { return nil }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// recorder keeps what a Guard tells.
type recorder struct {
	mu       sync.Mutex
	events   []guard.Event
	outcomes []guard.Outcome
}

func (*recorder) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }

func (r *recorder) Event(_ context.Context, e guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) End(_ context.Context, o guard.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

func (r *recorder) of(kind guard.Kind) (list []guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}
