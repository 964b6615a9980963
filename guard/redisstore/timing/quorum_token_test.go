package timing_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func newOwner() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// writeBacks counts grants that took a second round. Nothing here is renewed, so
// every Renew is one.
type writeBacks struct {
	mu     sync.Mutex
	owners map[string]struct{}
}

func newWriteBacks() *writeBacks { return &writeBacks{owners: map[string]struct{}{}} }

func (w *writeBacks) layer(next guard.Locker) guard.Locker { return counted{next, w} }

func (w *writeBacks) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.owners)
}

type counted struct {
	guard.Locker
	w *writeBacks
}

func (c counted) Renew(ctx context.Context, l guard.Lease) (guard.Lease, error) {
	c.w.mu.Lock()
	c.w.owners[l.Owner] = struct{}{}
	c.w.mu.Unlock()
	return c.Locker.Renew(ctx, l)
}

// 100,000 grants by a majority of five servers, of which one at a time is frozen,
// or killed and restarted with its data; each name's tokens rise.
func TestTokensRiseOver100000GrantsOfAQuorum(t *testing.T) {
	const grants, workers = 100_000, 16
	servers := redistest.Nodes(t, 5, "--appendonly", "yes", "--appendfsync", "no") // a killed process has written all it answered
	slow := newWriteBacks()
	q := newQuorum(t, servers, slow.layer)
	var granted, failed atomic.Int64
	var work sync.WaitGroup
	start := time.Now()
	over := make(chan struct{})
	for w := range workers {
		work.Go(func() {
			var last fence.Token
			for granted.Load() < grants {
				r := guard.Request{Name: fmt.Sprint("n", w), Owner: newOwner(), TTL: 2 * time.Second}
				l, err := q.Acquire(t.Context(), r)
				if err != nil {
					failed.Add(1)
					continue
				}
				granted.Add(1)
				if !assert.GreaterOrEqual(t, l.Token, last+guard.TokensPerGrant) {
					return
				}
				last = l.Token
				_ = q.Release(t.Context(), l)
			}
		})
	}
	faults := 0
	go func() { work.Wait(); close(over) }()
	for running := true; running; faults++ {
		victim := servers[mathrand.IntN(len(servers))]
		switch faults % 3 {
		case 0:
			victim.Freeze()
			time.Sleep(mathrand.N(300 * time.Millisecond))
			victim.Thaw()
		case 1:
			victim.Kill()
			time.Sleep(mathrand.N(100 * time.Millisecond))
			victim.Restart()
		}
		select {
		case <-over:
			running = false
		case <-time.After(mathrand.N(400 * time.Millisecond)):
		}
	}
	assert.GreaterOrEqual(t, granted.Load(), int64(grants))
	t.Logf("%d grants in %v, %d faults, %d rounds failed, fast path %.2f %%", granted.Load(), time.Since(start).Round(time.Second), faults,
		failed.Load(), 100-100*float64(slow.count())/float64(granted.Load()))
}

// A majority that agrees at once needs no second round.
func TestMostGrantsOfAQuorumTakeOneRound(t *testing.T) {
	servers := redistest.Nodes(t, 5)
	share := func(processes int, one func(q guard.Locker)) (fast float64) {
		slow := newWriteBacks()
		var all []guard.Locker
		for p := range processes {
			q := newQuorum(t, servers, slow.layer)
			l, err := q.Acquire(t.Context(), guard.Request{Name: fmt.Sprint("warm", p), Owner: newOwner(), TTL: 10 * time.Second})
			require.NoError(t, err)
			require.NoError(t, q.Release(t.Context(), l))
			all = append(all, q)
		}
		first := slow.count()
		var work sync.WaitGroup
		var n atomic.Int64
		for _, q := range all {
			work.Go(func() {
				for range 4000 / processes {
					one(q)
					n.Add(1)
				}
			})
		}
		work.Wait()
		return 100 - 100*float64(slow.count()-first)/float64(n.Load())
	}
	lock := func(q guard.Locker) {
		r := guard.Request{Name: "x", Owner: newOwner(), TTL: 10 * time.Second}
		for {
			l, err := q.Acquire(t.Context(), r)
			if err == nil {
				assert.NoError(t, q.Release(t.Context(), l))
				return
			}
			time.Sleep(mathrand.N(5 * time.Millisecond))
		}
	}
	alone := share(1, lock)
	assert.GreaterOrEqual(t, alone, 99.0)
	start := time.Now()
	contended := share(8, lock)
	t.Logf("fast path: alone %.2f %%, 8 processes that want one name %.2f %% (%v)", alone, contended, time.Since(start).Round(time.Millisecond))
}
