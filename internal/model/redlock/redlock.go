// Package redlock models a lock over three independent nodes, with time, data
// loss, renewal and repair.
//
// Time passes in ticks. A request is executed and its answer read at any later
// moment, or never; a client believes in its lease from the answer that decides
// until its own clock says that the lease is over. Nodes lose all they know, and
// grant nothing for Grace ticks afterwards.
//
// Rules:
//
//	ME     two clients never believe at once
//	ORDER  a token is above those of all leases held before it was asked for
//
// A grant owns Block tokens; a tick has room for three grants of a node, as the
// real clock has for any rate of grants that a node can reach.
//
// Of the rules of repair it is the refusal in grace that carries ME. A node in
// grace must neither be counted by a renewal nor take the lease again: a rival may
// still count a grant that the node has forgotten. That needs a base that two
// nodes agree on across ticks, so it shows only when a proposal or a clock is
// ahead; otherwise nothing was found within any of the bounds. That a re-planted
// node waits for a majority and is not counted in that round keeps a dying lease
// from spreading; without these two, no rule was found broken.
//
// Not modelled: grants that are not read in time (they only keep others out, and
// package tokens has them), a node that loses only its last writes (it knows no
// more than one that lost everything, and the grace is the same), a renewal that
// is sent again before it is answered.
package redlock

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// mint is where a node takes a new base from.
type mint int

const (
	// clocked is max(mark + block, proposal, clock of the node), as built.
	clocked     mint = iota
	counted          // mark + block
	proposed         // max(mark + block, proposal)
	emptyClocks      // as proposed; a node without a mark looks at its clock too
)

// repair is what becomes of a node that answers a renewal with "not yours".
type repair int

const (
	// replant asks the node with the same owner once a majority has answered
	// the round, counts it in no round before it renews, and is refused in
	// grace. This is what is built.
	replant            repair = iota
	replantUnconfirmed        // does not wait for the majority
	replantInGrace            // is granted in grace
	healFree                  // the renewal takes a free node and counts it, not in grace
	healConfirmed             // also in grace, where the node had confirmed the lease and that is in date
	healAny                   // also in grace, anywhere
)

// Config fixes a model. Times are in ticks.
type Config struct {
	Attempts int
	TTL      uint8
	End      uint8 // time stands still there
	Early    uint8 // a node may end a lease that much too early
	Margin   uint8 // a client ends it that much before it must
	Wipes    uint8
	Grace    uint8
	Mint     mint
	Block    uint8
	Skew     uint8 // a proposal is at most that far ahead
	Ahead    uint8 // clocks of nodes are at most that far ahead
	Renew    bool
	Repair   repair
	Only     string // the rule to check; empty for both

	// FromAnswer is broken: a lease counts from the answer, not from before it
	// was asked for.
	FromAnswer bool
}

type model struct {
	Config
	tick uint8 // tokens of one tick of the clock
}

func (c Config) run(o explore.Options) explore.Result {
	m := &model{c, 3 * c.Block}
	return explore.Run(explore.Model[state]{Start: m.start(), Next: m.next, Show: m.show}, o)
}

func (m *model) start() []state {
	states := []state{{}}
	for i := range nodes {
		var more []state
		for _, s := range states {
			for ahead := range m.Ahead + 1 {
				if s.node[i].ahead = ahead; i == 0 || ahead >= s.node[i-1].ahead {
					more = append(more, s)
				}
			}
		}
		states = more
	}
	return states
}

func (m *model) next(s *state, emit explore.Emit[state]) {
	out := func(to *state, broken, format string, args ...any) {
		if broken == "" {
			broken = m.believers(to)
		}
		slices.SortFunc(to.node[:], compare)
		emit(to, broken, format, args...)
	}
	m.tock(s, out)
	m.ask(s, out)
	for i := range s.node {
		if i > 0 && s.node[i] == s.node[i-1] {
			continue // the same node once more
		}
		m.fail(s, i, out)
		for a := range m.Attempts {
			m.acquire(s, i, a, out)
			m.store(s, i, a, out)
			m.renew(s, i, a, out)
			m.plant(s, i, a, out)
		}
	}
	for a := range m.Attempts {
		m.decide(s, a, out)
		m.sendRenewal(s, a, out)
		m.release(s, a, out)
	}
}

func (m *model) believers(s *state) string {
	if m.Only == "ORDER" {
		return ""
	}
	first := -1
	for a := range m.Attempts {
		if !s.holds(a) {
			continue
		}
		if first >= 0 {
			return fmt.Sprintf("ME: %c and %c both hold", letter(first), letter(a))
		}
		first = a
	}
	return ""
}

// tock lets a tick pass.
func (m *model) tock(s *state, out explore.Emit[state]) {
	if s.now == m.End {
		return
	}
	t := *s
	t.now++
	for i := range t.node {
		n := &t.node[i]
		if n.owner > 0 && t.now >= n.ends {
			n.release()
		}
		if t.now >= n.grace {
			n.grace = 0
		}
	}
	for a := range t.client {
		c := &t.client[a]
		switch {
		case c.phase == holding && t.now >= c.until:
			t.forget(a)
		case (c.phase == asking || c.phase == writing) && t.now >= c.asked+m.TTL:
			t.giveUp(a)
		}
	}
	out(&t, "", "tick")
}

// forget drops what only a holder needs to know.
func (s *state) forget(a int) {
	c := &s.client[a]
	c.until, c.renewal, c.planted = 0, 0, false
	for i := range s.node {
		s.node[i].to[a].confirmed, s.node[i].to[a].renewed = 0, false
	}
}

// giveUp ends an attempt that is too old to succeed. Its grants end by
// themselves.
func (s *state) giveUp(a int) {
	s.client[a] = client{phase: over}
	for i := range s.node {
		s.node[i].to[a] = dealing{answer: closed}
	}
}

// fail is what goes wrong at a node: a lease ends too early, everything is lost.
func (m *model) fail(s *state, i int, out explore.Emit[state]) {
	n := s.node[i]
	if n.owner > 0 && s.now+m.Early >= n.ends {
		t := *s
		t.node[i].release()
		out(&t, "", "node %d ends the lease early", i)
	}
	if s.wipes < m.Wipes && (n.owner > 0 || n.mark > 0) {
		t := *s
		t.wipes++
		t.node[i].release()
		t.node[i].mark, t.node[i].grace = 0, 0
		if m.Grace > 0 {
			t.node[i].grace = s.now + m.Grace
		}
		out(&t, "", "node %d loses everything", i)
	}
}

// release gives a lease back, everywhere at once: a node that is told later only
// keeps others out.
func (m *model) release(s *state, a int, out explore.Emit[state]) {
	if !s.holds(a) {
		return
	}
	t := *s
	t.forget(a)
	for i := range t.node {
		if t.node[i].owner == uint8(a+1) {
			t.node[i].release()
		}
	}
	out(&t, "", "%c releases", letter(a))
}
