package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// reply is what one node answered.
type reply struct {
	node  *node
	lease Lease
	err   error
}

// votes counts the answers of a round.
type votes struct {
	answers  int
	leases   []reply // without an error
	held     []*HeldError
	refused  []*node // that said so
	errs     []error // of nodes that were neither
	lost     int
	taken    bool
	mark     fence.Token
	granted  fence.Token
	handOffs int
}

func (v *votes) add(a reply) {
	v.answers++
	var held *HeldError
	switch {
	case a.err == nil:
		if len(v.leases) == 0 || a.lease.HandOffs < v.handOffs {
			v.handOffs = a.lease.HandOffs
		}
		v.leases = append(v.leases, a)
		v.granted = max(v.granted, a.lease.Granted)
	case errors.As(a.err, &held):
		v.held, v.refused = append(v.held, held), append(v.refused, a.node)
		v.mark = max(v.mark, held.Mark)
	default:
		if isLost(a.err) {
			v.lost++
			var l *LostError
			v.taken = v.taken || (errors.As(a.err, &l) && l.Reason == LostTaken)
		}
		v.errs = append(v.errs, fmt.Errorf("node %d: %w", a.node.number, a.err))
	}
}

// count is a token and how many nodes returned it.
type count struct {
	value fence.Token
	votes int
}

// leading is the token that most nodes returned, and how many granted at all.
func (v *votes) leading() (best count, granted int) {
	for _, a := range v.leases {
		n := 0
		for _, b := range v.leases {
			if a.lease.Token == b.lease.Token {
				n++
			}
		}
		if n > best.votes {
			best = count{a.lease.Token, n}
		}
	}
	return best, len(v.leases)
}

// clear tells whether it is known of a round that is not granted if that is
// because the name is held, whatever nodes still say.
func (v *votes) clear(nodes, need int) bool {
	return len(v.held) > nodes-need || len(v.held)+nodes-v.answers <= nodes-need
}

// verdict says why a round was not granted. The name is held if it would be even
// if every node that did not answer had granted it. The holder's token is the
// lowest: nodes outside of its majority may have a higher one, which was granted
// too late to count, or to put a lost lease back.
func (v *votes) verdict(name string, nodes, need int) error {
	if len(v.held) <= nodes-need {
		return v.failure(Lease{Request: Request{Name: name}}, nodes, need)
	}
	e := *v.held[0]
	left := make([]time.Duration, nodes) // 0 for a node that is free, or has not answered
	for i, h := range v.held {
		left[i] = h.RetryIn
		e.Mark, e.ServerTime = max(e.Mark, h.Mark), max(e.ServerTime, h.ServerTime)
		e.Foreign = e.Foreign || h.Foreign
		if h.Token < e.Token {
			e.Token, e.Holder, e.Trace = h.Token, h.Holder, h.Trace
		}
	}
	slices.Sort(left)
	e.Wake, e.RetryIn = nil, left[need-1] // when a majority may be free
	return &e
}

// failure says why a majority did not do what it was asked. What so many nodes
// say that the others are no majority is the quorum's answer.
func (v *votes) failure(l Lease, nodes, need int) error {
	if v.lost > nodes-need {
		return v.lostError(l)
	}
	refused := 0
	for _, err := range v.errs {
		if errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported) {
			refused++
			if refused > nodes-need {
				return err
			}
		}
	}
	return &quorumError{l.Name, v.errs, need}
}

func (v *votes) lostError(l Lease) *LostError {
	e := &LostError{Name: l.Name, Token: l.Token, Reason: LostGone, Err: nil}
	if v.taken {
		e.Reason = LostTaken
	}
	return e
}

func isLost(err error) bool { return errors.Is(err, ErrLost) }

// quorumError is an [ErrUnavailable] with what each failing node said.
type quorumError struct {
	name string
	errs []error
	need int
}

func (e *quorumError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("guard: lock service unavailable for %q: no majority of %d nodes: %s", e.name, e.need, strings.Join(texts, "; "))
}

func (e *quorumError) Is(target error) bool { return target == ErrUnavailable }
func (e *quorumError) ErrorType() string    { return "unavailable" }

// Unwrap leaves out losses on single nodes: the quorum's lease is not lost.
func (e *quorumError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.errs), isLost)
}

// Permanent tells whether asking again is of no use: so many nodes say so that
// the others are no majority.
func (e *quorumError) Permanent() bool {
	n := 0
	for _, err := range e.errs {
		if permanent(err) {
			n++
		}
	}
	return n >= e.need
}

func invalidRound(r Request, took time.Duration) error {
	return fmt.Errorf("%w: the round for %q took %v, longer than its TTL of %v allows", ErrUnavailable, r.Name,
		took.Round(time.Millisecond), r.TTL)
}
