package redisstore_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Many names once each leave nothing in the process, and in Redis only marks
// with a life.
func TestManyNamesLeaveNothingButTheirMarks(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	held := make([]*guard.Held, 100)
	for i := range held {
		var err error
		held[i], err = guard.Acquire(t.Context(), g.Name("held", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	round := func(from, n int) {
		var work sync.WaitGroup
		for w := range 64 {
			work.Go(func() {
				for i := from + w; i < from+n; i += 64 {
					if !assert.NoError(t, guard.Do(t.Context(), g.Name("once", fmt.Sprint(i)), nothing)) {
						return
					}
				}
			})
		}
		work.Wait()
	}
	round(0, 2000) // buffers and connections have their size now
	before := heap()
	round(2000, 20_000)
	after := heap()
	assert.Less(t, int64(after)-int64(before), int64(5<<20), "bytes of heap")
	// A mark each; a request that was slow to be answered leaves a tombstone.
	assert.InDelta(t, 22_000+2*len(held), rdb.DBSize(t.Context()).Val(), 200)
	for i := range 1000 {
		key := fenceKey(fmt.Sprintf("once/%d", i*20))
		left := pttl(t, rdb, key)
		assert.Positive(t, left, key)
		assert.LessOrEqual(t, left, time.Hour, key)
	}
	for _, h := range held {
		require.NoError(t, h.Context().Err())
		require.NoError(t, h.Release())
	}
}

// What contention leaves ends by itself too: queue, tombstones, hints.
func TestContentionLeavesNothingInTheProcess(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newGuard(t, rdb), newGuard(t, rdb)
	round := func(from, n int) {
		var work sync.WaitGroup
		for w := range 64 {
			g := []*guard.Guard{a, b}[w%2]
			work.Go(func() {
				for i := from + w/4; i < from+n; i += 16 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%4)*5*time.Millisecond)
					_ = guard.Do(ctx, g.Name(fmt.Sprint(i)), func(context.Context) error { time.Sleep(time.Millisecond); return nil })
					cancel()
				}
			})
		}
		work.Wait()
	}
	round(0, 200)
	before := heap()
	round(1000, 1000)
	assert.Less(t, int64(heap())-int64(before), int64(2<<20), "bytes of heap")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, a.Close(ctx))
	require.NoError(t, b.Close(ctx))
	for key, left := range s.Keys("") {
		if !strings.HasSuffix(key, "}:fence") && !strings.Contains(key, "}:x:") {
			assert.Fail(t, "left behind: "+key, left)
		}
	}
	eventually(t, "the channels are closed", func() bool { return len(rdb.PubSubChannels(t.Context(), "*").Val()) == 0 })
}
