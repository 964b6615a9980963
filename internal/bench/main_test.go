package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/report"
	"github.com/holdfast-go/holdfast/internal/bench/work"
)

// The test binary is its own child in W4 and W5.
func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	work.Child()
	os.Exit(m.Run())
}

// slow are those that take seconds for one pair while servers are down.
const slow = "redsync-5"

func TestEveryContestantRunsEveryWorkloadItIsIn(t *testing.T) {
	names := []string{}
	for _, c := range contest.All() {
		if c.Name != slow {
			names = append(names, c.Name)
		}
	}
	results := smoke(t, names)
	for _, r := range results {
		if r.Note != "" && !strings.HasPrefix(r.Contestant, "rueidislock") { // which can hang on a free lock
			t.Errorf("%s of %s: %s", r.Contestant, r.Workload, r.Note)
		}
		if r.Metrics["two holders"] > 0 || r.Metrics["errors"] > 0 || r.Metrics["lost"] > 0 {
			t.Errorf("%s of %s: %v", r.Contestant, r.Workload, r.Metrics)
		}
		if strings.HasPrefix(r.Contestant, "holdfast") && r.Metrics["orphans"] > 0 {
			t.Errorf("%s of %s left %v locks behind", r.Contestant, r.Workload, r.Metrics["orphans"])
		}
	}
	for _, w := range work.Full() {
		for _, c := range contest.Of(w.Name, names) {
			if !contains(results, w.Name, c.Name) {
				t.Errorf("%s was not measured in %s", c.Name, w.Name)
			}
		}
	}

	for name, plan := range map[string][]work.Workload{"full": work.Full(), "quick": work.Quick()} {
		page := report.Page{Results: inShapesOf(plan, results)}
		for _, line := range page.Bars() {
			if strings.HasPrefix(line, "SKIP") && !strings.Contains(line, slow) {
				t.Errorf("a %s run does not measure this: %s", name, line)
			}
		}
		if text := page.Markdown("x.svg"); strings.Count(text, "\n## W") != len(plan) {
			t.Errorf("want %d tables, got\n%s", len(plan), text)
		}
		wellFormed(t, page.Plot())
	}
}

// smoke measures names for an instant.
func smoke(t *testing.T, names []string) []work.Result {
	t.Helper()
	c := &config{ttl: time.Second, contestants: names, bin: binary(t)}
	load := func(shapes ...work.Shape) work.Load {
		return work.Load{Reps: 1, Dur: 30 * time.Millisecond, Shapes: shapes}
	}
	r, err := c.measure([]work.Workload{
		{Name: "w1", Do: work.W1, Load: load()},
		{Name: "w2", Do: work.W2, Load: load(work.Shape{Goroutines: 70})},
		{Name: "w3", Do: work.W3, Load: load(work.Shape{Goroutines: 4, Hold: time.Millisecond})},
		{Name: "w4", Do: work.W4, Load: load(work.Shape{Processes: 2, Goroutines: 2})},
		{Name: "w5", Do: work.W5, Load: load(work.Shape{Leases: 100, Dur: 400 * time.Millisecond})},
		{Name: "w6", Do: work.W6, Load: load()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Results
}

func binary(t *testing.T) string {
	t.Helper()
	name := os.Getenv("HOLDFAST_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("no server to measure: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func contains(results []work.Result, workload, contestant string) bool {
	for _, r := range results {
		if r.Workload == workload && r.Contestant == contestant {
			return true
		}
	}
	return false
}

// inShapesOf repeats the results for each shape of a plan.
func inShapesOf(plan []work.Workload, results []work.Result) []work.Result {
	var all []work.Result
	for _, w := range plan {
		shapes := w.Load.Shapes
		if len(shapes) == 0 { // w1 and w6 have shapes of their own
			shapes = []work.Shape{{}}
		}
		for _, s := range shapes {
			for _, r := range results {
				if r.Workload != w.Name {
					continue
				}
				if s.Goroutines+s.Leases > 0 {
					r.Shape = s.String()
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "not measured") {
		t.Errorf("the plot has gaps:\n%s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the plot is not XML: %v", err)
		}
	}
}

func TestRepsAreThoseAskedForInEveryShape(t *testing.T) {
	c, err := parse([]string{"-reps", "2"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range plan {
		if w.Load.Reps != 2 {
			t.Errorf("%s: %d", w.Name, w.Load.Reps)
		}
		for _, s := range w.Load.Shapes {
			if s.Reps != 0 {
				t.Errorf("%s, %v: %d", w.Name, s, s.Reps)
			}
		}
	}
}

func TestTheFolderForResultsIsMadeBeforeTheRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	c, err := parse([]string{"-w", "w1", "-redis", "no such server", "-out", out})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(io.Discard); err == nil {
		t.Error("a run without a server")
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
}
