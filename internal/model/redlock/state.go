package redlock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	nodes       = 3
	quorum      = nodes/2 + 1
	maxAttempts = 3
)

// state has the time since the start in ticks, and everything that happens at
// one. Nodes are interchangeable and kept in order.
type state struct {
	now, wipes uint8
	node       [nodes]node
	client     [maxAttempts]client
}

type node struct {
	owner uint8 // 1 + attempt; 0 is free
	ends  uint8 // the lease
	mark  uint8 // base of the last grant; 0 is none
	grace uint8 // no grant before
	ahead uint8 // of the true time, its clock
	to    [maxAttempts]dealing
}

// dealing is what an attempt knows of a node.
type dealing struct {
	answer    answer
	base      uint8 // granted
	confirmed uint8 // until when the lease stands there, as far as the client knows
	renewed   bool  // in the round on its way
}

type answer uint8

const (
	open answer = iota
	granted
	storing // write-back sent
	stored
	closed
)

// client is one attempt to get the name, and its lease if it does.
type client struct {
	phase   phase
	after   uint8 // bits: attempts that had held before this one began
	asked   uint8 // when
	until   uint8 // local end of the lease; 0 once it is over
	token   uint8
	propose uint8
	renewal uint8 // 1 + when the round on its way was sent; 0 is none
	planted bool  // may re-plant
}

type phase uint8

const (
	idle phase = iota
	asking
	writing // writes the largest base back
	holding
	over
)

func (s *state) holds(a int) bool {
	return s.client[a].phase == holding && s.now < s.client[a].until
}

// release frees a node.
func (n *node) release() { n.owner, n.ends = 0, 0 }

func compare(a, b node) int {
	if c := cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.ends, b.ends), cmp.Compare(a.mark, b.mark),
		cmp.Compare(a.grace, b.grace), cmp.Compare(a.ahead, b.ahead)); c != 0 {
		return c
	}
	return slices.CompareFunc(a.to[:], b.to[:], func(x, y dealing) int {
		return cmp.Or(cmp.Compare(x.answer, y.answer), cmp.Compare(x.base, y.base),
			cmp.Compare(x.confirmed, y.confirmed), cmp.Compare(number(x.renewed), number(y.renewed)))
	})
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func letter(a int) rune { return 'A' + rune(a) }

func (m *model) show(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %d:", s.now)
	for _, n := range s.node {
		owner := '-'
		if n.owner > 0 {
			owner = letter(int(n.owner) - 1)
		}
		fmt.Fprintf(&b, " [%c", owner)
		if n.owner > 0 {
			fmt.Fprintf(&b, " to %d", n.ends)
		}
		fmt.Fprintf(&b, ", mark %d", n.mark)
		if n.grace > 0 {
			fmt.Fprintf(&b, ", grace to %d", n.grace)
		}
		b.WriteByte(']')
	}
	for a := range m.Attempts {
		if s.holds(a) {
			fmt.Fprintf(&b, " %c holds %d to %d", letter(a), s.client[a].token, s.client[a].until)
		}
	}
	return b.String()
}
