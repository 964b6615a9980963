// Package tokens models how a quorum of independent nodes agrees on fencing
// tokens.
//
// Nothing in it has a time: a node may end any lease at any moment, a request
// may be executed late or never, and an answer may be lost. That covers every
// clock, every pause and every delay. Marks are durable; data loss is the
// subject of package redlock. The client is the one of guard.Quorum: it asks
// all nodes, takes a base that a majority granted, or else writes the largest
// base back to a majority of the nodes whose grant it has read.
//
// Rules, for each token that is handed out:
//
//	ORDER   it is above every token of a grant that ended before it was asked for
//	UNIQUE  no other grant has it
//
// Why they hold, for any number of nodes and attempts. Take a grant with base t.
// At each node of some majority there was an interval of its ownership that began
// with a base of at most t being granted, and in which the mark reached at least
// t: the nodes that granted t, or those that stored it. That is why a node must
// not count that is owned by another by then, or that stores a larger base: a
// second copy of the acquire may have begun another interval. The majorities of
// two grants meet in a node, where one interval came first. When the other began,
// the mark was at least t, so the base granted was at least t + Block, and so is
// the token of that grant. A grant that had ended before the other was asked for
// came first wherever they meet. Nothing here is about time.
//
// A grant owns Block consecutive tokens, and both rules are about all of them.
// A format with 64 tokens behaves like one with 3, since the model compares and
// never counts them; one case has 64.
//
// Not modelled: releases (a lease that may end at any moment covers them) and
// renewals. Lean cases fold the grants that nobody reads into a limited number
// of marks raised by others.
package tokens

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// rule is a way to make one token of the answers.
type rule int

const (
	// agreed takes a base that a majority granted, otherwise the largest one is
	// written back to a majority before it is handed out. This is what is built;
	// the others show what each part of it is good for.
	agreed          rule = iota
	alwaysWriteBack      // also when a majority granted the same base
	largest              // no write-back
	median               // the median if all nodes answered, otherwise as agreed
	handedOutEarly       // the token is handed out before it is written back
	anyOwner             // write-back does not ask whose lease it is
	unseenCounts         // write-back counts at nodes whose grant was not read
	unseenChecked        // the same, but a node that stores a larger base refuses
	minorityAgreed       // agreed by less than a majority
)

// Config fixes a model.
type Config struct {
	Nodes, Attempts int
	Rule            rule
	Block           uint16   // tokens of a grant; the mark stores the base
	Proposals       []uint16 // what an attempt may propose; nil is nothing
	Times           []uint16 // what a node's clock may show at a grant; nil is 0
	Marks           uint16   // marks begin at 0..Marks, in all combinations
	Raises          uint8    // how often others raise a mark by one, in all
	Lean            bool
	LostStores      bool // answers to a write-back may be lost
	OrderOnly       bool // UNIQUE is not checked

	// Resend lets a second copy of an acquire be executed after the lease that
	// the first one was granted has ended.
	Resend bool
	// LargerCounts is broken: a node answers a write-back with success although
	// it stores a larger base.
	LargerCounts bool
	// MarkIsEnd is broken: a grant stores the end of its block, but a write-back
	// stores the base.
	MarkIsEnd bool
}

type model struct {
	Config
	quorum int
}

func (c Config) run(o explore.Options) explore.Result {
	m := &model{c, c.Nodes/2 + 1}
	if m.Times == nil {
		m.Times = []uint16{0}
	}
	if m.Proposals == nil {
		m.Proposals = []uint16{0}
	}
	return explore.Run(explore.Model[state]{Start: m.start(), Next: m.next, Show: m.show}, o)
}

func (m *model) start() []state {
	states := []state{{}}
	for i := range m.Nodes {
		var more []state
		for _, s := range states {
			for mark := range m.Marks + 1 {
				s.node[i] = column(0).withOwner(free).withMark(mark)
				more = append(more, s)
			}
		}
		states = more
	}
	for i := range states {
		slices.Sort(states[i].node[:m.Nodes])
	}
	return states
}

func (m *model) next(s *state, emit explore.Emit[state]) {
	out := func(to *state, broken, format string, args ...any) {
		slices.Sort(to.node[:m.Nodes])
		emit(to, broken, format, args...)
	}
	m.begin(s, out)
	for i := range m.Nodes {
		if i > 0 && s.node[i] == s.node[i-1] {
			continue // the same node once more
		}
		m.others(s, i, out)
		for a := range m.Attempts {
			m.acquire(s, i, a, out)
			m.store(s, i, a, out)
		}
	}
	for a := range m.Attempts {
		if s.phase[a] == asking {
			m.decide(s, a, out)
		}
	}
}

// begin starts the next attempt; attempts are alike, so they start in order.
func (m *model) begin(s *state, out explore.Emit[state]) {
	a := slices.Index(s.phase[:m.Attempts], idle)
	if a < 0 {
		return
	}
	t := *s
	t.phase[a] = asking
	for b := range m.Attempts {
		if s.phase[b] == done {
			t.after[a] |= 1 << b
		}
	}
	for _, p := range m.Proposals {
		t.propose[a] = p
		out(&t, "", "%c asks and proposes %d", letter(a), p)
	}
}

// others end leases and raise marks, as failed attempts do.
func (m *model) others(s *state, i int, out explore.Emit[state]) {
	c := s.node[i]
	if c.owner() != free {
		t := *s
		t.node[i] = c.withOwner(free)
		out(&t, "", "node %d ends the lease", i)
		return
	}
	if s.raises < m.Raises {
		t := *s
		t.raises++
		t.node[i] = c.withMark(c.mark() + 1)
		out(&t, "", "node %d: others raise the mark", i)
	}
}

// finish hands out the token t.
func (m *model) finish(s *state, a int, t uint16) (broken string) {
	s.phase[a], s.token[a] = done, t
	for i, c := range s.node[:m.Nodes] {
		c = c.withBase(a, 0)
		if m.Lean || c.heard(a) {
			c = c.withAnswer(a, unseen) // what was read is of no more use
		}
		s.node[i] = c
	}
	last := m.Block - 1
	for b := range m.Attempts {
		if b == a || s.phase[b] != done {
			continue
		}
		other := s.token[b]
		if s.after[a]>>b&1 == 1 && t <= other+last {
			broken = fmt.Sprintf("ORDER: %c has %d, but %c had %d before", letter(a), t, letter(b), other)
		}
		if !m.OrderOnly && t <= other+last && other <= t+last {
			broken = fmt.Sprintf("UNIQUE: %c has %d, and %c has %d", letter(a), t, letter(b), other)
		}
	}
	return broken
}
