package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	width     = 2                     // batches on their way at a time
	maxWidth  = 64                    // the same, when the server is slow to answer
	maxBatch  = 256                   // requests in one batch
	slowAfter = 20 * time.Millisecond // without an answer for this long, one more batch may go
	parkFor   = time.Second           // an idle worker ends after this
)

// lane carries requests to one node. While fewer than width batches are on their
// way a request goes at once, alone; otherwise it joins those that go with the
// next batch. So a lone caller waits for nobody, and many callers share round
// trips, without a timer.
//
// A caller whose context cannot end sends on its own goroutine. Others leave
// that to a worker and can stop waiting at any time: go-redis does not give up a
// read when a context is cancelled.
type lane struct {
	rdb redis.UniversalClient

	mu     sync.Mutex
	queue  []*request
	flying int
	lastGo time.Time
	parked int       // workers that wait for a load
	loads  chan load // to parked workers, with room for all of them
}

// load is a batch with a context for go-redis: it ends with nobody's, and has
// the values of the one who sent it.
type load struct {
	ctx   context.Context
	batch []*request
}

func newLane(rdb redis.UniversalClient) *lane {
	return &lane{rdb: rdb, loads: make(chan load, maxWidth)}
}

// do sends q and waits for its answer or the end of ctx. sent is false if q never
// left and never will. After an error q must not be used again.
func (l *lane) do(ctx context.Context, q *request) (sent bool, err error) {
	l.mu.Lock()
	switch {
	case l.flying < width, l.flying < maxWidth && time.Since(l.lastGo) > slowAfter:
		batch := l.takeLocked(maxBatch - 1)
		if batch == nil {
			q.self[0] = q
			batch = q.self[:]
		} else {
			batch = append(batch, q)
		}
		if ctx.Done() == nil {
			l.mu.Unlock()
			l.send(ctx, batch, q)
			l.landed()
			return true, nil
		}
		l.handLocked(load{context.WithoutCancel(ctx), batch})
	default:
		l.queue = append(l.queue, q)
	}
	l.mu.Unlock()
	select {
	case <-q.done:
		return true, nil
	case <-ctx.Done():
		return !l.withdraw(q), context.Cause(ctx)
	}
}

// takeLocked counts a batch as on its way and returns what has gathered for it.
func (l *lane) takeLocked(most int) []*request {
	l.flying++
	l.lastGo = time.Now()
	n := min(len(l.queue), most)
	if n == 0 {
		return nil
	}
	batch := make([]*request, n, n+1)
	copy(batch, l.queue)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return batch
}

// handLocked gives a batch to a worker.
func (l *lane) handLocked(next load) {
	if l.parked > 0 {
		l.parked--
		l.loads <- next
		return
	}
	go l.work(next)
}

// work sends batches until there are none and none has come for parkFor.
func (l *lane) work(next load) {
	idle := time.NewTimer(parkFor)
	defer idle.Stop()
	for {
		l.send(next.ctx, next.batch, nil)
		l.mu.Lock()
		l.flying--
		if len(l.queue) > 0 && l.flying < width {
			next = load{context.Background(), l.takeLocked(maxBatch)}
			l.mu.Unlock()
			continue
		}
		l.parked++
		l.mu.Unlock()
		idle.Reset(parkFor)
		select {
		case next = <-l.loads:
			continue
		case <-idle.C:
		}
		l.mu.Lock()
		if l.parked > 0 {
			l.parked--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		next = <-l.loads // all who were parked have been given one
	}
}

// landed is the end of a batch that a caller sent itself; a worker sends what
// has gathered meanwhile.
func (l *lane) landed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	if len(l.queue) > 0 && l.flying < width {
		l.handLocked(load{context.Background(), l.takeLocked(maxBatch)})
	}
}

// send sends a batch and reports to all who wait for it, but own.
func (l *lane) send(ctx context.Context, batch []*request, own *request) {
	if len(batch) == 1 {
		_ = l.rdb.Process(ctx, batch[0].cmd) // the command keeps its error
	} else {
		p := l.rdb.Pipeline()
		for _, q := range batch {
			_ = p.Process(ctx, q.cmd)
		}
		_, _ = p.Exec(ctx)
	}
	for _, q := range batch {
		if q != own {
			q.done <- struct{}{}
		}
	}
}

// withdraw takes q back if it was not sent yet.
func (l *lane) withdraw(q *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.queue {
		if other == q {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return true
		}
	}
	return false
}
