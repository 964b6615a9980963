// Package report turns results into a Markdown page with a plot.
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/stats"
	"github.com/holdfast-go/holdfast/internal/bench/work"
)

// Page is what a run has found.
type Page struct {
	About   []string // machine, versions, command: a line each
	Results []work.Result
}

// series is one number of one contestant in one shape of a workload, over the
// repetitions.
type series struct{ workload, shape, contestant, metric string }

func (p *Page) values(s series) map[int]float64 {
	values := map[int]float64{}
	for _, r := range p.Results {
		if r.Workload == s.workload && r.Shape == s.shape && r.Contestant == s.contestant {
			if v, ok := r.Metrics[s.metric]; ok {
				values[r.Rep] = v
			}
		}
	}
	return values
}

// median is NaN if nothing was measured.
func (p *Page) median(s series) float64 {
	var values []float64
	for _, v := range p.values(s) {
		values = append(values, v)
	}
	return stats.Median(values)
}

// ratio is the median of the ratios within one repetition.
func (p *Page) ratio(a, b series) float64 {
	var ratios []float64
	over := p.values(b)
	for rep, v := range p.values(a) {
		if o, ok := over[rep]; ok {
			ratios = append(ratios, v/o)
		}
	}
	return stats.Median(ratios)
}

// Markdown is the page; plot names the picture beside it.
func (p *Page) Markdown(plot string) string {
	var b strings.Builder
	b.WriteString("# Benchmark\n\n")
	for _, line := range p.About {
		b.WriteString("- " + line + "\n")
	}
	fmt.Fprintf(&b, "\nMedians over the repetitions; × is the median of the ratios within one repetition. Numbers of different runs\n"+
		"do not compare, ratios do.\n\n![Holdfast and others in multiples of the raw commands](%s)\n\n"+
		"A dashed line is what holdfast has to reach.\n", plot)
	b.WriteString("\n## Bars\n\n```text\n" + strings.Join(p.Bars(), "\n") + "\n```\n")
	for _, t := range tables {
		b.WriteString(p.table(t))
	}
	b.WriteString("\n## Contestants\n\n")
	for _, c := range contest.All() {
		fmt.Fprintf(&b, "- `%s`: %s\n", c.Name, c.About)
	}
	return b.String()
}

// number prints v with three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case !stats.Known(v):
		return "–"
	case a == 0:
		return "0"
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 2, 64) + "M"
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
