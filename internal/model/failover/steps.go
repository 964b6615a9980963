package failover

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// ask starts the next attempt; attempts are alike, so they start in order.
func (c Config) ask(s *state, out explore.Emit[state]) {
	a := slices.IndexFunc(s.client[:], func(x client) bool { return x.phase == idle })
	if a < 0 {
		return
	}
	t := *s
	x := &t.client[a]
	x.phase, x.asked = asking, s.now
	for b := range s.client {
		if s.client[b].phase >= holding && s.client[b].token > 0 {
			x.after |= 1 << b
		}
	}
	out(&t, "", "%c asks", letter(a))
}

func (c Config) free(s *state, i int) bool {
	return s.node[i].owner == 0 || c.clock(s, i) >= int(s.node[i].ends)
}

func (c Config) dark(s *state, i int) bool  { return i > 0 && s.now < s.failed+c.Blackout }
func (c Config) grace(s *state, i int) bool { return i > 0 && s.now < s.failed+c.Grace }

func (c Config) acquire(s *state, i, a int, out explore.Emit[state]) {
	if s.client[a].phase != asking || !c.free(s, i) || c.dark(s, i) || c.grace(s, i) {
		return
	}
	now := uint8(c.clock(s, i))
	base := s.node[i].mark + block
	if !c.Counters {
		base = max(base, now*tick)
	}
	t := *s
	t.node[i] = node{uint8(a + 1), now + c.TTL, base}
	t.client[a].token = base
	broken := ""
	if c.Wait > 0 && i == 0 {
		t.client[a].phase = waiting
	} else {
		broken = c.hold(&t, a)
	}
	out(&t, broken, "node %d grants %c base %d", i, letter(a), base)
}

// hold makes a the holder, if it still can, and checks its token.
func (c Config) hold(s *state, a int) (broken string) {
	x := &s.client[a]
	until := x.asked + c.TTL
	if s.now >= until {
		*x = client{phase: over}
		return ""
	}
	after := x.after
	*x = client{phase: holding, token: x.token, until: until}
	for b := range s.client {
		other := s.client[b].token
		if c.Only != "ME" && after>>b&1 == 1 && x.token < other+block {
			return fmt.Sprintf("ORDER: %c has %d, but %c had %d before", letter(a), x.token, letter(b), other)
		}
	}
	return ""
}

func (c Config) sendRenewal(s *state, a int, out explore.Emit[state]) {
	if !s.holds(a) || s.client[a].renewal != noRenewal || s.now+c.TTL <= s.client[a].until {
		return
	}
	t := *s
	t.client[a].renewal, t.client[a].sent = onItsWay, s.now
	out(&t, "", "%c sends a renewal", letter(a))
}

func (c Config) renew(s *state, i, a int, out explore.Emit[state]) {
	x := s.client[a]
	if x.phase != holding || x.renewal != onItsWay || c.dark(s, i) {
		return
	}
	mine := s.node[i].owner == uint8(a+1) && !c.free(s, i)
	if !mine && !(c.Reclaim && c.grace(s, i) && c.free(s, i)) {
		return
	}
	t := *s
	t.node[i] = node{uint8(a + 1), uint8(c.clock(s, i)) + c.TTL, max(s.node[i].mark, x.token)}
	if c.Wait > 0 && i == 0 {
		t.client[a].renewal = unreplicated
	} else {
		c.renewed(&t, a)
	}
	out(&t, "", "node %d renews %c", i, letter(a))
}

// renewed takes in the answer to a renewal.
func (c Config) renewed(s *state, a int) {
	x := &s.client[a]
	if c.LateCount || s.now < x.until {
		x.until = max(x.until, x.sent+c.TTL)
	}
	x.renewal, x.sent = noRenewal, 0
}

// acknowledge is WAIT: enough replicas have the write.
func (c Config) acknowledge(s *state, a int, out explore.Emit[state]) {
	if c.Wait == 0 || !c.replicated(s, a) {
		return
	}
	t := *s
	switch {
	case s.client[a].phase == waiting:
		broken := c.hold(&t, a)
		out(&t, broken, "%c is told that its grant is replicated", letter(a))
	case s.client[a].phase == holding && s.client[a].renewal == unreplicated:
		c.renewed(&t, a)
		out(&t, "", "%c is told that its renewal is replicated", letter(a))
	}
}

func (c Config) release(s *state, i, a int, out explore.Emit[state]) {
	if !s.holds(a) || s.node[i].owner != uint8(a+1) {
		return
	}
	t := *s
	t.client[a] = client{phase: over, token: s.client[a].token}
	t.node[i].owner, t.node[i].ends = 0, 0
	out(&t, "", "%c releases on node %d", letter(a), i)
}
