package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/world"
)

const fastShare = 0.99 // of the grants to a contender that is alone

// Kinds are the faults that the share's settings may inject.
func (s Share) Kinds() (kinds []world.Fault) {
	kinds = slices.Concat(world.Links, world.Clients)
	for _, one := range world.Settings {
		if strings.Contains(one.String(), s.Topology) {
			kinds = append(kinds, one.Servers...)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Sum is what all histories came to.
type Sum struct {
	Histories, Ops, Faults, Stale, Models int

	Kinds map[world.Fault]int
}

// Sum adds up.
func (t *Total) Sum() Sum {
	s := Sum{Histories: len(t.Runs), Kinds: map[world.Fault]int{}}
	for _, r := range slices.Concat(t.Runs, t.Scenes) {
		s.Ops += r.Ops
		s.Stale += r.Stale
		s.Models += r.Models
		for kind, n := range r.Faults {
			s.Kinds[kind] += n
			s.Faults += n
		}
	}
	return s
}

// Failures are all reasons why the run failed.
func (t *Total) Failures() (list []string) {
	list = append(list, t.Trouble...)
	for _, r := range slices.Concat(t.Runs, t.Scenes) {
		list = append(list, r.Violations()...)
	}
	for _, r := range rows(t.Scenes) {
		if 5*r.short > r.runs {
			list = append(list, fmt.Sprintf("%s: came about in %d of %d plays only", r.name, r.runs-r.short, r.runs))
		}
	}
	final, late := 0, 0
	for _, r := range t.Runs {
		if Claimed(r.Setting, Liveness) {
			final, late = final+r.Final, late+r.Late
		}
	}
	if 20*late > final {
		list = append(list, fmt.Sprintf("%d of %d acquired later than they should after the faults", late, final))
	}
	kinds := t.Sum().Kinds
	for _, kind := range t.Share.Kinds() {
		if len(t.Runs) > 0 && kinds[kind] == 0 {
			list = append(list, fmt.Sprintf("never happened: %s", kind))
		}
	}
	for _, c := range t.Control {
		if c.How == "" {
			list = append(list, fmt.Sprintf("control group: %s was not found in %d histories", c.Variant, c.Seeds))
		}
	}
	for _, p := range t.Paths {
		if p.Grants == 0 || p.Contenders == 1 && p.Share() < fastShare {
			list = append(list, fmt.Sprintf("quorum of 5: only %.2f %% of the grants to one contender took one round trip", 100*p.Share()))
		}
	}
	return list
}

// Share is the part of the grants that took one round trip.
func (p Path) Share() float64 { return 1 - float64(p.Slow)/float64(max(p.Grants, 1)) }

// row is the verdict on one setting.
type row struct {
	name           string
	runs, ops      int
	faults, models int
	final, late    int
	short          int
	wrong          map[Property]int
	claimed        map[Property]bool
	worst          time.Duration
}

func rows(runs []*Run) (list []*row) {
	for _, r := range runs {
		i := slices.IndexFunc(list, func(o *row) bool { return o.name == r.Setting.String() })
		if i < 0 {
			i = len(list)
			list = append(list, &row{name: r.Setting.String(), wrong: map[Property]int{}, claimed: map[Property]bool{}})
		}
		one := list[i]
		one.runs++
		one.ops += r.Ops
		one.faults += sum(r.Faults)
		one.models += r.Models
		if len(r.Short) > 0 {
			one.short++
		}
		one.final += r.Final
		one.late += r.Late
		one.worst = max(one.worst, r.Worst)
		for _, p := range Properties {
			one.claimed[p] = Claimed(r.Setting, p)
			one.wrong[p] += len(r.Wrong[p])
		}
	}
	slices.SortFunc(list, func(a, b *row) int { return strings.Compare(a.name, b.name) })
	return list
}

func (r *row) verdict(p Property) string {
	switch n := r.wrong[p]; {
	case !r.claimed[p] && n > 0:
		return fmt.Sprintf("not claimed (%d)", n)
	case !r.claimed[p]:
		return "not claimed"
	case n > 0:
		return fmt.Sprintf("**VIOLATED %d**", n)
	}
	return "holds"
}

// Lines are the verdicts, one a line.
func (t *Total) Lines() (lines []string) {
	for _, r := range rows(t.Runs) {
		for _, p := range Properties {
			lines = append(lines, fmt.Sprintf("%-50s %-30s %s", r.name, p, r.verdict(p)))
		}
	}
	return lines
}

// Page is all of it in Markdown.
func (t *Total) Page(what string) string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s := t.Sum()
	add("# Faults\n")
	add("%s. Seed %d, %v: %d histories, %d acquisitions checked, %d faults, %d porcupine histories, %d stale writes refused.",
		what, t.Share.Seed, t.Took.Round(time.Second), s.Histories, s.Ops, s.Faults, s.Models, s.Stale)
	add("Clients are processes and servers are real; a history lasts for some seconds. What is not claimed is counted and does not fail.\n")
	add("| setting | histories | acquisitions | faults | one holder | tokens rise | porcupine: lock | fenced register | no lost update | all acquire afterwards | of them late | slowest |")
	add("|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows(t.Runs) {
		add("| %s | %d | %d | %d | %s | %s | %s | %s | %s | %s | %d of %d | %d ms |", r.name, r.runs, r.ops, r.faults, r.verdict(Exclusion),
			r.verdict(Order), r.verdict(Lock), r.verdict(Register), r.verdict(Updates), r.verdict(Liveness), r.late, r.final, r.worst.Milliseconds())
	}
	t.extras(add)
	add("\n| fault | times |\n|---|---|")
	for _, kind := range t.Share.Kinds() {
		add("| %s | %d |", kind, s.Kinds[kind])
	}
	return b.String()
}

func (t *Total) extras(add func(string, ...any)) {
	if len(t.Scenes) > 0 {
		add("\n| quorum of 3, one thing at the worst moment | plays | came about | one holder | tokens rise |\n|---|---|---|---|---|")
		for _, r := range rows(t.Scenes) {
			add("| %s | %d | %d | %s | %s |", strings.TrimPrefix(r.name, "quorum-3, "), r.runs, r.runs-r.short, r.verdict(Exclusion), r.verdict(Order))
		}
		two := 0
		for _, r := range t.Limits {
			if len(r.Wrong[Exclusion]) > 0 {
				two++
			}
		}
		add("| %s: not claimed | %d | | two in %d | |", BareMajority.Name, len(t.Limits), two)
	}
	if len(t.Control) > 0 {
		add("\n| broken on purpose | found within | by |\n|---|---|---|")
		for _, c := range t.Control {
			how, _, _ := strings.Cut(c.How, ":")
			if how == "" {
				how = "**nothing**"
			}
			add("| %s | %d | %s |", c.Variant, c.Seeds, how)
		}
	}
	for _, p := range t.Paths {
		add("\nQuorum of 5, %d contending: %d grants, %.2f %% of them in one round trip.", p.Contenders, p.Grants, 100*p.Share())
	}
}
