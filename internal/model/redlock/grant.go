package redlock

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// ask starts the next attempt; attempts are alike, so they start in order.
func (m *model) ask(s *state, out explore.Emit[state]) {
	a := slices.IndexFunc(s.client[:m.Attempts], func(c client) bool { return c.phase == idle })
	if a < 0 {
		return
	}
	for ahead := range m.Skew + 1 {
		t := *s
		c := &t.client[a]
		c.phase, c.asked = asking, s.now
		if m.Mint != counted {
			c.propose = m.clock(s.now + ahead)
		}
		for b := range m.Attempts {
			if s.client[b].phase == holding {
				c.after |= 1 << b
			}
		}
		out(&t, "", "%c asks and proposes %d", letter(a), c.propose)
	}
}

// clock is a time as a token. No token is 0.
func (m *model) clock(at uint8) uint8 { return (at + 1) * m.tick }

// base is what a node grants next, at least floor.
func (m *model) base(s *state, n *node, floor uint8) uint8 {
	b := max(n.mark+m.Block, floor)
	if m.Mint == clocked || m.Mint == emptyClocks && n.mark == 0 {
		b = max(b, m.clock(s.now+n.ahead))
	}
	return b
}

// acquire executes the request of attempt a on node i.
func (m *model) acquire(s *state, i, a int, out explore.Emit[state]) {
	n := s.node[i]
	if s.client[a].phase != asking || n.to[a].answer != open || n.owner != 0 || n.grace != 0 {
		return
	}
	base := m.base(s, &n, s.client[a].propose)
	t := *s
	x := &t.node[i]
	x.owner, x.ends, x.mark = uint8(a+1), s.now+m.TTL, base
	x.to[a].answer, x.to[a].base = granted, base
	out(&t, "", "node %d grants %c base %d", i, letter(a), base)
}

// decide takes a base that a majority granted, or begins to write the largest
// one back to the nodes that granted.
func (m *model) decide(s *state, a int, out explore.Emit[state]) {
	if s.client[a].phase != asking {
		return
	}
	var bases []uint8
	for i := range s.node {
		if s.node[i].to[a].answer == granted {
			bases = append(bases, s.node[i].to[a].base)
		}
	}
	if len(bases) < quorum {
		return
	}
	slices.Sort(bases)
	for k := range len(bases) - quorum + 1 {
		if bases[k] != bases[k+quorum-1] {
			continue
		}
		t := *s
		broken := m.finish(&t, a, bases[k])
		out(&t, broken, "%c takes %d, agreed", letter(a), bases[k])
		return
	}
	t := *s
	t.client[a].phase, t.client[a].token = writing, bases[len(bases)-1]
	for i := range t.node {
		t.node[i].to[a].base = 0
		if t.node[i].to[a].answer == granted {
			t.node[i].to[a].answer = storing
		}
	}
	out(&t, "", "%c writes %d back", letter(a), t.client[a].token)
}

// store executes the write-back on node i, if the lease is still the client's.
func (m *model) store(s *state, i, a int, out explore.Emit[state]) {
	n, want := s.node[i], s.client[a].token
	if s.client[a].phase != writing || n.to[a].answer != storing || n.owner != uint8(a+1) {
		return
	}
	t := *s
	t.node[i].mark = max(n.mark, want)
	t.node[i].to[a].answer = stored
	acks := 0
	for j := range t.node {
		acks += number(t.node[j].to[a].answer == stored)
	}
	broken := ""
	if acks >= quorum {
		broken = m.finish(&t, a, want)
	}
	out(&t, broken, "node %d stores %d for %c", i, want, letter(a))
}

// finish decides whether the lease can still be used, and checks its token.
func (m *model) finish(s *state, a int, token uint8) (broken string) {
	c := &s.client[a]
	until := c.asked + m.TTL - m.Margin
	if m.FromAnswer {
		until = s.now + m.TTL - m.Margin
	}
	if s.now >= until {
		s.giveUp(a)
		return ""
	}
	for i := range s.node {
		d := &s.node[i].to[a]
		confirmed := d.answer == granted || d.answer == storing || d.answer == stored
		*d = dealing{answer: closed}
		if confirmed && m.Renew && m.Repair == healConfirmed {
			d.confirmed = until
		}
	}
	after := c.after
	*c = client{phase: holding, token: token, until: until}
	for b := range m.Attempts {
		last := s.client[b].token + m.Block - 1
		if m.Only != "ME" && after>>b&1 == 1 && token <= last {
			return fmt.Sprintf("ORDER: %c has %d, but %c had %d before", letter(a), token, letter(b), s.client[b].token)
		}
	}
	return ""
}
