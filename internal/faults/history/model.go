package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkLimit is how long a check may take; one that is not done by then counts as
// failed.
const checkLimit = time.Minute

// lockInput is a grant, or its end. Only the grant of the next lower token can be
// the last before it. With that said a search has nothing to choose among calls
// that wait at the same time, whose orders are too many to try.
type lockInput struct {
	token, lower int64
	end          bool
}

// lockState is the token of the holder, 0 if there is none, and the highest one.
type lockState struct{ holder, highest int64 }

// lockModel is a lock whose tokens rise, and which one holder has at a time if
// it excludes.
func lockModel(excludes bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, in := state.(lockState), input.(lockInput)
			switch {
			case in.end:
				return s.holder == in.token, lockState{0, s.highest}
			case excludes:
				return s.holder == 0 && in.lower == s.highest, lockState{in.token, in.token}
			}
			return in.lower == s.highest, lockState{0, in.token}
		},
		DescribeOperation: func(input, _ any) string {
			in := input.(lockInput)
			if in.end {
				return fmt.Sprintf("end %d", in.token)
			}
			return fmt.Sprintf("acquire: %d", in.token)
		},
	}
}

// registerState is what a register that is protected by tokens has: its mark and
// its value.
type registerState struct{ mark, value int64 }

// registerModel refuses a token below the mark, and no write is lost: each finds
// what its holder has read.
var registerModel = porcupine.Model{
	Init: func() any { return registerState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, a := state.(registerState), input.(Access)
		stale := a.Token < s.mark
		switch {
		case a.Unknown && stale:
			return true, s
		case stale || a.Stale:
			return stale == a.Stale, s
		case a.Write:
			return a.Expects == s.value, registerState{a.Token, a.Value}
		}
		return a.Unknown || a.Value == s.value, registerState{a.Token, s.value}
	},
	DescribeOperation: func(input, _ any) string {
		a := input.(Access)
		what := fmt.Sprintf("read %d with %d", a.Value, a.Token)
		if a.Write {
			what = fmt.Sprintf("write %d over %d with %d", a.Value, a.Expects, a.Token)
		}
		switch {
		case a.Stale:
			what += ": stale"
		case a.Unknown:
			what += ": no answer"
		}
		return what
	},
}

// Verdict is what a model said about the history of one name.
type Verdict struct {
	Name, Model string
	Result      porcupine.CheckResult

	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// Save writes the history as a page to look at.
func (v Verdict) Save(path string) error { return porcupine.VisualizePath(v.model, v.info, path) }

// Locks checks each name as a lock with tokens.
func (h *History) Locks(excludes bool) (verdicts []Verdict) {
	model, what := lockModel(excludes), "lock"
	if !excludes {
		what = "tokens"
	}
	begin := begins(excludes)
	for name, list := range h.holds(func(h Hold) int64 { return h.Token }) {
		var ops []porcupine.Operation
		var last, lower int64
		for _, one := range list {
			if one.Returned >= one.End() && excludes {
				continue // it never held: it was frozen on its way back
			}
			if one.Token != last {
				last, lower = one.Token, last
			}
			ops = append(ops, porcupine.Operation{
				ClientId: len(ops), Input: lockInput{token: one.Token, lower: lower}, Call: begin(one), Return: one.Returned,
			})
			if excludes {
				ops = append(ops, porcupine.Operation{
					ClientId: len(ops), Input: lockInput{token: one.Token, end: true}, Call: one.End(), Return: math.MaxInt64,
				})
			}
		}
		verdicts = append(verdicts, check(name, what, model, ops))
	}
	return verdicts
}

// Registers checks what the locks protect.
func (h *History) Registers() (verdicts []Verdict) {
	for name, list := range byName(h.Accesses, func(a Access) string { return a.Name }, func(a Access) int64 { return a.Called }) {
		var ops []porcupine.Operation
		for _, a := range list {
			ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: a, Call: a.Called, Return: a.Done})
		}
		verdicts = append(verdicts, check(name, "register", registerModel, ops))
	}
	return verdicts
}

func check(name, what string, model porcupine.Model, ops []porcupine.Operation) Verdict {
	result, info := porcupine.CheckOperationsVerbose(model, ops, checkLimit)
	return Verdict{name, what, result, model, info}
}
