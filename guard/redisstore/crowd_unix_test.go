//go:build unix

package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"os"
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

const (
	crowdOf    = "HOLDFAST_TEST_CROWD" // address for the lock, address for the notes, kind of lock
	crowds     = 10
	crowdWork  = 10 // goroutines of each
	crowdTurns = 5  // acquisitions of each goroutine
)

// TestCrowdProcess is the work of one of the processes of TestAHundredWaiters,
// and nothing otherwise.
func TestCrowdProcess(t *testing.T) {
	var addr, notes, kind string
	if _, err := fmt.Sscan(os.Getenv(crowdOf), &addr, &notes, &kind); err != nil {
		return
	}
	rdb, book := redis.NewClient(&redis.Options{Addr: addr}), redis.NewClient(&redis.Options{Addr: notes})
	seen := &sends{}
	rdb.AddHook(seen)
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	var locker guard.Locker = store
	if kind == "fair" {
		locker = store.Fair()
	}
	g, err := guard.New(locker)
	require.NoError(t, err)
	ctx := context.Background()
	var work sync.WaitGroup
	for range crowdWork {
		work.Go(func() {
			for range crowdTurns {
				assert.NoError(t, guard.Do(ctx, g.Name("x"), func(context.Context) error {
					assert.EqualValues(t, 1, book.Incr(ctx, "inside").Val(), "two holders")
					defer book.Decr(ctx, "inside")
					return book.RPush(ctx, "order", os.Getpid()).Err()
				}))
			}
		})
	}
	work.Wait()
	_, flat := seen.all()
	ends, renewals := 0, 0
	for _, c := range flat { // told apart by their numbers of keys and arguments
		switch f := strings.Split(c, " "); {
		case len(f) == 2+1+1, len(f) == 2+5+6: // release, leave
			ends++
		case len(f) == 2+2+3 && !strings.HasSuffix(f[4], "|"): // else acquire
			renewals++
		}
	}
	fmt.Println("\nsent", ends, renewals)
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println("\nreturned", g.Close(ctx))
}

// A hundred waiters in ten processes: a release makes one of them ask, not all;
// processes take turns; nothing is left.
func TestAHundredWaitersInTenProcessesTakeTurns(t *testing.T) {
	const total = crowds * crowdWork * crowdTurns
	for _, kind := range []string{"fair", "handing on"} {
		t.Run(kind, func(t *testing.T) {
			s, notes := redistest.Start(t), redistest.Start(t)
			rdb, book := s.Client(t), notes.Client(t)
			load(t, rdb)
			p := redistest.NewProxy(t, s.Addr())
			held, err := guard.Acquire(t.Context(), newGuard(t, rdb).Name("x"))
			require.NoError(t, err)
			var all []*process
			for i := range crowds {
				all = append(all, start(t, "TestCrowdProcess", crowdOf+"="+p.Addr()+" "+notes.Addr()+" "+strings.Fields(kind)[0]))
				isQueued(t, rdb, "x", int64(i+1))
			}
			p.ResetCommands()
			began := time.Now()
			require.NoError(t, held.Release())
			ends, renewals := 0, 0
			for _, c := range all {
				var n, m int
				_, err := fmt.Sscanf(c.line(t), "sent %d %d", &n, &m)
				require.NoError(t, err)
				ends, renewals = ends+n, renewals+m
			}
			asks := int(p.Commands()["evalsha"]) - ends - renewals + crowds // each has asked before
			assert.Zero(t, p.Commands()["eval"])
			order := book.LRange(t.Context(), "order", 0, -1).Val()
			took := time.Since(began)
			t.Logf("%v for %d acquisitions: %d releases, %d renewals, %d acquire attempts", took, total, ends, renewals, asks)
			require.Len(t, order, total, "all are served")
			if kind == "fair" {
				assert.LessOrEqual(t, asks, 2*ends)
			} else {
				polls := crowds * (1 + int(took/(300*time.Millisecond))) // by those who wait behind others' turns
				assert.LessOrEqual(t, asks, 2*ends+polls)
				assert.Less(t, ends, total/4, "most are handed the name inside their process")
			}
			takesTurns(t, kind, order)

			eventually(t, "subscriptions end with the waiters", func() bool { return len(rdb.PubSubChannels(t.Context(), "*").Val()) == 0 })
			nothingLeft(t, s, "")
			for _, c := range all {
				require.NoError(t, c.stop.Close())
				assert.Equal(t, "returned <nil>", c.line(t))
			}
			eventually(t, "connections end with the processes", func() bool { _, open := p.Connections(); return open == 0 })
		})
	}
}

// takesTurns checks that no process got much ahead of another while all wanted
// the name: of a fair lock by single acquisitions, else by runs of them.
func takesTurns(t *testing.T, kind string, order []string) {
	t.Helper()
	turns := order
	if kind != "fair" {
		turns = slices.Compact(slices.Clone(order))
		longest, n := 0, 0
		for i, who := range order {
			if n++; i > 0 && order[i-1] != who {
				n = 1
			}
			longest = max(longest, n)
		}
		assert.LessOrEqual(t, longest, 2*14, "a lease is passed on 13 times; the next may go to the same process once")
	}
	left := map[string]int{}
	for _, who := range turns {
		left[who]++
	}
	got := map[string]int{}
	var worst int
	for _, who := range turns {
		if left[who]--; left[who] == 0 {
			break // one is done
		}
		got[who]++
		low := len(turns)
		for other := range left {
			low = min(low, got[other])
		}
		worst = max(worst, got[who]-low)
	}
	t.Logf("%d turns, at most %d ahead", len(turns), worst)
	assert.LessOrEqual(t, worst, 3)
}
