//go:build unix

package timing_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	podEnv  = "HOLDFAST_TEST_POD" // address, and how the work ends
	podHeld = 3
)

// TestPodProcess is a process that is told to stop, and nothing otherwise. It
// holds three names and waits for two, and says what happens when.
func TestPodProcess(t *testing.T) {
	var addr, how string
	if _, err := fmt.Sscan(os.Getenv(podEnv), &addr, &how); err != nil {
		return
	}
	app, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	g := newGuard(t, redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 30 * time.Second}))
	var say sync.Mutex
	var told time.Time
	tell := func(what string, err error) {
		say.Lock()
		defer say.Unlock()
		fmt.Printf("\npod %s %d %q\n", what, time.Since(told).Milliseconds(), fmt.Sprint(err))
	}
	var held, waiting, entered sync.WaitGroup
	for i := range podHeld {
		entered.Add(1)
		held.Go(func() {
			tell("held", guard.Do(context.Background(), g.Name("held", fmt.Sprint(i)), func(context.Context) error {
				entered.Done()
				<-app.Done()
				if how == "honours" {
					time.Sleep(100 * time.Millisecond)
				} else {
					time.Sleep(3500 * time.Millisecond)
				}
				tell("done", nil)
				return nil
			}))
		})
	}
	entered.Wait()
	for i := range 2 {
		waiting.Go(func() { tell("waiter", guard.Do(context.Background(), g.Name("taken", fmt.Sprint(i)), nothing)) })
	}
	<-app.Done()
	told = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	calls.Go(func() {
		waiting.Wait()
		for range 100 {
			if err := guard.Do(context.Background(), g.Name("late"), nothing); !errors.Is(err, guard.ErrClosed) {
				tell("late", err)
			}
		}
	})
	tell("closed", g.Close(ctx))
	calls.Wait()
	held.Wait()
	again, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tell("again", g.Close(again))
}

// fact is what a pod said.
type fact struct {
	at   time.Time
	ms   int
	text string
}

// pod is a running TestPodProcess.
type pod struct {
	*exec.Cmd
	over  chan struct{}
	mu    sync.Mutex
	facts map[string][]fact
}

func startPod(t *testing.T, addr, how string) *pod {
	t.Helper()
	p := &pod{Cmd: exec.Command(os.Args[0], "-test.run=^TestPodProcess$"), over: make(chan struct{}), facts: map[string][]fact{}}
	p.Env = append(os.Environ(), podEnv+"="+addr+" "+how)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	go func() {
		defer close(p.over)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			var what string
			f := fact{at: time.Now()}
			if n, _ := fmt.Sscanf(scan.Text(), "pod %s %d %q", &what, &f.ms, &f.text); n == 3 {
				p.mu.Lock()
				p.facts[what] = append(p.facts[what], f)
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		<-p.over
		_ = p.Wait()
	})
	return p
}

// said returns what the pod said of a kind, once there are n of them.
func (p *pod) said(t *testing.T, what string, n int) (list []fact) {
	t.Helper()
	soon(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		list = p.facts[what]
		return len(list) >= n
	})
	return list
}

// started is a pod that holds and waits, and whoever holds what it waits for.
func started(t *testing.T, s *redistest.Server, addr, how string) (p *pod, names []string) {
	t.Helper()
	rdb := s.Client(t)
	rival := newGuard(t, rdb)
	for i := range 2 {
		h, err := guard.Acquire(t.Context(), rival.Name("taken", fmt.Sprint(i)))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, h.Release()) })
	}
	p = startPod(t, addr, how)
	for i := range 2 {
		waits(t, rdb, fmt.Sprint("taken/", i), 1)
	}
	for i := range podHeld {
		names = append(names, fmt.Sprint("held/", i))
	}
	return p, names
}

// A process is told to stop: its waiters end, its work ends, and the next
// process has the names at once.
func TestAProcessThatIsToldToStopLeavesNothing(t *testing.T) {
	var waiters, left, next durations
	for range 3 {
		s := redistest.Start(t)
		rdb := s.Client(t)
		proxy := redistest.NewProxy(t, s.Addr())
		p, names := started(t, s, proxy.Addr(), "honours")
		told := time.Now()
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		soon(t, func() bool {
			return rdb.Exists(t.Context(), leaseKey(names[0]), leaseKey(names[1]), leaseKey(names[2]),
				leaseKey("taken/0")+":q", leaseKey("taken/1")+":q", leaseKey("taken/0")+":w", leaseKey("taken/1")+":w").Val() == 0
		})
		left.add(time.Since(told))
		for _, f := range p.said(t, "waiter", 2) {
			assert.Contains(t, f.text, "closed")
			waiters.add(time.Duration(f.ms) * time.Millisecond)
		}
		closed := p.said(t, "closed", 1)[0]
		assert.Equal(t, "<nil>", closed.text)
		g := newGuard(t, rdb)
		for _, name := range names {
			start := time.Now()
			require.NoError(t, guard.Do(t.Context(), g.Name(strings.Split(name, "/")...), nothing))
			next.add(time.Since(start))
		}
		assert.Equal(t, "<nil>", p.said(t, "again", 1)[0].text)
		assert.Empty(t, p.facts["late"], "calls after Close")
		for key := range s.Keys("lock:{late") {
			assert.Fail(t, "a call after Close: "+key)
		}
		for _, f := range p.said(t, "held", podHeld) {
			assert.Equal(t, "<nil>", f.text)
		}
	}
	waiters.within(t, 100*time.Millisecond)
	left.within(t, 500*time.Millisecond)
	next.within(t, 250*time.Millisecond)
}

// Work that goes on, or a server that cannot be reached: Close returns in time
// and says what is left, and no name is free while its work runs.
func TestCloseReturnsInTimeWhateverIsLeft(t *testing.T) {
	for _, tc := range []struct {
		name, how string
		cut       bool
	}{
		{"the work goes on", "ignores", false},
		{"the server is gone", "honours", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := redistest.Start(t)
			rdb := s.Client(t)
			proxy := redistest.NewProxy(t, s.Addr())
			p, names := started(t, s, proxy.Addr(), tc.how)
			if tc.cut {
				proxy.Stall()
			}
			proxy.ResetCommands()
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			for _, f := range p.said(t, "waiter", 2) {
				assert.Contains(t, f.text, "closed")
				assert.Less(t, f.ms, 100+int(slack.Milliseconds()))
			}
			closed := p.said(t, "closed", 1)[0]
			assert.InDelta(t, 2000, closed.ms, float64(slack.Milliseconds()))
			assert.Contains(t, closed.text, "still held")
			if !tc.cut {
				assert.Empty(t, p.facts["done"])
				for _, name := range names {
					assert.Contains(t, closed.text, name)
					assert.False(t, gone(rdb, name), "released while its work runs")
				}
				done := p.said(t, "done", podHeld)[podHeld-1].at
				soon(t, func() bool { return gone(rdb, names[0]) && gone(rdb, names[1]) && gone(rdb, names[2]) })
				assert.Less(t, took(done), 500*time.Millisecond)
			}
			proxy.Pass()
			assert.Equal(t, "<nil>", p.said(t, "again", 1)[0].text)
			assert.Empty(t, p.facts["late"])
			for _, name := range names {
				assert.True(t, gone(rdb, name))
			}
			assert.Empty(t, s.Keys("lock:{late"))
		})
	}
}
