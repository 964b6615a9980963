// Package work has the workloads. Each measures its contestants in turn, many
// times, so that slow moments of the machine hit all of them.
package work

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/server"
)

// Run is what the workloads run on, and what they have measured.
type Run struct {
	Servers []*server.Server // five; most workloads use the first
	TTL     time.Duration
	Names   []string // of the contestants; all if empty
	Log     func(format string, args ...any)
	Results []Result
}

// Load says how much of a workload is done.
type Load struct {
	Reps   int
	Dur    time.Duration // of one measurement
	Shapes []Shape
}

// Shape is one size of a workload. What does not apply to it is 0.
type Shape struct {
	Processes, Goroutines, Leases int

	Hold time.Duration // how long the lock is held
	Reps int           // instead of the load's
	Dur  time.Duration // the same
	TTL  time.Duration // instead of the run's
	Only []string      // contestants; all if empty
}

// String names the shape in results.
func (s Shape) String() string {
	if s.Leases > 0 {
		return count(s.Leases, "lease")
	}
	text := count(s.Goroutines, "goroutine")
	if s.Processes > 0 {
		text = count(s.Processes, "process") + " of " + text
	}
	if s.Hold > 0 {
		text += fmt.Sprintf(", held %v", s.Hold)
	}
	return text
}

func count(n int, of string) string {
	switch {
	case n == 1:
		return "1 " + of
	case strings.HasSuffix(of, "s"):
		of += "e"
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Metrics are the numbers of one measurement, by name and unit.
type Metrics map[string]float64

// Result is one measurement of one contestant.
type Result struct {
	Workload, Shape, Contestant string

	Rep     int
	Metrics Metrics
	Note    string // why there are none
}

func (r *Run) add(workload string, s fmt.Stringer, contestant string, rep int, m Metrics) {
	r.Results = append(r.Results, Result{workload, s.String(), contestant, rep, m, ""})
}

// failed notes that a contestant could not be measured, and lets the run go on.
func (r *Run) failed(workload string, s fmt.Stringer, contestant string, rep int, err error) {
	r.Log("%s, %s, %s: %v", workload, s, contestant, err)
	r.Results = append(r.Results, Result{workload, s.String(), contestant, rep, nil, err.Error()})
}

// of returns those that take part in a workload and shape.
func (r *Run) of(workload string, s Shape) []contest.Contestant {
	var of []contest.Contestant
	for _, c := range contest.Of(workload, r.Names) {
		if len(s.Only) == 0 || has(s.Only, c.Name) {
			of = append(of, c)
		}
	}
	return of
}

func (r *Run) env(s Shape) contest.Env {
	env := contest.Env{TTL: r.TTL}
	if s.TTL > 0 {
		env.TTL = s.TTL
	}
	for _, srv := range r.Servers {
		env.Addrs = append(env.Addrs, srv.Addr)
	}
	return env
}

func (s Shape) reps(l Load) int {
	if s.Reps > 0 {
		return s.Reps
	}
	return l.Reps
}

func (s Shape) dur(l Load) time.Duration {
	if s.Dur > 0 {
		return s.Dur
	}
	return l.Dur
}

// turn returns items shifted by rep, every second time backwards, so that nobody
// always runs after the same neighbour.
func turn[T any](items []T, rep int) []T {
	n := len(items)
	turned := make([]T, n)
	for i := range items {
		from := i
		if rep%2 == 1 {
			from = n - 1 - i
		}
		turned[i] = items[(from+rep)%n]
	}
	return turned
}
