package redisstore

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// askAll has n callers ask, one after the other.
func askAll(t *testing.T, l *lane, n int) (sent []redis.Cmder, done []<-chan outcome) {
	t.Helper()
	for range n {
		q := releaseScript.fresh()
		sent = append(sent, q.cmd)
		done = append(done, ask(in(time.Second), l, q))
	}
	return sent, done
}

func TestABatchWaitsForOthersToLandUnlessItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thaw := make(chan struct{})
		l, server := fakeLane(t, func() { <-thaw })
		want, done := askAll(t, l, width)
		for batch := width; batch < fullWidth; batch++ {
			sent, waiting := askAll(t, l, maxBatch-1)
			assert.Equal(t, batch, look(l).flying)
			assert.Equal(t, maxBatch-1, look(l).queued)
			last, one := askAll(t, l, 1)
			assert.Equal(t, batch+1, look(l).flying)
			assert.Zero(t, look(l).queued)
			want, done = slices.Concat(want, sent, last), slices.Concat(done, waiting, one)
		}
		sent, waiting := askAll(t, l, 2*maxBatch)
		want, done = append(want, sent...), append(done, waiting...)
		assert.Equal(t, fullWidth, look(l).flying)
		assert.Equal(t, 2*maxBatch, look(l).queued, "enough are on their way")
		batches := append(slices.Repeat([]int{1}, width), slices.Repeat([]int{maxBatch}, fullWidth-width)...)
		assert.Equal(t, batches, server.batches)

		close(thaw)
		for i := range done {
			assert.Equal(t, outcome{true, nil, 0}, <-done[i], i)
		}
		assert.Equal(t, append(batches, maxBatch, maxBatch), server.batches)
		n := len(want) - 2*maxBatch
		assert.True(t, slices.Equal(want[:n], server.sent[:n]), "first come, first served")
		assert.Len(t, server.sent, len(want))
		idle(t, l)
	})
}

// What is more than a batch does not wait for that batch to land.
func TestALandingSendsAllThatMayGo(t *testing.T) {
	for name, c := range map[string]struct {
		landed func(*lane)
		batch  int
	}{
		"sent by the caller": {func(l *lane) { l.landedLocked() }, maxBatch},
		"sent by a worker":   {func(l *lane) { l.handLocked(load{batch: []*request{}}) }, maxBatch},
		"sent as a group":    {func(l *lane) { l.handLocked(load{ctx: background}) }, maxGroup},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				thaw := make(chan struct{})
				l, server := fakeLane(t, func() { <-thaw })
				l.flying = maxWidth
				_, done := askAll(t, l, c.batch+1)
				l.mu.Lock()
				l.flying = 1
				c.landed(l)
				l.mu.Unlock()
				synctest.Wait()
				assert.ElementsMatch(t, []int{c.batch, 1}, server.batches)
				assert.Equal(t, width, look(l).flying)
				close(thaw)
				for i := range done {
					assert.Equal(t, outcome{true, nil, 0}, <-done[i], i)
				}
				idle(t, l)
			})
		})
	}
}
