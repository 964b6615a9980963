package work

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/server"
	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

const readyWithin = 60 * time.Second

// W4 is one lock that goroutines of several processes want.
func W4(r *Run, l Load) error {
	for _, shape := range l.Shapes {
		for rep := range shape.reps(l) {
			for _, c := range turn(r.of("w4", shape), rep) {
				m, err := r.w4(c, shape, shape.dur(l))
				if err != nil {
					r.failed("w4", shape, c.Name, rep, err)
					continue
				}
				r.add("w4", shape, c.Name, rep, m)
			}
		}
	}
	return nil
}

func (r *Run) w4(c contest.Contestant, shape Shape, dur time.Duration) (Metrics, error) {
	srv := r.Servers[:1]
	srv[0].Flush()
	children := make([]*child, shape.Processes)
	errs := make([]error, shape.Processes)
	var wg sync.WaitGroup
	for i := range children {
		wg.Go(func() { children[i], errs[i] = spawn(job{c.Name, r.env(shape), shape, dur}, readyWithin) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, ch := range children {
			if ch != nil {
				ch.end()
			}
		}
		return nil, err
	}
	before := server.Read(srv)
	for _, ch := range children {
		ch.begin()
	}
	time.Sleep(dur)
	used := server.Read(srv).Since(before)
	reports := make([]report, len(children))
	for i, ch := range children {
		reports[i], errs[i] = ch.result(dur + readyWithin)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	time.Sleep(settle)
	m := handOvers(reports, dur)
	n := m["acquisitions/s"] * dur.Seconds()
	m["commands/acq"] = used.Sum(c.Sends) / n
	m["server CPU %"] = used.CPU.Seconds() / dur.Seconds() * 100
	m["orphans"] = float64(srv[0].Left("w4-"))
	return m, nil
}

// contend is the child's part.
func (j job) contend(s session, begin func() error) (report, error) {
	if err := begin(); err != nil {
		return report{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Dur)
	defer cancel()
	free, done := context.WithTimeout(context.Background(), j.Dur+hangs)
	defer done()
	name := "w4-" + s.Name
	out := report{Turns: make([][]turnOf, j.Shape.Goroutines)}
	var errs atomic.Int64
	var wg sync.WaitGroup
	for i := range out.Turns {
		wg.Go(func() {
			for ctx.Err() == nil {
				t, err := j.once(ctx, free, s, name)
				switch {
				case err == nil:
					out.Turns[i] = append(out.Turns[i], t)
				case ctx.Err() == nil:
					errs.Add(1)
				}
			}
		})
	}
	if !within(&wg, j.Dur+2*hangs) {
		return report{}, errors.New("goroutines did not end")
	}
	s.end()
	out.Metrics = Metrics{"errors": float64(errs.Load())}
	return out, nil
}

// once takes one turn; free is for giving the lock back when ctx has ended.
func (j job) once(ctx, free context.Context, s session, name string) (turnOf, error) {
	asked := clock()
	l, err := s.Acquire(ctx, name)
	if err != nil {
		return turnOf{}, err
	}
	in := clock()
	if j.Shape.Hold > 0 {
		time.Sleep(j.Shape.Hold)
	}
	t := turnOf{asked, in, clock()}
	_ = l.Release(free)
	return t, nil
}

// holding is a turn with its holder.
type holding struct {
	turnOf
	process, goroutine int
}

// handOvers follows the lock from holder to holder.
func handOvers(reports []report, dur time.Duration) Metrics {
	var all []holding
	var waits, hand stats.Hist
	var processes, goroutines []float64
	crossings, violations, errs := 0, 0, 0.0
	for p, out := range reports {
		processes = append(processes, 0)
		errs += out.Metrics["errors"]
		for _, turns := range out.Turns {
			for _, t := range turns {
				all = append(all, holding{t, p, len(goroutines)})
				waits.Add(time.Duration(t.In - t.Asked))
			}
			processes[p] += float64(len(turns))
			goroutines = append(goroutines, float64(len(turns)))
		}
	}
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.In, b.In) })
	for i := 1; i < len(all); i++ {
		before, now := all[i-1], all[i]
		if now.In < before.Out {
			violations++
		}
		if now.process != before.process {
			crossings++
			hand.Add(time.Duration(now.In - before.Out))
		}
	}
	n := float64(len(all))
	return Metrics{
		"crossings/s": float64(crossings) / dur.Seconds(), "acquisitions/s": n / dur.Seconds(),
		"hand-over p50 µs": hand.Quantile(.5), "hand-over p99 µs": hand.Quantile(.99),
		"wait p50 ms": waits.Quantile(.5) / 1e3, "wait p99 ms": waits.Quantile(.99) / 1e3, "longest wait ms": waits.Max() / 1e3,
		"Jain": stats.Jain(goroutines), "Jain of processes": stats.Jain(processes),
		"fewest": slices.Min(goroutines), "most": slices.Max(goroutines), "two holders": float64(violations), "errors": errs,
	}
}
