// Package reigns models two nodes that fail over back and forth. The node that
// is left is dead to clients and comes back as a replica.
//
// A primary that finds a foreign identity in its epoch record starts a grace.
// The record is replicated like everything else. The question is which identity
// is safe: that of the process, or that of the reign, which is new at every
// promotion.
//
// Rule:
//
//	ME  two clients never believe at once
//
// holdfast has no grace for fail-overs; the model is why a simple one by process
// was not built.
package reigns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

const attempts = 3

// Config fixes a model. Times are in ticks.
type Config struct {
	TTL, Grace   uint8
	End          uint8 // time stands still there
	Failovers    uint8
	ByReign      bool // otherwise by process
	RenewalsLook bool // a renewal looks at the identity too
	AnyPromoted  bool // also a replica that did not catch up since the last fail-over
}

type state struct {
	now     uint8
	primary uint8
	reign   uint8
	synced  bool // the replica caught up in this reign
	node    [2]node
	client  [attempts]client
}

type node struct{ owner, ends, epoch, grace uint8 }

type client struct {
	phase   phase
	asked   uint8
	until   uint8
	renewal uint8 // 1 + when it was sent; 0 is none
}

type phase uint8

const (
	idle phase = iota
	asking
	holding
	over
)

func letter(a int) rune { return 'A' + rune(a) }

func (c Config) run(o explore.Options) explore.Result {
	first := state{}
	first.node[0].epoch, first.node[1].epoch = 1, 1
	return explore.Run(explore.Model[state]{Start: []state{first}, Next: c.next, Show: show}, o)
}

func show(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %d: primary %d, reign %d", s.now, s.primary, s.reign)
	for _, n := range s.node {
		owner := '-'
		if n.owner > 0 {
			owner = letter(int(n.owner) - 1)
		}
		fmt.Fprintf(&b, " [%c to %d, epoch %d, grace to %d]", owner, n.ends, n.epoch, n.grace)
	}
	for a, x := range s.client {
		if x.phase == holding {
			fmt.Fprintf(&b, " %c holds to %d", letter(a), x.until)
		}
	}
	return b.String()
}

func (c Config) next(s *state, emit explore.Emit[state]) {
	out := func(to *state, format string, args ...any) {
		to.tidy(&c)
		emit(to, believers(to), format, args...)
	}
	if s.now < c.End {
		t := *s
		t.now++
		out(&t, "tick")
	}
	if s.node[0] != s.node[1] || !s.synced {
		t := *s
		t.node[1-t.primary] = t.node[t.primary]
		t.synced = true
		out(&t, "the replica catches up")
	}
	if s.reign < c.Failovers && (s.synced || s.reign == 0 || c.AnyPromoted) {
		t := *s
		t.primary, t.reign, t.synced = 1-s.primary, s.reign+1, false
		out(&t, "fail-over to node %d", t.primary)
	}
	if a := slices.IndexFunc(s.client[:], func(x client) bool { return x.phase == idle }); a >= 0 {
		t := *s
		t.client[a] = client{phase: asking, asked: s.now}
		out(&t, "%c asks", letter(a))
	}
	for a := range s.client {
		c.client(s, a, out)
	}
}

func (c Config) client(s *state, a int, out func(to *state, format string, args ...any)) {
	x := s.client[a]
	n := s.node[s.primary]
	if x.phase == asking && n.owner == 0 {
		t := *s
		t.look(&c)
		if p := &t.node[t.primary]; t.now >= p.grace {
			p.owner, p.ends = uint8(a+1), t.now+c.TTL
			t.client[a] = client{phase: holding, until: x.asked + c.TTL}
		}
		out(&t, "the acquire of %c is executed", letter(a))
	}
	if x.phase == holding && x.renewal == 0 && s.now+c.TTL > x.until {
		t := *s
		t.client[a].renewal = 1 + s.now
		out(&t, "%c sends a renewal", letter(a))
	}
	if x.renewal > 0 && n.owner == uint8(a+1) {
		t := *s
		if c.RenewalsLook {
			t.look(&c)
		}
		t.node[t.primary].ends = t.now + c.TTL
		t.client[a].until, t.client[a].renewal = x.renewal-1+c.TTL, 0
		out(&t, "%c is renewed", letter(a))
	}
}

// look starts a grace if the primary finds a foreign epoch.
func (s *state) look(c *Config) {
	id := s.primary + 1
	if c.ByReign {
		id = s.reign + 1
	}
	if n := &s.node[s.primary]; n.epoch != id {
		n.epoch, n.grace = id, s.now+c.Grace
	}
}

func (s *state) tidy(c *Config) {
	for i := range s.node {
		n := &s.node[i]
		if s.now >= n.ends {
			n.owner, n.ends = 0, 0
		}
		if s.now >= n.grace {
			n.grace = 0
		}
	}
	for a := range s.client {
		x := &s.client[a]
		if x.phase == asking && s.now >= x.asked+c.TTL || x.phase == holding && s.now >= x.until {
			*x = client{phase: over}
		}
	}
}

func believers(s *state) string {
	var who []rune
	for a, x := range s.client {
		if x.phase == holding && s.now < x.until {
			who = append(who, letter(a))
		}
	}
	if len(who) > 1 {
		return fmt.Sprintf("ME: %c and %c both hold", who[0], who[1])
	}
	return ""
}

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, c Config) {
		c.TTL, c.Grace, c.End, c.Failovers = 2, 2, max(c.End, 8), max(c.Failovers, 2)
		cases = append(cases, explore.Case{
			Model: "reigns", Name: name, Breaks: breaks, Run: c.run,
			Bounds: fmt.Sprintf("%d attempts, TTL %d, time 0..%d, grace %d, %d fail-overs", attempts, c.TTL, c.End, c.Grace, c.Failovers),
		})
	}
	const me = "ME"
	add(me, "grace by process", Config{})
	add(me, "grace by process, renewals look too", Config{RenewalsLook: true})
	add("", "grace by reign", Config{ByReign: true})
	add("", "grace by reign, renewals look too", Config{ByReign: true, RenewalsLook: true})
	add("", "grace by reign, renewals look too, a stale replica is promoted", Config{ByReign: true, RenewalsLook: true, AnyPromoted: true})
	add("", "grace by reign, renewals look too", Config{ByReign: true, RenewalsLook: true, Failovers: 3, End: 9})
	return cases
}
