package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
)

func has(names []string, name string) bool { return slices.Contains(names, name) }

// errHung is how an acquire ends that does not get a free lock.
var errHung = errors.New("an acquire of a free lock did not return")

// session is a contestant that is connected and warm.
type session struct {
	contest.Contestant
	contest.Session
}

// open opens all that take part, so that they can be measured in turn without
// connecting again.
func (r *Run) open(workload string, s Shape) (open []session, done func(), err error) {
	done = func() {
		for _, s := range open {
			s.end()
		}
	}
	for _, c := range r.of(workload, s) {
		one, err := start(c, r.env(s))
		if err != nil {
			done()
			return nil, nil, err
		}
		open = append(open, one)
	}
	return open, done, nil
}

// start opens c, has it connect, and makes the server know its scripts.
func start(c contest.Contestant, env contest.Env) (session, error) {
	opened, err := c.Open(context.Background(), env)
	if err != nil {
		return session{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	s := session{c, opened}
	ctx, cancel := context.WithTimeoutCause(context.Background(), hangs, errHung)
	defer cancel()
	for i := range 50 {
		switch err := s.pair(ctx, []string{fmt.Sprintf("warm-%s-%d-%d", c.Name, os.Getpid(), i)}); {
		case errors.Is(err, errHung):
			return s, nil // warm enough; it may do better when it counts
		case err != nil:
			s.end()
			return session{}, fmt.Errorf("%s: warming up: %w", c.Name, err)
		}
	}
	return s, nil
}

// pair acquires and releases names once: several for those that only do
// pipelines, one for all others.
func (s session) pair(ctx context.Context, names []string) error {
	if p, ok := s.Session.(contest.Pairs); ok {
		return p.Pairs(ctx, names)
	}
	l, err := s.Acquire(ctx, names[0])
	switch {
	case err == nil:
		return l.Release(ctx)
	case errors.Is(context.Cause(ctx), errHung):
		return errHung
	}
	return err
}

// batch is how many names of a goroutine each pair takes.
func (s session) batch() int {
	if _, ok := s.Session.(contest.Pairs); ok {
		return 64
	}
	return 1
}

// context returns what an uncontended acquire gets. For those that can hang even
// then it ends after d.
func (s session) context(d time.Duration) (context.Context, context.CancelFunc) {
	if s.Cancel {
		return context.WithTimeoutCause(context.Background(), d, errHung)
	}
	return context.Background(), func() {}
}

// end closes the session. Some do not come back when a server is gone.
func (s session) end() {
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Close() })
	within(&wg, 3*time.Second)
}

// within waits for workers, but not for ever.
func within(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
