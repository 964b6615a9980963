package tokens

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// acquire executes the request of attempt a on node i, perhaps long after the
// client went on.
func (m *model) acquire(s *state, i, a int, out explore.Emit[state]) {
	c := s.node[i]
	again := m.Resend && s.phase[a] != done && c.answer(a) == seen
	if s.phase[a] == idle || c.owner() != free || c.answer(a) != noAnswer && !again {
		return
	}
	for _, now := range m.Times {
		base := max(c.mark()+m.Block, s.propose[a], now)
		mark := base
		if m.MarkIsEnd {
			base = max(c.mark()+1, s.propose[a], now)
			mark = base + m.Block - 1
		}
		granted := c.withOwner(a).withMark(mark)
		t := *s
		if again {
			t.node[i] = granted.withAnswer(a, seenLate)
			out(&t, "", "node %d grants %c another base, %d, to a second copy", i, letter(a), base)
			continue
		}
		if !m.Lean {
			t.node[i] = granted.withAnswer(a, unseen)
			out(&t, "", "node %d grants %c base %d, unseen", i, letter(a), base)
		}
		if s.phase[a] == asking {
			t = *s
			t.node[i] = granted.withAnswer(a, seen).withBase(a, base)
			out(&t, "", "node %d grants %c base %d", i, letter(a), base)
		}
	}
}

// store executes the write-back of attempt a on node i.
func (m *model) store(s *state, i, a int, out explore.Emit[state]) {
	c, want := s.node[i], s.token[a]
	if s.phase[a] < storing || c.writeBack(a) != sent {
		return
	}
	larger := c.mark() > want // while a owns the lease, the lease stores the mark
	switch {
	case m.Rule == anyOwner:
	case c.owner() != a:
		return
	case m.Rule == unseenCounts || m.LargerCounts || m.MarkIsEnd:
	case larger:
		return
	}
	t := *s
	t.node[i] = c.withMark(max(c.mark(), want)).withWriteBack(a, stored)
	acks := 0
	for _, n := range t.node[:m.Nodes] {
		if n.writeBack(a) == stored {
			acks++
		}
	}
	broken := ""
	if t.phase[a] == storing && acks >= m.quorum {
		broken = m.finish(&t, a, want)
	}
	out(&t, broken, "node %d stores %d for %c", i, want, letter(a))
	if m.LostStores && s.phase[a] == storing {
		t = *s
		t.node[i] = c.withMark(max(c.mark(), want)).withWriteBack(a, storedUnseen)
		out(&t, "", "node %d stores %d for %c, unseen", i, want, letter(a))
	}
}

// decide makes a token of the answers read so far.
func (m *model) decide(s *state, a int, out explore.Emit[state]) {
	var bases []uint16
	for _, c := range s.node[:m.Nodes] {
		if c.heard(a) {
			bases = append(bases, c.base(a))
		}
	}
	if len(bases) < m.quorum {
		return
	}
	slices.Sort(bases)
	top := bases[len(bases)-1]
	common, n := mostCommon(bases)
	take := func(token uint16, how string) {
		t := *s
		broken := m.finish(&t, a, token)
		out(&t, broken, "%c takes %d, %s", letter(a), token, how)
	}
	switch {
	case m.Rule == largest:
		take(top, "the largest")
	case m.Rule == median && len(bases) == m.Nodes:
		take(bases[m.Nodes/2], "the median")
	case m.Rule == minorityAgreed && n >= 2 && n >= m.quorum-1,
		(m.Rule == agreed || m.Rule == median) && n >= m.quorum:
		take(common, "agreed")
	default:
		m.sendStores(s, a, top, out)
	}
}

// mostCommon value of sorted bases, and how often it is there. Of several it is
// the largest.
func mostCommon(bases []uint16) (common uint16, n int) {
	run := 0
	for k, base := range bases {
		if run++; k > 0 && base != bases[k-1] {
			run = 1
		}
		if run >= n {
			common, n = base, run
		}
	}
	return common, n
}

// sendStores begins to write token back.
func (m *model) sendStores(s *state, a int, token uint16, out explore.Emit[state]) {
	t := *s
	toUnseen := m.Rule == unseenCounts || m.Rule == unseenChecked
	for i, c := range t.node[:m.Nodes] {
		if c.heard(a) || toUnseen && c.answer(a) == unseen {
			c = c.withWriteBack(a, sent)
		}
		if m.Rule != handedOutEarly {
			c = c.withBase(a, 0)
		}
		t.node[i] = c
	}
	broken := ""
	if m.Rule == handedOutEarly {
		broken = m.finish(&t, a, token)
	} else {
		t.phase[a], t.token[a] = storing, token
	}
	out(&t, broken, "%c writes %d back", letter(a), token)
}
