// Package explore searches the reachable states of a small model, breadth
// first, for a step that breaks a rule of the model. The first broken rule ends
// the search, so its trace is a shortest one.
package explore

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"
)

// Model is a transition system. Everything that may happen in state s is a step
// that Next emits; a state that differs in anything that matters later must
// differ as a value of S.
type Model[S comparable] struct {
	Start []S
	Next  func(s *S, emit Emit[S])
	Show  func(s *S) string
}

// Emit takes a step to the state to. A step that breaks a rule says so in
// broken, as "RULE: what happened"; otherwise broken is empty. The format says
// what happens in the step and is used only in a trace. Emit keeps neither to
// nor args.
type Emit[S comparable] func(to *S, broken, format string, args ...any)

// Options bound a search. The zero Options search everything and compare states
// exactly.
type Options struct {
	// MaxStates ends the search when that many states are known; 0 is no limit.
	MaxStates int
	// Hashed keeps 128 bits of each state in place of the state. Two of n states
	// share them with a probability of about n²/2¹²⁹, which is 10⁻²² for 2·10⁸
	// states; the search would then miss what only the second one leads to.
	Hashed bool
}

// Result is what a search found.
type Result struct {
	States   int    // distinct states
	Steps    int    // steps taken, also to known states
	Depth    int    // of the last state that was looked at
	Broken   string // the rule that a step breaks; empty if none was found
	Trace    []string
	Complete bool // every reachable state was looked at
	Took     time.Duration
}

// Verdict is the result in words: "holds", "violates RULE", or "unfinished".
func (r Result) Verdict() string {
	switch {
	case r.Broken != "":
		return "violates " + r.Broken
	case r.Complete:
		return "holds"
	default:
		return "unfinished"
	}
}

// Run searches m.
func Run[S comparable](m Model[S], o Options) Result {
	if !o.Hashed {
		return search(m, o.MaxStates, func(s *S) S { return *s })
	}
	a, b := maphash.MakeSeed(), maphash.MakeSeed()
	return search(m, o.MaxStates, func(s *S) [2]uint64 {
		return [2]uint64{maphash.Comparable(a, *s), maphash.Comparable(b, *s)}
	})
}

func search[S, K comparable](m Model[S], limit int, key func(*S) K) Result {
	began := time.Now()
	known := newVisited[K]()
	var open queue[S] // the states that are known and were not looked at, in order
	for i := range m.Start {
		if known.add(key(&m.Start[i]), none) {
			open.push(&m.Start[i])
		}
	}
	r := Result{Complete: true}
	last := known.len() // index after the last state of this depth
	for at := 0; at < known.len() && r.Broken == ""; at++ {
		if limit > 0 && known.len() > limit {
			r.Complete = false
			break
		}
		if at == last {
			r.Depth++
			last = known.len()
		}
		s := open.pop()
		m.Next(&s, func(to *S, broken, format string, args ...any) {
			switch {
			case r.Broken != "":
			case broken == "":
				r.Steps++
				if known.add(key(to), int32(at)) {
					open.push(to)
				}
			default:
				r.Steps++
				r.Broken, _, _ = strings.Cut(broken, ":")
				r.Trace = append(replay(m, known.path(at), key),
					fmt.Sprintf(format, args...)+"  =>  "+broken+"  "+m.Show(to))
			}
		})
	}
	r.Complete = r.Complete && r.Broken == ""
	r.States, r.Took = known.len(), time.Since(began)
	return r
}

// replay finds the steps between the states of path, which are given by their
// keys.
func replay[S, K comparable](m Model[S], path []K, key func(*S) K) []string {
	var s S
	for i := range m.Start {
		if key(&m.Start[i]) == path[0] {
			s = m.Start[i]
		}
	}
	trace := []string{"start  =>  " + m.Show(&s)}
	for _, want := range path[1:] {
		from, found := s, false
		m.Next(&from, func(to *S, _, format string, args ...any) {
			if !found && key(to) == want {
				found, s = true, *to
				trace = append(trace, fmt.Sprintf(format, args...)+"  =>  "+m.Show(to))
			}
		})
	}
	return trace
}
