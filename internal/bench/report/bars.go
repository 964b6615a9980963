package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/internal/bench/stats"
	"github.com/holdfast-go/holdfast/internal/bench/work"
)

// bar is what holdfast must show. With over it is about the ratio of two series
// within one repetition.
type bar struct {
	name  string
	value series
	over  series
	least float64 // a bar is "at least" if this is set, "at most" otherwise
	most  float64
}

// Shapes that bars are about.
const (
	g1       = "1 goroutine"
	g64      = "64 goroutines"
	g256     = "256 goroutines"
	g64x1ms  = "64 goroutines, held 1ms"
	g64x10ms = "64 goroutines, held 10ms"
	g32x2ms  = "32 goroutines, held 2ms"
	p4x1     = "4 processes of 1 goroutine"
	p4x4     = "4 processes of 4 goroutines"
	p4x8     = "4 processes of 8 goroutines"
	lease    = "1 lease"
	leases   = "10000 leases"
	healthy  = "healthy"
	frozen   = "1 of 5 frozen"
	killed   = "2 of 5 killed"
)

// by compares s with another contestant in the same shape.
func by(s series, contestant string) series {
	s.contestant = contestant
	return s
}

// in compares s with the same contestant in another shape.
func in(s series, shape string) series {
	s.shape = shape
	return s
}

func atMost(name string, s series, most float64) bar { return bar{name: name, value: s, most: most} }
func atLeast(name string, s series, least float64) bar {
	return bar{name: name, value: s, least: least}
}

func (b bar) than(over series) bar {
	b.over = over
	return b
}

func bars() []bar {
	var all []bar
	for _, part := range [][]bar{w1Bars(), w2Bars(), w3Bars(), w4Bars(), w5Bars(), w6Bars()} {
		all = append(all, part...)
	}
	return all
}

func w1Bars() []bar {
	s := func(contestant, metric string) series { return series{"w1", g1, contestant, metric} }
	t, ctx := s("holdfast", "µs/pair"), s("holdfast-ctx", "µs/pair")
	all := []bar{
		atMost("W1 time, ctx cannot end, × floor", t, 1.10).than(by(t, "floor")),
		atMost("W1 time, ctx can end, × floor", ctx, 1.20).than(by(ctx, "floor")),
	}
	for _, c := range []string{"holdfast", "holdfast-ctx"} {
		all = append(all,
			atMost("W1 allocations, "+c, s(c, "allocs/pair"), 20),
			atMost("W1 bytes, "+c, s(c, "B/pair"), 1024),
			atMost("W1 round trips, "+c, s(c, "round trips"), 2))
	}
	return all
}

func w2Bars() []bar {
	s := func(shape string) series { return series{"w2", shape, "holdfast", "pairs/s"} }
	cpu := series{"w2", g256, "ceiling", "server CPU µs"}
	one64, one256 := by(s(g64), "holdfast-one"), by(s(g256), "holdfast-one")
	return []bar{
		atLeast("W2 pairs/s at 1, × floor", s(g1), 0.9).than(by(s(g1), "floor")),
		atLeast("W2 pairs/s at 64, × floor", s(g64), 2.0).than(by(s(g64), "floor")),
		atLeast("W2 pairs/s at 256, × floor", s(g256), 2.5).than(by(s(g256), "floor")),
		atLeast("W2 pairs/s at 64, × ceiling", s(g64), 0.85).than(by(s(g64), "ceiling")),
		atLeast("W2 pairs/s at 256, × ceiling", s(g256), 0.85).than(by(s(g256), "ceiling")),
		atLeast("W2 pairs/s at 64, OneServer, × ceiling", one64, 0.85).than(by(s(g64), "ceiling")),
		atLeast("W2 pairs/s at 256, OneServer, × ceiling", one256, 0.85).than(by(s(g256), "ceiling")),
		atMost("W2 server CPU µs per pair of our scripts, in the ceiling's pipelines", cpu, 10),
		atMost("W2 server CPU µs per pair at 256", by(cpu, "holdfast"), 10),
		atMost("W2 server CPU µs per pair at 256, OneServer", by(cpu, "holdfast-one"), 10),
	}
}

func w3Bars() []bar {
	s := func(shape, metric string) series { return series{"w3", shape, "holdfast", metric} }
	fair := func(shape, metric string) series { return by(s(shape, metric), "holdfast-fair") }
	rate, rate1ms := s(g64, "acquisitions/s"), s(g64x1ms, "acquisitions/s")
	return []bar{
		atLeast("W3 acquisitions/s of 64, × floor", rate, 25).than(by(rate, "floor")),
		atMost("W3 commands per acquisition of 64", s(g64, "commands/acq"), 0.15),
		atLeast("W3 Jain of 64", s(g64, "Jain"), 0.99),
		atLeast("W3 acquisitions/s of 64, held 1 ms, × floor", rate1ms, 1.9).than(by(rate1ms, "floor")),
		atMost("W3 hand-over p50 µs of 64, held 1 ms", s(g64x1ms, "hand-over p50 µs"), 20),
		atMost("W3 Fair: commands per acquisition of 64", fair(g64, "commands/acq"), 2.2),
		atMost("W3 Fair: commands per acquisition of 64, held 10 ms", fair(g64x10ms, "commands/acq"), 3.2),
		atLeast("W3 Fair: Jain of 64", fair(g64, "Jain"), 0.99),
		atMost("W3 most/fewest acquisitions of 32, held 2 ms", s(g32x2ms, "most/fewest"), 1.2),
		atMost("W3 longest wait ms of 32, held 2 ms", s(g32x2ms, "longest wait ms"), 200),
	}
}

func w4Bars() []bar {
	s := func(shape, metric string) series { return series{"w4", shape, "holdfast", metric} }
	var all []bar
	for _, shape := range []string{p4x1, p4x4} {
		name := map[string]string{p4x1: "4×1", p4x4: "4×4"}[shape]
		rate, wait := s(shape, "crossings/s"), s(shape, "wait p99 ms")
		all = append(all,
			atLeast("W4 "+name+" hand-overs between processes/s, × floor", rate, 3).than(by(rate, "floor")),
			atMost("W4 "+name+" commands per acquisition", s(shape, "commands/acq"), 2.2),
			atLeast("W4 "+name+" Jain of processes", s(shape, "Jain of processes"), 0.98),
			atMost("W4 "+name+" wait p99, × floor", wait, 0.25).than(by(wait, "floor")))
	}
	rate, fair := s(p4x8, "acquisitions/s"), by(s(p4x4, "crossings/s"), "holdfast-fair")
	return append(all,
		atLeast("W4 4×4 Fair: hand-overs between processes/s, × floor", fair, 3).than(by(fair, "floor")),
		atLeast("W4 4×8 acquisitions/s, × floor", rate, 20).than(by(rate, "floor")),
		atLeast("W4 4×8 Jain", s(p4x8, "Jain"), 0.99))
}

func w5Bars() []bar {
	s := func(shape, metric string) series { return series{"w5", shape, "holdfast", metric} }
	cpu := s(leases, "client CPU %")
	return []bar{
		atLeast("W5 1 lease: renewals per TTL/3, at least", s(lease, "renewals per TTL/3"), 0.9),
		atMost("W5 1 lease: renewals per TTL/3, at most", s(lease, "renewals per TTL/3"), 1.1),
		atMost("W5 10k: goroutines", s(leases, "goroutines"), 20),
		atMost("W5 10k: heap and stack B per lease", s(leases, "heap+stack B/lease"), 500),
		atMost("W5 10k: client CPU, × floor", cpu, 0.25).than(by(cpu, "floor")),
		atMost("W5 10k: lost", s(leases, "lost"), 0),
		atMost("W5 10k: expired", s(leases, "expired"), 0),
	}
}

func w6Bars() []bar {
	s := func(shape, metric string) series { return series{"w6", shape, "holdfast-quorum", metric} }
	pair := s(healthy, "pair p50 µs")
	all := []bar{atMost("W6 healthy: acquire and release p50, × redsync-5", pair, 1).than(by(pair, "redsync-5"))}
	for _, c := range []string{frozen, killed} {
		acquire, release := s(c, "acquire p50 µs"), s(c, "release p50 µs")
		all = append(all,
			atMost("W6 "+c+": acquire p50, × healthy", acquire, 1.5).than(in(acquire, healthy)),
			atMost("W6 "+c+": release p50, × healthy", release, 1.5).than(in(release, healthy)))
	}
	for _, c := range []string{healthy, frozen, killed} {
		all = append(all, atMost("W6 "+c+": orphans", s(c, "orphans"), 0))
	}
	return all
}

// Bars returns a line for each bar of the workloads that were run: PASS or FAIL,
// what it is about, the number and the bar; or SKIP if the number is missing.
func (p *Page) Bars() []string {
	run := p.seen(func(r work.Result) (string, bool) { return r.Workload, true })
	var lines []string
	for _, b := range bars() {
		if !slices.Contains(run, b.value.workload) {
			continue
		}
		v := p.median(b.value)
		if b.over != (series{}) {
			v = p.ratio(b.value, b.over)
		}
		lines = append(lines, b.line(v))
	}
	return lines
}

func (b bar) line(v float64) string {
	rounded := math.Round(v*100) / 100 // the runtime allocates a little on its own
	passed, limit := rounded <= b.most, fmt.Sprintf("≤ %v", b.most)
	if b.least > 0 {
		passed, limit = rounded >= b.least, fmt.Sprintf("≥ %v", b.least)
	}
	verdict := "FAIL"
	switch {
	case !stats.Known(v):
		verdict = "SKIP"
	case passed:
		verdict = "PASS"
	}
	return fmt.Sprintf("%s %s: %s vs %s", verdict, b.name, number(v), limit)
}
