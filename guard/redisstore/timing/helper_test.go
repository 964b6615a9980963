package timing_test

import (
	"context"
	"flag"
	"os"
	"slices"
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

// TestMain runs parallel tests, which do nothing but wait, all at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = flag.Set("test.parallel", "16") // it is a number
	}
	redistest.Paused(time.Now())
	os.Exit(m.Run())
}

// slack is what a quiet machine may add to any bound.
const slack = 150 * time.Millisecond

func newGuard(t testing.TB, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	g, err := guard.New(store, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, g.Close(ctx), "nothing is left of the guard")
	})
	return g
}

// durations gathers measurements of one bound.
type durations struct {
	mu   sync.Mutex
	list []time.Duration
}

// add is called at the end of what it measures. Pauses of the machine do not count.
func (d *durations) add(took time.Duration) {
	took -= redistest.Paused(time.Now().Add(-took))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, took)
}

// took is the time since start without pauses of the machine.
func took(start time.Time) time.Duration { return time.Since(start) - redistest.Paused(start) }

// within checks that 19 of 20 measurements are within the bound, and all within
// five times as much.
func (d *durations) within(t testing.TB, bound time.Duration) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.NotEmpty(t, d.list)
	slices.Sort(d.list)
	n := len(d.list)
	assert.LessOrEqual(t, d.list[(n*19+19)/20-1], bound, "19 of 20; all: %v", d.list[max(0, n-5):])
	assert.LessOrEqual(t, d.list[n-1], 5*bound, "all")
	t.Logf("bound %v: n %d, median %v, 19 of 20 %v, worst %v", bound, n, d.list[n/2], d.list[(n*19+19)/20-1], d.list[n-1])
}

// spread runs f n times, width at a time.
func spread(n, width int, f func(i int)) {
	var wg sync.WaitGroup
	for w := range width {
		wg.Go(func() {
			for i := w; i < n; i += width {
				f(i)
			}
		})
	}
	wg.Wait()
}

func leaseKey(name string) string { return "lock:{" + name + "}" }

func gone(rdb redis.UniversalClient, name string) bool {
	return rdb.Exists(context.Background(), leaseKey(name)).Val() == 0
}

// soon measures how long it takes until cond holds; it fails after 20 s.
func soon(t testing.TB, cond func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > 20*time.Second {
			require.FailNow(t, "in vain")
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}

// waits returns once n owners stand in a name's queue.
func waits(t testing.TB, rdb redis.UniversalClient, name string, n int64) {
	t.Helper()
	soon(t, func() bool { return rdb.ZCard(context.Background(), leaseKey(name)+":q").Val() >= n })
}

func nothing(context.Context) error { return nil }

// patient is a client whose own time limits are of no help.
func patient(o *redis.Options) {
	o.ReadTimeout, o.WriteTimeout, o.DialTimeout = 30*time.Second, 30*time.Second, 30*time.Second
}
