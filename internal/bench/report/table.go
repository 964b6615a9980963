package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/bench/work"
)

// table is how a workload is shown: the first column is the one that is compared.
type table struct {
	workload, title, base string
	columns               []string
}

var tables = []table{
	{"w1", "W1: a free lock, one goroutine", "floor", []string{
		"µs/pair", "p50 µs", "p99 µs", "allocs/pair", "B/pair", "commands/pair", "round trips", "B sent", "B received", "server CPU µs", "client CPU µs",
	}},
	{"w2", "W2: many goroutines, each with a lock of its own", "floor", []string{
		"pairs/s", "p50 µs", "p99 µs", "max µs", "commands/pair", "allocs/pair", "server CPU µs", "client CPU µs",
	}},
	{"w3", "W3: one lock, many goroutines of one process", "floor", []string{
		"acquisitions/s", "changes/s", "held %", "hand-over p50 µs", "hand-over p99 µs", "wait p50 ms", "wait p99 ms", "longest wait ms", "commands/acq",
		"Jain", "fewest", "most", "two holders", "errors", "orphans",
	}},
	{"w4", "W4: one lock, four processes", "floor", []string{
		"crossings/s", "acquisitions/s", "hand-over p50 µs", "hand-over p99 µs", "wait p50 ms", "wait p99 ms", "longest wait ms", "commands/acq",
		"Jain", "Jain of processes", "fewest", "most", "server CPU %", "two holders", "errors", "orphans",
	}},
	{"w5", "W5: held leases, renewed", "floor", []string{
		"client CPU %", "server CPU %", "commands/s", "renewals per TTL/3", "goroutines", "heap B/lease", "stack B/lease", "acquired in s",
		"lost", "expired", "never acquired",
	}},
	{"w6", "W6: a majority of five servers", "redsync-5", []string{
		"pair p50 µs", "acquire p50 µs", "acquire p99 µs", "longest acquire ms", "release p50 µs", "release p99 µs", "pairs", "errors",
		"release errors", "orphans",
	}},
}

func (p *Page) table(t table) string {
	var b strings.Builder
	for _, shape := range p.shapes(t.workload) {
		if b.Len() == 0 {
			fmt.Fprintf(&b, "\n## %s\n", t.title)
		}
		fmt.Fprintf(&b, "\n%s:\n\n| | %s | × %s | %s |\n|---|%s\n", strings.ToUpper(shape[:1])+shape[1:], t.columns[0], t.base,
			strings.Join(t.columns[1:], " | "), strings.Repeat("---:|", len(t.columns)+1))
		for _, c := range p.contestants(t.workload, shape) {
			b.WriteString(p.row(t, shape, c))
		}
		b.WriteString(p.failures(t.workload, shape))
	}
	return b.String()
}

func (p *Page) row(t table, shape, contestant string) string {
	first := series{t.workload, shape, contestant, t.columns[0]}
	base := first
	base.contestant = t.base
	cells := []string{contestant, number(p.median(first)), number(p.ratio(first, base))}
	for _, column := range t.columns[1:] {
		cells = append(cells, number(p.median(series{t.workload, shape, contestant, column})))
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// failures is a line for each contestant that could not always be measured.
func (p *Page) failures(workload, shape string) string {
	var b strings.Builder
	for _, c := range p.contestants(workload, shape) {
		failed, all, why := 0, 0, ""
		for _, r := range p.Results {
			if r.Workload != workload || r.Shape != shape || r.Contestant != c {
				continue
			}
			all++
			if r.Note != "" {
				failed, why = failed+1, r.Note
			}
		}
		if failed > 0 {
			fmt.Fprintf(&b, "\n%s failed in %d of %d: %s.\n", c, failed, all, why)
		}
	}
	return b.String()
}

// shapes returns the shapes measured in a workload, in order.
func (p *Page) shapes(workload string) []string {
	return p.seen(func(r work.Result) (string, bool) { return r.Shape, r.Workload == workload })
}

func (p *Page) contestants(workload, shape string) []string {
	return inOrder(p.seen(func(r work.Result) (string, bool) { return r.Contestant, r.Workload == workload && r.Shape == shape }))
}

func (p *Page) seen(pick func(work.Result) (string, bool)) []string {
	var seen []string
	for _, r := range p.Results {
		if s, ok := pick(r); ok && !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
	}
	return seen
}
