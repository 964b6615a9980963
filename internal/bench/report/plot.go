package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

// panel is one chart of the plot: a bar for each contestant.
type panel struct {
	title  string
	series series // without the contestant
	base   string // values are multiples of this one's; absolute if empty
	log    bool
	goal   float64 // a line where the bar of the issue is
}

var panels = []panel{
	{"W1: time of acquire + release, × floor; less is better", series{workload: "w1", shape: g1, metric: "µs/pair"}, "floor", false, 1.1},
	{"W2: pairs per second, 256 goroutines, × floor", series{workload: "w2", shape: g256, metric: "pairs/s"}, "floor", false, 2.5},
	{"W3: acquisitions per second, 64 goroutines, × floor", series{workload: "w3", shape: g64, metric: "acquisitions/s"}, "floor", true, 25},
	{"W3: Jain's index of fairness, 64 goroutines", series{workload: "w3", shape: g64, metric: "Jain"}, "", false, 0.99},
	{"W4: hand-overs between 4 processes per second, × floor", series{workload: "w4", shape: p4x1, metric: "crossings/s"}, "floor", false, 3},
	{"W4: longest wait, × floor; less is better", series{workload: "w4", shape: p4x1, metric: "longest wait ms"}, "floor", true, 0},
	{"W5: client CPU, 10,000 held leases, × floor; less is better", series{workload: "w5", shape: leases, metric: "client CPU %"}, "floor", true, 0.25},
	{"W6: acquire + release p50, 1 of 5 frozen, µs; less is better", series{workload: "w6", shape: frozen, metric: "pair p50 µs"}, "", true, 0},
}

// Sizes in the plot, in pixels.
const (
	panelWidth = 470
	labelWidth = 128
	valueWidth = 52
	barHeight  = 15
	barStep    = 20
	titleSpace = 34
	gap        = 28
)

const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.value { paint-order: stroke; stroke: white; stroke-width: 4px }
.peer { fill: #b6bec8 } .floor { fill: #6e7781 } .ours { fill: #1f6feb }
.goal { stroke: #cf222e; stroke-dasharray: 3 3 } .axis { stroke: #d0d7de }
</style>
`

// Plot is the page's picture, in SVG.
func (p *Page) Plot() string {
	var b strings.Builder
	height, row := gap, 0
	for i, pn := range panels {
		if i%2 == 0 {
			height += row
			row = 0
		}
		drawn, h := p.draw(pn)
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\">\n%s</g>\n", gap+i%2*(panelWidth+gap), height, drawn)
		row = max(row, h+gap)
	}
	width := 2*panelWidth + 3*gap
	height += row
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n%s"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", width, height, width, height, style, b.String())
}

// draw returns a panel, its corner at the origin, and its height.
func (p *Page) draw(pn panel) (svg string, height int) {
	var b strings.Builder
	title := pn.title
	if pn.log {
		title += ", log scale"
	}
	fmt.Fprintf(&b, "<text class=\"title\" x=\"0\" y=\"14\">%s</text>\n", title)
	names, values := p.bars(pn)
	if len(names) == 0 {
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">not measured</text>\n", titleSpace)
		return b.String(), titleSpace + barStep
	}
	scale := pn.scale(values)
	height = titleSpace + barStep*len(names)
	var labels strings.Builder
	for i, name := range names {
		y := titleSpace + barStep*i - 8
		length := scale(values[i])
		fmt.Fprintf(&b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", class(name), labelWidth, y, length, barHeight)
		fmt.Fprintf(&labels, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", labelWidth-8, y+12, name)
		fmt.Fprintf(&labels, "<text class=\"value\" x=\"%.1f\" y=\"%d\">%s</text>\n", labelWidth+length+5, y+12, number(values[i]))
	}
	top, bottom := titleSpace-12, height-8
	fmt.Fprintf(&b, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", labelWidth, labelWidth, top, bottom)
	if pn.goal > 0 {
		x := labelWidth + scale(pn.goal)
		fmt.Fprintf(&b, "<line class=\"goal\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", x, x, top, bottom)
	}
	return b.String() + labels.String(), height
}

func class(contestant string) string {
	switch {
	case strings.HasPrefix(contestant, "holdfast"):
		return "ours"
	case contestant == "floor" || contestant == "ceiling":
		return "floor"
	}
	return "peer"
}

// bars are the contestants that were measured, and their values.
func (p *Page) bars(pn panel) (names []string, values []float64) {
	for _, name := range p.contestants(pn.series.workload, pn.series.shape) {
		v := p.median(by(pn.series, name))
		if pn.base != "" {
			v = p.ratio(by(pn.series, name), by(pn.series, pn.base))
		}
		if stats.Known(v) {
			names, values = append(names, name), append(values, v)
		}
	}
	return names, values
}

// scale turns values into lengths. A logarithmic one begins below the
// smallest value, so that this has a bar too.
func (pn panel) scale(values []float64) func(float64) float64 {
	room := float64(panelWidth - labelWidth - valueWidth)
	all := append(slices.Clone(values), pn.goal)
	largest := slices.Max(all)
	if !pn.log {
		return func(v float64) float64 { return room * v / largest }
	}
	positive := slices.DeleteFunc(all, func(v float64) bool { return v <= 0 })
	smallest := slices.Min(positive)
	smallest /= max(1.5, math.Pow(largest/smallest, 0.15))
	return func(v float64) float64 {
		return room * math.Log(max(v, smallest)/smallest) / math.Log(largest/smallest)
	}
}

// inOrder sorts names of contestants as all tables do.
func inOrder(names []string) []string {
	var sorted []string
	for _, c := range contest.All() {
		if slices.Contains(names, c.Name) {
			sorted = append(sorted, c.Name)
		}
	}
	return sorted
}
