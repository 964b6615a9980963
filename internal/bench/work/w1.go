package work

import (
	"context"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/server"
	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

// hangs is how long after its time an acquire of a free lock is ended.
const hangs = 3 * time.Second

// W1 is one goroutine that acquires and releases a free lock.
func W1(r *Run, l Load) error {
	shape := Shape{Goroutines: 1}
	open, done, err := r.open("w1", shape)
	if err != nil {
		return err
	}
	defer done()
	for rep := range l.Reps {
		for _, s := range turn(open, rep) {
			m, err := r.w1(s, l.Dur)
			if err != nil {
				r.failed("w1", shape, s.Name, rep, err)
				r.Servers[0].Flush()
				continue
			}
			r.add("w1", shape, s.Name, rep, m)
		}
	}
	for _, c := range r.of("w1", shape) {
		m, err := r.onTheWire(c, shape)
		if err != nil {
			r.failed("w1", shape, c.Name, l.Reps, err)
			continue
		}
		for _, res := range r.Results {
			if res.Workload == "w1" && res.Contestant == c.Name && res.Metrics != nil {
				maps.Copy(res.Metrics, m)
			}
		}
	}
	return nil
}

func (r *Run) w1(s session, dur time.Duration) (Metrics, error) {
	ctx, cancel := s.context(dur + hangs)
	defer cancel()
	name := []string{"w1-" + s.Name}
	for range 100 {
		if err := s.pair(ctx, name); err != nil {
			return nil, err
		}
	}
	var took stats.Hist
	m := startMeter(r.Servers[:1])
	for last := m.at; last.Sub(m.at) < dur; {
		if err := s.pair(ctx, name); err != nil {
			return nil, err
		}
		now := time.Now()
		took.Add(now.Sub(last))
		last = now
	}
	u := m.stop()
	n := took.N()
	return Metrics{
		"µs/pair": stats.Micros(u.took) / n, "p50 µs": took.Quantile(.5), "p99 µs": took.Quantile(.99),
		"allocs/pair": u.mallocs / n, "B/pair": u.bytes / n, "commands/pair": u.Sum(s.Sends) / n,
		"server CPU µs": stats.Micros(u.CPU) / n, "client CPU µs": stats.Micros(u.cpu) / n,
	}, nil
}

// onTheWire counts round trips and bytes.
func (r *Run) onTheWire(c contest.Contestant, shape Shape) (Metrics, error) {
	const pairs = 200
	env := r.env(shape)
	p, err := server.NewProxy(env.Addrs[0])
	if err != nil {
		return nil, err
	}
	defer p.Close()
	env.Addrs[0] = p.Addr()
	s, err := start(c, env)
	if err != nil {
		return nil, err
	}
	defer s.end()
	time.Sleep(50 * time.Millisecond) // for what warming up has left to do
	writes, sent, received := p.Counts()
	ctx, cancel := context.WithTimeoutCause(context.Background(), hangs, errHung)
	defer cancel()
	for range pairs {
		if err := s.pair(ctx, []string{"wire"}); err != nil {
			return nil, err
		}
	}
	w, o, i := p.Counts()
	return Metrics{"round trips": (w - writes) / pairs, "B sent": (o - sent) / pairs, "B received": (i - received) / pairs}, nil
}
