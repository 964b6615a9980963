package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/server"
)

// W5 is a process of its own that holds many locks and does nothing else.
func W5(r *Run, l Load) error {
	for _, shape := range l.Shapes {
		for rep := range shape.reps(l) {
			for _, c := range turn(r.of("w5", shape), rep) {
				m, err := r.w5(c, shape, shape.dur(l))
				if err != nil {
					r.failed("w5", shape, c.Name, rep, err)
					continue
				}
				r.add("w5", shape, c.Name, rep, m)
			}
		}
	}
	return nil
}

func (r *Run) w5(c contest.Contestant, shape Shape, dur time.Duration) (Metrics, error) {
	srv := r.Servers[:1]
	srv[0].Flush()
	defer srv[0].Flush()
	first := server.Read(srv)
	env := r.env(shape)
	ch, err := spawn(job{c.Name, env, shape, dur}, readyWithin)
	if err != nil {
		return nil, err
	}
	before := server.Read(srv)
	ch.begin()
	time.Sleep(dur)
	after := server.Read(srv)
	out, err := ch.result(readyWithin)
	if err != nil {
		return nil, err
	}
	used, m := after.Since(before), out.Metrics
	renewals := used.Sum(c.Sends)
	m["commands/s"] = renewals / dur.Seconds()
	m["renewals per TTL/3"] = renewals / float64(shape.Leases) * (env.TTL / 3).Seconds() / after.At.Sub(before.At).Seconds()
	m["server CPU %"] = used.CPU.Seconds() / dur.Seconds() * 100
	m["expired"] = after.Since(first).Expired
	return m, nil
}

// footprint is what the runtime has in use.
type footprint struct{ goroutines, heap, stack float64 }

func measure() footprint {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{float64(runtime.NumGoroutine()), float64(m.HeapAlloc), float64(m.StackInuse)}
}

// hold is the child's part. It ends without releasing: the parent empties the
// server.
func (j job) hold(s session, begin func() error) (report, error) {
	held := make([]contest.Held, j.Shape.Leases)
	before, at := measure(), time.Now()
	if err := s.acquireAll(held); err != nil {
		return report{}, err
	}
	took, after := time.Since(at), measure()
	if err := begin(); err != nil {
		return report{}, err
	}
	cpu, at := cpuTime(), time.Now()
	time.Sleep(j.Dur)
	used := (cpuTime() - cpu).Seconds() / time.Since(at).Seconds()
	lost := 0
	held = slices.DeleteFunc(held, func(l contest.Held) bool { return l == nil })
	for _, l := range held {
		if l.Lost() {
			lost++
		}
	}
	n := float64(len(held))
	return report{Metrics: Metrics{
		"goroutines": after.goroutines - before.goroutines, "heap B/lease": (after.heap - before.heap) / n,
		"stack B/lease": (after.stack - before.stack) / n, "heap+stack B/lease": (after.heap - before.heap + after.stack - before.stack) / n,
		"client CPU %": used * 100, "lost": float64(lost), "never acquired": float64(j.Shape.Leases) - n,
		"acquired in s": took.Seconds(),
	}}, nil
}

// acquireAll fills held, 64 at a time. What hangs stays nil.
func (s session) acquireAll(held []contest.Held) error {
	h, ok := s.Session.(contest.Holder)
	if !ok {
		return fmt.Errorf("%s cannot hold", s.Name)
	}
	var next atomic.Int64
	errs := make([]error, min(64, len(held)))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(held) && errs[w] == nil; i = int(next.Add(1)) - 1 {
				held[i], errs[w] = s.hold(h, fmt.Sprintf("held-%d", i))
				if errors.Is(errs[w], errHung) {
					held[i], errs[w] = nil, nil
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...) // the others tell the same
}

// hold gives up if nothing comes. Otherwise the context goes on: some end the
// lease with it.
func (s session) hold(h contest.Holder, name string) (contest.Held, error) {
	if !s.Cancel {
		return h.Hold(context.Background(), name)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	hung := time.AfterFunc(readyWithin/3, func() { cancel(errHung) })
	l, err := h.Hold(ctx, name)
	if !hung.Stop() {
		return nil, errHung
	}
	return l, err
}
