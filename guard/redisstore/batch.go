package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxBatch  = 64                    // requests in one batch; more would leave the server, then us, with nothing to do
	maxGroup  = 256                   // renewals in one batch
	width     = 2                     // batches on their way at a time
	fullWidth = 8                     // the same, if the next one is full
	maxWidth  = 64                    // the same, when the server is slow to answer
	slowAfter = 20 * time.Millisecond // without an answer for this long, one more batch may go
	parkFor   = time.Second           // an idle worker ends after this

	answerWithin = 10 * time.Second // without a deadline of the caller's

	quickWithin = 25 * time.Millisecond // a caller may be stuck in a read this long
	quickBelow  = 5 * time.Millisecond  // round trips that make that unlikely
	quickRecent = 5 * time.Second       // since the last answer
	quickPause  = time.Second           // after a caller was stuck, doubled up to quickPauses times
	quickPauses = 6
)

// lane carries requests to one node. While fewer than width batches are on their
// way a request goes at once, alone; otherwise it joins those that go with the
// next batch, which need not wait once it is full. A patient request calls a
// worker, and those that come before it go with it. So a lone caller waits for
// nobody, and many callers share round trips, without a timer.
//
// go-redis does not give up a read when a context is cancelled. So a caller whose
// context may end leaves the sending to a worker, and can stop waiting at any
// time. That costs two switches between goroutines, more than all else a lock
// does; while the node answers promptly, the caller therefore sends itself,
// through a client that gives up after quickWithin, and only then goes the long
// way.
type lane struct {
	rdb   redis.UniversalClient
	quick bool // there is a client for that, see shortcut

	bunches bool         // see OneServer
	refused atomic.Int64 // when a bunch was last, in Unix ns

	mu     sync.Mutex
	queue  []*request
	called bool // a worker is on its way to take what is in the queue
	late   deadlines
	flying int
	lastGo time.Time
	parked int       // workers that wait for a load
	loads  chan load // to parked workers, with room for all of them

	took     time.Duration // the last round trip
	lastAt   time.Time     // when it ended
	noQuick  time.Time     // not before this
	failures int           // of quick, in a row
}

// load is a batch with a context for go-redis: it ends with nobody's, and has
// the values of the one who sent it. Without a batch it is what is in the queue by
// the time that all who can run have asked.
type load struct {
	ctx   context.Context
	batch []*request
}

func newLane(rdb redis.UniversalClient, bunches bool) *lane {
	l := &lane{rdb: rdb, bunches: bunches, loads: make(chan load, maxWidth)}
	l.late.lane = l
	if c, ok := rdb.(*redis.Client); ok {
		if t := c.Options().ReadTimeout; t <= 0 || t > quickWithin {
			c.AddHook(shortcut{c.WithTimeout(quickWithin)})
			l.quick = true
		}
	}
	return l
}

// do sends q now and waits for its answer or the end of ctx. sent is false if q
// never left and never will. After an error q must not be used again. stuck is true
// if a quick attempt was given up: another one goes the long way.
func (l *lane) do(ctx context.Context, q *request, now time.Time) (sent, stuck bool, err error) {
	by, limited := ctx.Deadline()
	var end <-chan struct{}
	if _, alone := ctx.(interface{ OnlyDeadline() }); !alone { // else l.late does, without a channel and a timer
		end = ctx.Done()
	}
	l.mu.Lock()
	switch {
	case l.called:
		l.queue = append(l.queue, q)
	case q.patient && l.flying < width:
		l.queue = append(l.queue, q)
		l.called = true
		l.flying++
		l.handLocked(load{ctx: context.WithoutCancel(ctx)})
	case l.flying < width && len(l.queue) == 0 && l.quickLocked(now):
		l.flying++
		l.lastGo = now
		l.mu.Unlock()
		return true, l.sendQuick(ctx, q, now), nil
	case l.mayGoLocked(len(l.queue) + 1), l.flying < maxWidth && now.Sub(l.lastGo) > slowAfter:
		var batch []*request
		if len(l.queue) == 0 {
			q.self[0] = q
			batch = q.self[:]
			l.flying++
			l.lastGo = now
		} else {
			l.queue = append(l.queue, q)
			batch = l.takeLocked()
		}
		l.handLocked(load{context.WithoutCancel(ctx), batch})
	default:
		l.queue = append(l.queue, q)
	}
	if !limited { // the client may have no time-out
		by = now.Add(answerWithin)
	}
	if !limited || end == nil {
		l.late.add(q, by)
	}
	l.mu.Unlock()
	if end == nil {
		<-q.done // a select takes twice as long
	} else {
		select {
		case <-q.done:
		case <-end:
			return !l.withdraw(q), false, context.Cause(ctx)
		}
	}
	switch {
	case !q.gone:
		return true, false, nil
	case limited:
		return q.left, false, context.DeadlineExceeded
	}
	return q.left, false, errUnanswered
}

var errUnanswered = errors.New("redisstore: no answer within " + answerWithin.String())

func (l *lane) quickLocked(now time.Time) bool {
	return l.quick && l.took > 0 && l.took < quickBelow && now.Sub(l.lastAt) < quickRecent && !now.Before(l.noQuick)
}

// sendQuick sends q on the caller's goroutine and tells whether that was given
// up for want of an answer. The caller's context ends the wait for a connection.
func (l *lane) sendQuick(ctx context.Context, q *request, now time.Time) (stuck bool) {
	q.cmd.quick = true
	err := l.rdb.Process(ctx, q.cmd)
	stuck = err != nil && isTimeout(err) && ctx.Err() == nil
	l.mu.Lock()
	defer l.mu.Unlock()
	if stuck {
		l.noQuick = time.Now().Add(quickPause << min(l.failures, quickPauses))
		l.failures++
	} else if err == nil {
		l.failures = 0
	}
	l.answeredLocked(now)
	l.landedLocked()
	return stuck
}

// answeredLocked notes how long a round trip took.
func (l *lane) answeredLocked(sent time.Time) {
	l.lastAt = time.Now()
	l.took = max(l.lastAt.Sub(sent), 1)
}

// mayGoLocked tells whether a batch of what would be n requests can be sent.
func (l *lane) mayGoLocked(n int) bool {
	return n > 0 && l.flying < width || n >= maxBatch && l.flying < fullWidth
}

// sendOnLocked gives workers what can be sent.
func (l *lane) sendOnLocked() {
	for l.mayGoLocked(len(l.queue)) {
		l.handLocked(load{context.Background(), l.takeLocked()})
	}
}

// takeLocked counts a batch as on its way and returns what has gathered for it.
func (l *lane) takeLocked() []*request {
	l.flying++
	return l.unqueueFirstLocked(maxBatch)
}

func (l *lane) unqueueFirstLocked(most int) []*request {
	l.lastGo = time.Now()
	n := min(len(l.queue), most)
	if n == 0 {
		return nil
	}
	batch := make([]*request, n)
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
		if next.batch == nil {
			runtime.Gosched()
			l.mu.Lock()
			l.called = false
			next.batch = l.unqueueFirstLocked(maxGroup)
			l.sendOnLocked()
			l.mu.Unlock()
		}
		if len(next.batch) > 0 {
			l.send(next.ctx, next.batch)
		}
		if len(next.batch) > 1 {
			runtime.Gosched() // those who were answered ask for more, and share the next batch
		}
		l.mu.Lock()
		l.flying--
		if l.mayGoLocked(len(l.queue)) {
			next = load{context.Background(), l.takeLocked()}
			l.sendOnLocked()
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

// landedLocked is the end of a request that a caller sent itself; a worker sends
// what has gathered meanwhile.
func (l *lane) landedLocked() {
	l.flying--
	l.sendOnLocked()
}

// send sends a batch and reports to all who wait for it.
func (l *lane) send(ctx context.Context, batch []*request) {
	sent := time.Now()
	if len(batch) == 1 {
		_ = l.rdb.Process(ctx, batch[0].cmd) // the command keeps its error
	} else {
		l.sendAll(ctx, batch)
	}
	l.mu.Lock()
	l.answeredLocked(sent)
	for _, q := range batch {
		l.late.remove(q)
	}
	l.mu.Unlock()
	for _, q := range batch {
		if !q.gone {
			q.done <- struct{}{}
		}
	}
}
