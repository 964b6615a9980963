//go:build unix

package timing_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
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

const doomedEnv = "HOLDFAST_TEST_DOOMED" // address, how many places to take in the queue

// TestDoomedProcess takes places in the queue of "x" until it is killed, and is
// nothing otherwise.
func TestDoomedProcess(t *testing.T) {
	var addr string
	var n int
	if _, err := fmt.Sscan(os.Getenv(doomedEnv), &addr, &n); err != nil {
		return
	}
	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}))
	require.NoError(t, err)
	for range n {
		var b [16]byte
		rand.Read(b[:])
		_, err := store.Acquire(context.Background(), guard.Request{
			Name: "x", Owner: base64.RawURLEncoding.EncodeToString(b[:]), TTL: 30 * time.Second, Queue: true,
		})
		require.ErrorIs(t, err, guard.ErrHeld)
	}
	fmt.Println("\nqueued")
	select {}
}

// queueAndDie takes n places in the queue of "x", by a process that is killed.
func queueAndDie(t *testing.T, s *redistest.Server, n int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestDoomedProcess$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", doomedEnv, s.Addr(), n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		if scan.Text() == "queued" {
			break
		}
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

// Processes died while they stood at the head of the queue. However many, those
// behind them wait no longer than until these count as dead, and one claim
// window.
func TestTheDeadAtTheHeadOfAQueueCostLittle(t *testing.T) {
	const live = 5
	for _, dead := range []int{0, 1, 20, 200} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			s := redistest.Start(t)
			rdb := s.Client(t)
			held, err := guard.Acquire(t.Context(), newGuard(t, rdb).Name("x"))
			require.NoError(t, err)
			if dead > 0 {
				queueAndDie(t, s, dead)
			}
			var mu sync.Mutex
			var order []int
			var first time.Time
			var work sync.WaitGroup
			for i := range live {
				store, err := redisstore.New(rdb)
				require.NoError(t, err)
				g, err := guard.New(store.Fair())
				require.NoError(t, err)
				work.Go(func() {
					assert.NoError(t, guard.Do(t.Context(), g.Name("x"), func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						if order = append(order, i); len(order) == 1 {
							first = time.Now()
						}
						return nil
					}))
				})
				waits(t, rdb, "x", int64(dead+i+1))
			}
			time.Sleep(100 * time.Millisecond) // who asked a moment ago is taken to be there
			released := time.Now()
			require.NoError(t, held.Release())
			work.Wait()
			bound := map[int]time.Duration{0: 250 * time.Millisecond, 1: 300*time.Millisecond + 250*time.Millisecond}[dead]
			if bound == 0 {
				bound = 2*time.Second + 300*time.Millisecond + slack
			}
			t.Logf("the first entered after %v, all done after %v, in the order %v", first.Sub(released), time.Since(released), order)
			assert.Less(t, first.Sub(released), bound)
			assert.True(t, slices.IsSorted(order), "in the order of arrival: %v", order)
			left := soon(t, func() bool {
				return rdb.Exists(t.Context(), leaseKey("x"), leaseKey("x")+":q", leaseKey("x")+":w").Val() == 0
			})
			assert.Less(t, left, 7*time.Second, "keys of the queue live for three times as long as a waiter that says nothing")
		})
	}
}
