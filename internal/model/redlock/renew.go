package redlock

import "github.com/holdfast-go/holdfast/internal/model/explore"

// sendRenewal begins a round, if it would lengthen the lease.
func (m *model) sendRenewal(s *state, a int, out explore.Emit[state]) {
	c := s.client[a]
	if !m.Renew || !s.holds(a) || c.renewal != 0 || s.now+m.TTL-m.Margin <= c.until {
		return
	}
	t := *s
	t.client[a].renewal = 1 + s.now
	out(&t, "", "%c sends a renewal", letter(a))
}

// renew executes the renewal of the round on its way on node i. An answer that
// comes after the lease has ended is discarded.
func (m *model) renew(s *state, i, a int, out explore.Emit[state]) {
	n, c := s.node[i], s.client[a]
	if c.renewal == 0 || n.to[a].renewed || !s.holds(a) {
		return
	}
	if n.owner != uint8(a+1) && !m.heals(s, &n, a) {
		return
	}
	until := c.renewal - 1 + m.TTL - m.Margin
	t := *s
	x := &t.node[i]
	x.owner, x.ends, x.mark = uint8(a+1), s.now+m.TTL, max(n.mark, c.token)
	x.to[a].renewed = true
	if m.Repair == healConfirmed {
		x.to[a].confirmed = until
	}
	acks := 0
	for j := range t.node {
		acks += number(t.node[j].to[a].renewed)
	}
	if acks >= quorum {
		y := &t.client[a]
		y.until, y.renewal, y.planted = until, 0, m.Repair <= replantInGrace
		for j := range t.node {
			t.node[j].to[a].renewed = false
		}
	}
	out(&t, "", "node %d renews %c", i, letter(a))
}

// heals tells whether a renewal takes a node that is not the client's.
func (m *model) heals(s *state, n *node, a int) bool {
	if n.owner != 0 || m.Repair < healFree {
		return false
	}
	switch {
	case n.grace == 0:
		return true
	case s.now < n.to[a].confirmed:
		return m.Repair >= healConfirmed
	default:
		return m.Repair == healAny
	}
}

// plant executes an acquire of the same owner on node i. Its floor is the token
// of the lease.
func (m *model) plant(s *state, i, a int, out explore.Emit[state]) {
	n, c := s.node[i], s.client[a]
	if !m.Renew || !s.holds(a) || m.Repair >= healFree || n.owner != 0 {
		return
	}
	if n.grace != 0 && m.Repair != replantInGrace || !c.planted && m.Repair != replantUnconfirmed {
		return
	}
	base := m.base(s, &n, c.token)
	t := *s
	x := &t.node[i]
	x.owner, x.ends, x.mark = uint8(a+1), s.now+m.TTL, base
	out(&t, "", "node %d takes %c again, base %d", i, letter(a), base)
}
