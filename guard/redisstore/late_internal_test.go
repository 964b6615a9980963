package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeServer does what answer says, and then answers all it was sent.
type fakeServer struct {
	answer  func()
	refuses error // of commands for several names

	mu      sync.Mutex
	sent    []redis.Cmder
	batches []int // how many at a time
}

func (*fakeServer) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
}

func (s *fakeServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { s.serve(cmd); return nil }
}

func (s *fakeServer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error { s.serve(cmds...); return nil }
}

func (s *fakeServer) serve(cmds ...redis.Cmder) {
	s.mu.Lock()
	s.sent = append(s.sent, cmds...)
	s.batches = append(s.batches, len(cmds))
	s.mu.Unlock()
	s.answer()
	for _, cmd := range cmds {
		names := cmd.Args()[2].(int)
		if names > 1 && s.refuses != nil {
			cmd.SetErr(s.refuses)
			continue
		}
		cmd.(*once).SetVal(strings.Repeat("D\n", names-1) + "D")
	}
}

func (s *fakeServer) has(q *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.sent, redis.Cmder(q.cmd))
}

// fakeLane is a lane without the way by the caller's own goroutine.
func fakeLane(t *testing.T, answer func()) (*lane, *fakeServer) {
	t.Helper()
	s := &fakeServer{answer: answer}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	rdb.AddHook(s)
	t.Cleanup(func() { _ = rdb.Close() })
	return newLane(struct{ redis.UniversalClient }{rdb}, false), s
}

// until is a context of which the deadline is all that ends it.
type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }
func (until) OnlyDeadline()                 {}
func (until) Done() <-chan struct{}         { panic("a channel and a timer that nobody needs") }

func in(d time.Duration) context.Context { return until{context.Background(), time.Now().Add(d)} }

// outcome is what became of a request, and when.
type outcome struct {
	sent  bool
	err   error
	after time.Duration
}

func ask(ctx context.Context, l *lane, q *request) <-chan outcome {
	done := make(chan outcome, 1)
	start := time.Now()
	go func() {
		sent, _, err := l.do(ctx, q, start)
		done <- outcome{sent, err, time.Since(start)}
	}()
	synctest.Wait()
	return done
}

// state is what a lane has to do.
type state struct {
	queued, flying int
	first          *request
	timer          *time.Timer
	rings          time.Time
}

func look(l *lane) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return state{len(l.queue), l.flying, l.late.first, l.late.timer, l.late.rings}
}

// idle checks that nothing is left in l.
func idle(t *testing.T, l *lane) {
	t.Helper()
	time.Sleep(answerWithin + parkFor)
	assert.Equal(t, state{timer: look(l).timer}, look(l))
}

func TestWithoutADeadlineARequestIsGivenUpAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thaw := make(chan struct{})
		l, server := fakeLane(t, func() { <-thaw })
		var q [4]*request
		var done [4]<-chan outcome
		cancellable, cancel := context.WithCancel(t.Context())
		for i := range q {
			ctx := context.Background()
			if i%2 == 1 {
				ctx = cancellable
			}
			q[i] = releaseScript.fresh()
			done[i] = ask(ctx, l, q[i])
		}
		for i := range q {
			assert.Equal(t, outcome{i < width, errUnanswered, answerWithin}, <-done[i], i)
		}
		cancel()
		assert.Equal(t, state{flying: width, timer: look(l).timer}, look(l), "what was not sent never will be")
		close(thaw)
		assert.Equal(t, outcome{true, nil, 0}, <-ask(t.Context(), l, releaseScript.fresh()), "the lane goes on")
		assert.False(t, server.has(q[2]) || server.has(q[3]))
		idle(t, l)
	})
}

func TestEachRequestIsGivenUpAtItsOwnDeadlineByOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thaw := make(chan struct{})
		l, server := fakeLane(t, func() { <-thaw })
		const ms = time.Millisecond
		limits := []time.Duration{300 * ms, 100 * ms, 500 * ms, 100 * ms, 200 * ms, 50 * ms, 400 * ms}
		var q []*request
		var done []<-chan outcome
		var timer *time.Timer
		for i, d := range limits {
			q = append(q, releaseScript.fresh())
			done = append(done, ask(in(d), l, q[i]))
			if timer == nil {
				timer = look(l).timer
			}
			assert.Same(t, timer, look(l).timer)
			assert.Equal(t, slices.Min(limits[:i+1]), time.Until(look(l).rings), "it rings for the earliest")
		}
		for i, d := range limits {
			assert.Equal(t, outcome{i < width, context.DeadlineExceeded, d}, <-done[i], i)
		}
		close(thaw)
		synctest.Wait()
		for i := range q {
			assert.Equal(t, i < width, server.has(q[i]), i)
		}
		assert.Same(t, timer, look(l).timer)
		idle(t, l)
	})
}

// An answered request is forgotten, and the timer left as it is.
func TestAnAnswerInTimeLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := fakeLane(t, func() { time.Sleep(time.Millisecond) })
		var rings time.Time
		for i := range 3 {
			q := releaseScript.fresh()
			assert.Equal(t, outcome{true, nil, time.Millisecond}, <-ask(in(time.Second), l, q))
			assert.Nil(t, look(l).first)
			if i == 0 {
				rings = look(l).rings
			}
			assert.Equal(t, rings, look(l).rings)
		}
		time.Sleep(time.Second)
		assert.Zero(t, look(l).rings, "it found nobody")
		l.mu.Lock()
		l.flying, l.lastGo = width, time.Now() // as if nothing else were answered
		l.mu.Unlock()
		assert.Equal(t, outcome{false, context.DeadlineExceeded, time.Second}, <-ask(in(time.Second), l, releaseScript.fresh()), "it was set again")
		time.Sleep(parkFor)
	})
}

// A caller that leaves takes its request along if it was not sent.
func TestACancelledRequestIsNotGivenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thaw := make(chan struct{})
		l, server := fakeLane(t, func() { <-thaw })
		ctx, cancel := context.WithCancelCause(t.Context())
		var q [3]*request
		var done [3]<-chan outcome
		for i := range q {
			q[i] = releaseScript.fresh()
			done[i] = ask(ctx, l, q[i])
		}
		time.Sleep(time.Second)
		cancel(net.ErrClosed)
		for i := range q {
			assert.Equal(t, outcome{i < width, net.ErrClosed, time.Second}, <-done[i], i)
		}
		assert.Equal(t, state{flying: width, timer: look(l).timer, rings: look(l).rings}, look(l))
		time.Sleep(answerWithin)
		close(thaw)
		synctest.Wait()
		assert.False(t, server.has(q[2]))
		assert.Equal(t, outcome{true, nil, 0}, <-ask(t.Context(), l, releaseScript.fresh()), "the lane goes on")
		idle(t, l)
	})
}

// Adding and removing in any order leaves exactly the others.
func TestDeadlinesAreKeptInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := fakeLane(t, func() {})
		l.mu.Lock()
		for range 40 {
			var want []*request
			for range 30 {
				if len(want) == 0 || rand.N(5) < 3 {
					q := releaseScript.fresh()
					l.late.add(q, time.Now().Add(time.Hour))
					want = append(want, q)
				} else {
					i := rand.N(len(want))
					l.late.remove(want[i])
					l.late.remove(want[i]) // twice is once
					want = slices.Delete(want, i, i+1)
				}
				var got []*request
				var before *request
				for q := l.late.first; q != nil; before, q = q, q.next {
					require.Same(t, before, q.prev)
					got = append(got, q)
				}
				require.ElementsMatch(t, want, got)
			}
			for _, q := range want {
				l.late.remove(q)
			}
			require.Nil(t, l.late.first)
		}
		l.mu.Unlock()
		time.Sleep(time.Hour)
	})
}

// Answers, deadlines and cancellations meet in one instant: each caller gets one
// verdict, at that instant, and the lane goes on.
func TestAnswersAndDeadlinesMayMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turn = 10 * time.Millisecond
		l, _ := fakeLane(t, func() { time.Sleep(turn) })
		var wg sync.WaitGroup
		var answered, late, cancelled int
		var mu sync.Mutex
		for i := range 64 {
			wg.Go(func() {
				for j := range 50 {
					limit := time.Duration(1+(i+j)%4) * turn
					ctx, cancel := in(limit), context.CancelFunc(func() {})
					if i%3 == 0 {
						ctx, cancel = context.WithCancel(context.Background())
						time.AfterFunc(limit, cancel)
					}
					start := time.Now()
					q := releaseScript.fresh()
					_, _, err := l.do(ctx, q, start)
					cancel()
					assert.LessOrEqual(t, time.Since(start), limit)
					mu.Lock()
					switch {
					case err == nil:
						assert.Equal(t, "D", q.cmd.Val())
						answered++
					case errors.Is(err, context.DeadlineExceeded):
						late++
					case errors.Is(err, context.Canceled):
						cancelled++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 64*50, answered+late+cancelled)
		assert.Positive(t, answered)
		assert.Positive(t, late)
		assert.Positive(t, cancelled)
		idle(t, l)
	})
}

// A caller leaves in the instant in which its request is given up: whichever it
// hears of, the worker does not wait for it when the answer comes.
func TestGivingUpAndLeavingMayMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 16 {
			thaw := make(chan struct{})
			l, _ := fakeLane(t, func() { <-thaw })
			ctx, cancel := context.WithCancel(t.Context())
			var done []<-chan outcome
			for range 3 {
				done = append(done, ask(ctx, l, releaseScript.fresh()))
			}
			time.AfterFunc(answerWithin, cancel)
			for _, d := range done {
				o := <-d
				assert.Error(t, o.err)
				assert.Equal(t, answerWithin, o.after)
			}
			close(thaw)
			idle(t, l)
		}
	})
}
