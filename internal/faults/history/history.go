// Package history checks what clients did with locks, after the fact.
package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/internal/faults/client"
)

// Never is a time later than all others.
const Never = math.MaxInt64

// Hold is one grant, as the client saw it. Times are ns of the machine's
// monotonic clock.
type Hold struct {
	Name             string
	Client           int
	Token            int64
	Called, Returned int64 // before Acquire was called, and after it returned
	Asked            int64 // before what was granted was first asked for, maybe by an earlier call
	Until            int64 // the last known end of the lease
	Release          int64 // before it was released, or the last time it surely was not; Never if it never was
	Released         int64 // when the release was confirmed
}

// End is when the client stopped holding: when it said so, or when its lease
// ended. A client that was killed held no longer than its last known lease.
func (h Hold) End() int64 { return min(h.Release, h.Until) }

func (h Hold) String() string {
	return fmt.Sprintf("client %d held %s with token %d from %d to %d", h.Client, h.Name, h.Token, h.Returned, h.End())
}

// Access is one use of a register that a lock protects.
type Access struct {
	Name           string
	Client         int
	Token          int64
	Called, Done   int64 // Done is Never if no answer came
	Write          bool
	Value          int64 // written, or read
	Expects        int64 // by a write: what the same holder read
	Stale, Unknown bool
}

// History is what all clients of a run did.
type History struct {
	Holds    []Hold
	Accesses []Access
	Refused  map[string]int // acquisitions that failed, by the class of the error
}

// Add takes in what a client said. killed is the time before it was killed, Never
// if it was not. A killed client may have been about to release what it had, and
// not have said so: only in the middle of its use of a register it was not.
func (h *History) Add(number int, events []client.Event, killed int64) {
	if h.Refused == nil {
		h.Refused = map[string]int{}
	}
	type slot struct {
		worker int
		name   string
	}
	holds := map[slot]*Hold{}
	used := map[slot]int64{}   // until when it surely was not released
	read := map[slot]*Access{} // what was asked of the register and not answered yet
	over := func(s slot) {
		if a := read[s]; a != nil {
			h.Accesses = append(h.Accesses, *a)
			delete(read, s)
		}
		if one := holds[s]; one != nil {
			h.Holds = append(h.Holds, *one)
			delete(holds, s)
		}
	}
	for _, e := range events {
		s := slot{e.Worker, e.Name}
		switch e.Kind {
		case client.Granted, client.Counting:
			over(s)
			holds[s] = &Hold{Name: e.Name, Client: number, Token: e.Token, Called: e.Called, Returned: e.Done, Asked: e.Asked,
				Until: e.Until, Release: Never, Released: Never}
			used[s] = e.Done
			if e.Kind == client.Counting {
				read[s] = &Access{Name: e.Name, Client: number, Token: e.Token, Called: e.Done, Done: Never, Unknown: true}
			}
		case client.Read:
			used[s] = Never
			if e.Stale {
				used[s] = e.Called
			}
			a := Access{Name: e.Name, Client: number, Token: e.Token, Called: e.Called, Done: e.Done, Value: e.Value, Stale: e.Stale}
			h.Accesses = append(h.Accesses, a)
			delete(read, s)
			if !e.Stale {
				read[s] = &Access{Name: e.Name, Client: number, Token: e.Token, Called: e.Done, Done: Never, Unknown: true,
					Write: true, Value: e.Value + 1, Expects: e.Value}
			}
		case client.Silent:
			used[s] = e.Called
		case client.Written:
			used[s] = e.Called
			if a := read[s]; a != nil {
				a.Called, a.Done, a.Stale, a.Unknown = e.Called, e.Done, e.Stale, false
			}
		case client.Ended:
			if one := holds[s]; one != nil {
				one.Until, one.Release, one.Released = e.Until, e.Called, e.Done
				if e.Error != "" {
					one.Released = Never
				}
			}
			over(s)
		case client.Refused:
			h.Refused[e.Error]++
		case client.Ready, client.Finished, client.Done:
		}
	}
	for s := range holds {
		if killed != Never {
			holds[s].Release = min(killed, used[s])
		}
		over(s)
	}
}

// byName splits a list, each part in the order in which key rises.
func byName[T any](list []T, name func(T) string, key func(T) int64) map[string][]T {
	parts := map[string][]T{}
	for _, e := range list {
		parts[name(e)] = append(parts[name(e)], e)
	}
	for _, part := range parts {
		slices.SortFunc(part, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	}
	return parts
}

func (h *History) holds(key func(Hold) int64) map[string][]Hold {
	return byName(h.Holds, func(h Hold) string { return h.Name }, key)
}

// Exclusion returns pairs of holds of one name that overlap, the later one in
// each with one before it.
func (h *History) Exclusion() (wrong []string) {
	for _, list := range h.holds(func(h Hold) int64 { return h.Returned }) {
		var last Hold // the one that ends last
		for i, one := range list {
			if one.Returned >= one.End() {
				continue
			}
			if i > 0 && one.Returned < last.End() {
				wrong = append(wrong, fmt.Sprintf("two holders: %v, and %v", last, one))
			}
			if one.End() > last.End() || i == 0 {
				last = one
			}
		}
	}
	return wrong
}

// begins is when what became a hold can have begun. Where leases may end early, a
// call may be passed one that is over, with a token from before the call.
func begins(excludes bool) func(Hold) int64 {
	if excludes {
		return func(h Hold) int64 { return h.Called }
	}
	return func(h Hold) int64 { return min(h.Called, h.Asked) }
}

// Order returns holds that were asked for after another one of their name was
// granted and yet have no higher token, and tokens that were granted twice. If two
// never hold at a time that counts from each call, else from what was granted.
func (h *History) Order(excludes bool) (wrong []string) {
	begin := begins(excludes)
	for name, started := range h.holds(begin) {
		granted := slices.Clone(started)
		slices.SortFunc(granted, func(a, b Hold) int { return cmp.Compare(a.Returned, b.Returned) })
		seen := map[int64]bool{}
		var highest Hold // of those granted before the next one was asked for
		done := 0
		for _, one := range started {
			for ; granted[done].Returned < begin(one); done++ {
				if granted[done].Token > highest.Token {
					highest = granted[done]
				}
			}
			if one.Token <= highest.Token {
				wrong = append(wrong, fmt.Sprintf("token order: %v, was asked for after: %v", one, highest))
			}
			if seen[one.Token] {
				wrong = append(wrong, fmt.Sprintf("token %d of %s was granted twice", one.Token, name))
			}
			seen[one.Token] = true
		}
	}
	return wrong
}

// Stale counts the writes that the storage refused since a later holder had been
// there.
func (h *History) Stale() (n int) {
	for _, a := range h.Accesses {
		if a.Write && a.Stale {
			n++
		}
	}
	return n
}

// Lost returns registers whose value is not the number of increments that were
// confirmed. Those without an answer may count or not.
func (h *History) Lost(final map[string]int64) (wrong []string) {
	confirmed, maybe := map[string]int64{}, map[string]int64{}
	for _, a := range h.Accesses {
		switch {
		case !a.Write || a.Stale:
		case a.Unknown:
			maybe[a.Name]++
		default:
			confirmed[a.Name]++
		}
	}
	for name, n := range confirmed {
		if got := final[name]; got < n || got > n+maybe[name] {
			wrong = append(wrong, fmt.Sprintf("register %s is %d after %d confirmed increments, and %d without an answer",
				name, got, n, maybe[name]))
		}
	}
	return wrong
}
