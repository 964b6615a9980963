package demo

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// report is what replicas have done in one pass. They count for themselves what
// they have sold: that the stock says something else is what goes wrong.
type report struct {
	Sold     map[string]int // units, by product
	Handled  int            // orders
	Accepted int            // of them; the others met an empty shelf
	Failed   int            // orders of which the outcome is an error
	Failure  string         // the first such error
	Stale    int            // reads and writes that the fence refused
	Waits    []time.Duration
	Names    map[string]contention
}

// contention is what happened at one lock.
type contention struct {
	Calls, Waited  int // Waited: calls that did not get the lock at once
	Total, Longest time.Duration
}

func newReport() report {
	return report{Sold: map[string]int{}, Names: map[string]contention{}}
}

// add takes over what another replica has done.
func (r *report) add(o report) {
	for sku, n := range o.Sold {
		r.Sold[sku] += n
	}
	r.Handled += o.Handled
	r.Accepted += o.Accepted
	r.Failed += o.Failed
	r.Failure = cmp.Or(r.Failure, o.Failure)
	r.Stale += o.Stale
	r.Waits = append(r.Waits, o.Waits...)
	for name, c := range o.Names {
		sum := r.Names[name]
		sum.Calls += c.Calls
		sum.Waited += c.Waited
		sum.Total += c.Total
		sum.Longest = max(sum.Longest, c.Longest)
		r.Names[name] = sum
	}
}

// pass is one time through the orders.
type pass struct {
	report
	took    time.Duration
	cutOff  bool           // the time limit ended it
	shelf   map[string]int // what the stock says in the end
	initial map[string]int
}

// oversold is how many units were sold that did not exist, by product.
func (p pass) oversold() map[string]int {
	over := map[string]int{}
	for sku, n := range p.Sold {
		if n > p.initial[sku] {
			over[sku] = n - p.initial[sku]
		}
	}
	return over
}

// miscounted is how many products have a stock that is not what is left.
func (p pass) miscounted() (n int) {
	for sku, units := range p.initial {
		if p.shelf[sku] != units-p.Sold[sku] {
			n++
		}
	}
	return n
}

func (p pass) perSecond() float64 { return float64(p.Handled) / max(p.took.Seconds(), 1e-9) }

// wait is the q-quantile, by nearest rank, of how long calls waited for their lock.
func (p pass) wait(q float64) time.Duration {
	if len(p.Waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(p.Waits))
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}

// ranked returns the keys of the n largest values, largest first.
func ranked[V any, S cmp.Ordered](m map[string]V, n int, size func(V) S) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(size(m[b]), size(m[a])), cmp.Compare(a, b))
	})
	return keys[:min(n, len(keys))]
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// verdict says what the two passes prove, and the exit code for that.
func verdict(without, with pass) (code int, text string) {
	switch {
	case len(with.oversold()) > 0:
		return cli.Failed, "FAILED: units were oversold under the lock."
	case with.Failed+without.Failed > 0:
		return cli.Unavailable, "No result: orders failed: " + cmp.Or(with.Failure, without.Failure)
	case with.miscounted() > 0:
		return cli.Failed, "FAILED: the stock is wrong though every change was made under the lock."
	case len(without.oversold()) == 0:
		return cli.Failed, "FAILED: nothing was oversold without a lock, so this run proves nothing."
	}
	return cli.OK, "Without a lock units were sold that did not exist. Under guard.Do not one."
}
