package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const topNames = 5

// printTable shows both passes side by side.
func printTable(out io.Writer, in input, without, with pass) {
	row := func(name string, a, b any) { fmt.Fprintf(out, "%-28s%16v%16v\n", name, a, b) }
	row("", "without a lock", "under guard.Do")
	row("orders handled", without.Handled, with.Handled)
	row("  accepted", without.Accepted, with.Accepted)
	row("  sold out", without.Handled-without.Accepted, with.Handled-with.Accepted)
	if without.Failed+with.Failed > 0 {
		row("  failed", without.Failed, with.Failed)
	}
	row("units OVERSOLD", sum(without.oversold()), sum(with.oversold()))
	row("products oversold", len(without.oversold()), len(with.oversold()))
	row("products with a wrong stock", without.miscounted(), with.miscounted())
	row("refused by the fence", "-", with.Stale)
	row("time", ms(without.took), ms(with.took))
	row("orders per second", fmt.Sprintf("%.0f", without.perSecond()), fmt.Sprintf("%.0f", with.perSecond()))
	row("wait for the lock, p50", "-", ms(with.wait(0.50)))
	row("wait for the lock, p99", "-", ms(with.wait(0.99)))
	for _, p := range []pass{without, with} {
		if p.cutOff {
			fmt.Fprintf(out, "\nA pass was ended after %s with %d orders left.\n", ms(p.took), len(in.orders)-p.Handled)
		}
	}
	printOversold(out, in, without, with)
	printContended(out, with)
}

func printOversold(out io.Writer, in input, without, with pass) {
	names := map[string]string{}
	for _, p := range in.products {
		names[p.sku] = p.name
	}
	const format = "%-40s%10v%10v%10v\n"
	fmt.Fprintf(out, "\n"+format, "most oversold without a lock", "in stock", "sold", "with lock")
	over := without.oversold()
	for _, sku := range ranked(over, topNames, func(n int) int { return n }) {
		fmt.Fprintf(out, format, "  "+sku+" "+names[sku], without.initial[sku], without.Sold[sku], with.Sold[sku])
	}
}

func printContended(out io.Writer, with pass) {
	const format = "%-24s%8v%14v%14v%14v\n"
	fmt.Fprintf(out, "\n"+format, "most contended locks", "calls", "had to wait", "longest wait", "all waits")
	for _, name := range ranked(with.Names, topNames, func(c contention) time.Duration { return c.Total }) {
		c := with.Names[name]
		fmt.Fprintf(out, format, "  "+name, c.Calls, c.Waited, ms(c.Longest), ms(c.Total))
	}
}

// ms is a duration as people compare them: in one unit.
func ms(d time.Duration) string {
	s := fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
	if len(s) > len("99.99") {
		s, _, _ = strings.Cut(s, ".")
	}
	return s + " ms"
}
