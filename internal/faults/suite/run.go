package suite

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/world"
)

// Run is one history and what is wrong with it.
type Run struct {
	Setting world.Setting
	Seed    uint64

	Log    []string
	Short  []string // of a scene: what should have happened and did not
	Faults map[world.Fault]int
	Ops    int // acquisitions
	Stale  int // writes that the storage refused
	Models int // porcupine histories

	Wrong map[Property][]string
	Final int           // acquisitions after the faults
	Late  int           // of them, later than they should
	Worst time.Duration // that one took
	Saved []string      // pages of histories that failed
}

// Property is what is checked.
type Property string

// slow is how many times longer a thing may take than it should, now and then, on
// a machine that has other things to do.
const slow = 5

// Properties.
const (
	Exclusion Property = "one holder at a time"
	Order     Property = "tokens rise"
	Lock      Property = "porcupine: lock with tokens"
	Register  Property = "porcupine: fenced register"
	Updates   Property = "no lost update"
	Liveness  Property = "all acquire afterwards"
	Clean     Property = "no key is left"
	Harness   Property = "the harness worked"
)

// Properties in the order of reports.
var Properties = []Property{Exclusion, Order, Lock, Register, Updates, Liveness, Clean, Harness}

// Claimed tells whether p must hold in a setting.
func Claimed(s world.Setting, p Property) bool {
	switch p {
	case Exclusion:
		return s.Excludes
	case Liveness:
		_, claimed := s.Live()
		return claimed
	case Clean:
		return !s.Steps()
	case Order, Lock, Register, Updates, Harness:
	}
	return true
}

// Violations are what is wrong and must not be.
func (r *Run) Violations() (list []string) {
	for _, p := range Properties {
		if !Claimed(r.Setting, p) {
			continue
		}
		for _, what := range r.Wrong[p] {
			list = append(list, fmt.Sprintf("%v, seed %d: %s: %s", r.Setting, r.Seed, p, what))
		}
	}
	return list
}

func (r *Run) wrong(p Property, what ...string) { r.Wrong[p] = append(r.Wrong[p], what...) }
