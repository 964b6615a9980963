package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

// settle is what contestants get to clean up before stray locks are counted.
const settle = 100 * time.Millisecond

// W3 is one lock that many goroutines of a process want.
func W3(r *Run, l Load) error {
	for _, shape := range l.Shapes {
		open, done, err := r.open("w3", shape)
		if err != nil {
			return err
		}
		for rep := range shape.reps(l) {
			for _, s := range turn(open, rep) {
				m, err := r.w3(s, shape, rep, shape.dur(l))
				if err != nil {
					r.failed("w3", shape, s.Name, rep, err)
					continue
				}
				r.add("w3", shape, s.Name, rep, m)
			}
		}
		done()
	}
	return nil
}

// rivals are the goroutines of a W3 measurement.
type rivals struct {
	session
	name  string
	hold  time.Duration
	start time.Time

	inside     atomic.Int64
	violations atomic.Int64
	errs       atomic.Int64
	last       atomic.Int64 // holder, from 1
	released   atomic.Int64 // when the last release began, since start
	changes    atomic.Int64
	held       atomic.Int64 // ns altogether: a sleep takes longer than it says

	counts      []float64 // by goroutine, as the next ones
	waits, hand []stats.Hist
}

func (r *Run) w3(s session, shape Shape, rep int, dur time.Duration) (Metrics, error) {
	g := shape.Goroutines
	v := &rivals{
		session: s, name: fmt.Sprintf("w3-%s-%d-%v-%d#", s.Name, g, shape.Hold, rep), hold: shape.Hold, start: time.Now(),
		counts: make([]float64, g), waits: make([]stats.Hist, g), hand: make([]stats.Hist, g),
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	free, done := context.WithTimeout(context.Background(), dur+2*hangs)
	defer done()
	m := startMeter(r.Servers[:1])
	var wg sync.WaitGroup
	for i := range g {
		wg.Go(func() {
			for ctx.Err() == nil {
				v.once(ctx, free, i)
			}
		})
	}
	time.Sleep(dur)
	cancel()
	u := m.stop()
	if !within(&wg, 2*hangs) {
		return nil, errors.New("goroutines did not end")
	}
	time.Sleep(settle)
	return v.metrics(u, r.Servers[0].Left(v.name)), nil
}

// once acquires, works and releases as goroutine i; free is for giving the lock
// back when ctx has ended.
func (v *rivals) once(ctx, free context.Context, i int) {
	asked := time.Now()
	l, err := v.Acquire(ctx, v.name)
	if err != nil {
		if ctx.Err() == nil {
			v.errs.Add(1)
		}
		return
	}
	in := time.Now()
	if v.inside.Add(1) != 1 {
		v.violations.Add(1)
	}
	if ctx.Err() == nil {
		v.waits[i].Add(in.Sub(asked))
		v.counts[i]++
		if last := v.last.Swap(int64(i) + 1); last != 0 && last != int64(i)+1 {
			v.changes.Add(1)
			v.hand[i].Add(in.Sub(v.start) - time.Duration(v.released.Load()))
		}
	}
	if v.hold > 0 {
		time.Sleep(v.hold)
	}
	out := time.Since(v.start)
	v.held.Add(int64(out - in.Sub(v.start)))
	v.released.Store(int64(out))
	v.inside.Add(-1)
	_ = l.Release(free)
}

func (v *rivals) metrics(u usage, left int) Metrics {
	var waits, hand stats.Hist
	n := 0.0
	for i, count := range v.counts {
		waits.Merge(&v.waits[i])
		hand.Merge(&v.hand[i])
		n += count
	}
	return Metrics{
		"acquisitions/s": n / u.took.Seconds(), "changes/s": float64(v.changes.Load()) / u.took.Seconds(),
		"held %":           float64(v.held.Load()) / float64(u.took) * 100,
		"hand-over p50 µs": hand.Quantile(.5), "hand-over p99 µs": hand.Quantile(.99),
		"wait p50 ms": waits.Quantile(.5) / 1e3, "wait p99 ms": waits.Quantile(.99) / 1e3, "longest wait ms": waits.Max() / 1e3,
		"commands/acq": u.Sum(v.Sends) / n, "Jain": stats.Jain(v.counts), "fewest": slices.Min(v.counts), "most": slices.Max(v.counts),
		"most/fewest": slices.Max(v.counts) / slices.Min(v.counts), "two holders": float64(v.violations.Load()),
		"errors": float64(v.errs.Load()), "orphans": float64(left),
	}
}
