package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

// W2 is many goroutines, each with a lock of its own.
func W2(r *Run, l Load) error {
	for _, shape := range l.Shapes {
		open, done, err := r.open("w2", shape)
		if err != nil {
			return err
		}
		for rep := range shape.reps(l) {
			for _, s := range turn(open, rep) {
				m, err := r.w2(s, shape, shape.dur(l))
				if err != nil {
					r.failed("w2", shape, s.Name, rep, err)
					r.Servers[0].Flush()
					continue
				}
				r.add("w2", shape, s.Name, rep, m)
			}
		}
		done()
	}
	return nil
}

// lanes are the goroutines of a W2 measurement.
type lanes struct {
	session
	stop atomic.Bool
	gate chan struct{}
	warm sync.WaitGroup
	done sync.WaitGroup
	took []stats.Hist // by goroutine
	errs []error
}

func (r *Run) w2(s session, shape Shape, dur time.Duration) (Metrics, error) {
	names := make([]string, shape.Goroutines)
	for i := range names {
		names[i] = fmt.Sprintf("w2-%s-%d", s.Name, i)
	}
	groups := slices.Collect(slices.Chunk(names, s.batch()))
	l := &lanes{session: s, gate: make(chan struct{}), took: make([]stats.Hist, len(groups)), errs: make([]error, len(groups))}
	ctx, cancel := s.context(dur + hangs)
	defer cancel()
	for i, group := range groups {
		l.warm.Add(1)
		l.done.Go(func() { l.errs[i] = l.run(ctx, group, &l.took[i]) })
	}
	l.warm.Wait()
	m := startMeter(r.Servers[:1])
	close(l.gate)
	time.Sleep(dur)
	l.stop.Store(true)
	l.done.Wait()
	u := m.stop()
	if err := cmp.Or(l.errs...); err != nil { // the others tell the same
		return nil, err
	}
	var took stats.Hist
	for i := range l.took {
		took.Merge(&l.took[i])
	}
	n := took.N() * float64(len(names)) / float64(len(groups))
	return Metrics{
		"pairs/s": n / u.took.Seconds(), "p50 µs": took.Quantile(.5), "p99 µs": took.Quantile(.99), "max µs": took.Max(),
		"commands/pair": u.Sum(s.Sends) / n, "allocs/pair": u.mallocs / n,
		"server CPU µs": stats.Micros(u.CPU) / n, "client CPU µs": stats.Micros(u.cpu) / n,
	}, nil
}

func (l *lanes) run(ctx context.Context, names []string, took *stats.Hist) error {
	for range 5 {
		if err := l.pair(ctx, names); err != nil {
			l.warm.Done()
			return err
		}
	}
	l.warm.Done()
	<-l.gate
	for last := time.Now(); !l.stop.Load(); {
		if err := l.pair(ctx, names); err != nil {
			return err
		}
		now := time.Now()
		took.Add(now.Sub(last))
		last = now
	}
	return nil
}
