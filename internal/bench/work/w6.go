package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/server"
	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

const (
	w6Within = 12 * time.Second       // an acquire and its release
	inFlight = 100 * time.Millisecond // for requests on their way after the last release
	cleanUp  = 2 * time.Second        // for cleaning up once the servers are back
)

// condition is a state of the five servers.
type condition struct {
	name         string
	breaks, mend func(s []*server.Server) error
}

// String names the condition in results.
func (c condition) String() string { return c.name }

func conditions() []condition {
	return []condition{
		{name: "healthy"},
		{
			"1 of 5 frozen",
			func(s []*server.Server) error { return s[4].Freeze() },
			func(s []*server.Server) error { return s[4].Thaw() },
		},
		{
			"2 of 5 killed",
			func(s []*server.Server) error {
				s[3].Kill()
				s[4].Kill()
				return nil
			},
			func(s []*server.Server) error { return errors.Join(s[3].Restart(), s[4].Restart()) },
		},
	}
}

// W6 is a lock kept on a majority of five servers, some of them frozen or dead.
func W6(r *Run, l Load) error {
	for rep := range l.Reps {
		for _, c := range conditions() {
			if err := r.w6(c, rep, l.Dur); err != nil {
				return err
			}
		}
	}
	return nil
}

// w6 breaks the servers once, and measures everybody with them.
func (r *Run) w6(c condition, rep int, dur time.Duration) error {
	for _, s := range r.Servers {
		time.Sleep(time.Until(s.Started.Add(contest.Grace(r.TTL))))
	}
	open, done, err := r.open("w6", Shape{})
	if err != nil {
		return err
	}
	defer done()
	if c.breaks != nil {
		if err := c.breaks(r.Servers); err != nil {
			return err
		}
	}
	first := len(r.Results)
	for _, s := range turn(open, rep) {
		r.add("w6", c, s.Name, rep, s.w6(dur))
		time.Sleep(inFlight)
	}
	if c.mend != nil {
		if err := c.mend(r.Servers); err != nil {
			return err
		}
		time.Sleep(min(cleanUp, r.TTL))
	}
	for _, res := range r.Results[first:] {
		for _, s := range r.Servers {
			res.Metrics["orphans"] += float64(s.Left("w6-" + res.Contestant + "#"))
		}
	}
	for _, s := range r.Servers {
		s.Flush()
	}
	return nil
}

// w6 acquires and releases free names one after the other, each once: a stray
// lock cannot stand in the way of the next acquire.
func (s session) w6(dur time.Duration) Metrics {
	var acquire, release, both stats.Hist
	errs, releaseErrs := 0.0, 0.0
	begin := time.Now()
	for i := 0; time.Since(begin) < dur; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), w6Within)
		asked := time.Now()
		l, err := s.Acquire(ctx, fmt.Sprintf("w6-%s#%d", s.Name, i))
		in := time.Now()
		acquire.Add(in.Sub(asked))
		if err != nil {
			errs++
			cancel()
			continue
		}
		if l.Release(ctx) != nil {
			releaseErrs++
		}
		release.Add(time.Since(in))
		both.Add(time.Since(asked))
		cancel()
	}
	return Metrics{
		"acquire p50 µs": acquire.Quantile(.5), "acquire p99 µs": acquire.Quantile(.99), "longest acquire ms": acquire.Max() / 1e3,
		"release p50 µs": release.Quantile(.5), "release p99 µs": release.Quantile(.99), "pair p50 µs": both.Quantile(.5),
		"pairs": both.N(), "errors": errs, "release errors": releaseErrs,
	}
}
