// Package failover models a primary with replicas that is failed over once.
//
// Replication copies the whole primary at any later moment, or never. After the
// fail-over the old primary is dead, or takes writes for another Partition
// ticks. The promoted node refuses everything for Blackout ticks, and new grants
// for Grace ticks.
//
// Rules:
//
//	ME     two clients never believe at once
//	ORDER  a token is above those of all leases held before it was asked for
//
// holdfast has neither a grace for fail-overs nor WAIT, so of a pair it promises
// the order of tokens alone, and that only as far as the fail-over takes longer
// than clocks are apart. The other cases show what it would cost to promise more.
// Package reigns has more than one fail-over.
package failover

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

const (
	maxAttempts = 3
	maxNodes    = 3
	block       = 2
	tick        = 3 * block // tokens of one tick of the clock
)

// Config fixes a model. Times are in ticks.
type Config struct {
	Replicas  int
	TTL       uint8
	End       uint8 // time stands still there
	Partition uint8
	Blackout  uint8
	Grace     uint8
	Skew      int8  // the promoted node's clock, against the old primary's
	Counters  bool  // tokens are counted and do not look at a clock
	Wait      uint8 // replicas that must have a write before it counts
	Reclaim   bool  // in grace a client takes a free node with a renewal
	LateCount bool  // an answer to a renewal counts although the lease is over
	Only      string
}

// state: node 0 is the old primary.
type state struct {
	now, failed uint8
	promoted    uint8 // node; 0 is none
	node        [maxNodes]node
	client      [maxAttempts]client
}

type node struct{ owner, ends, mark uint8 } // owner 0 is free, 1 + attempt

type client struct {
	phase   phase
	asked   uint8
	until   uint8
	token   uint8
	after   uint8
	renewal renewal
	sent    uint8 // when the renewal was
}

type phase uint8

const (
	idle phase = iota
	asking
	waiting // granted, and waits for replicas
	holding
	over
)

type renewal uint8

const (
	noRenewal renewal = iota
	onItsWay
	unreplicated
)

func letter(a int) rune { return 'A' + rune(a) }

func (c Config) run(o explore.Options) explore.Result {
	return explore.Run(explore.Model[state]{Start: []state{{}}, Next: c.next, Show: c.show}, o)
}

func (c Config) show(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %d:", s.now)
	for _, n := range s.node[:c.Replicas+1] {
		if n.owner == 0 {
			fmt.Fprintf(&b, " [- mark %d]", n.mark)
		} else {
			fmt.Fprintf(&b, " [%c to %d, mark %d]", letter(int(n.owner)-1), n.ends, n.mark)
		}
	}
	if s.promoted > 0 {
		fmt.Fprintf(&b, " node %d promoted at %d", s.promoted, s.failed)
	}
	for a := range s.client {
		if s.holds(a) {
			fmt.Fprintf(&b, " %c holds %d to %d", letter(a), s.client[a].token, s.client[a].until)
		}
	}
	return b.String()
}

func (s *state) holds(a int) bool { return s.client[a].phase == holding && s.now < s.client[a].until }

// clock of node i. It is never 0.
func (c Config) clock(s *state, i int) int {
	if i == 0 {
		return int(s.now) + 1 + max(0, -int(c.Skew))
	}
	return int(s.now) + 1 + max(0, int(c.Skew))
}

func (s *state) writable(c *Config, i int) bool {
	if i == 0 {
		return s.promoted == 0 || s.now < s.failed+c.Partition
	}
	return int(s.promoted) == i
}

// replicated tells whether enough replicas have the lease as the primary has it.
func (c Config) replicated(s *state, a int) bool {
	n := uint8(0)
	for _, r := range s.node[1 : c.Replicas+1] {
		if r.owner == uint8(a+1) && r.ends >= s.node[0].ends {
			n++
		}
	}
	return s.node[0].owner == uint8(a+1) && n >= c.Wait
}

func (c Config) next(s *state, emit explore.Emit[state]) {
	out := func(to *state, broken, format string, args ...any) {
		if broken == "" {
			broken = c.believers(to)
		}
		c.tidy(to)
		emit(to, broken, format, args...)
	}
	if s.now < c.End {
		t := *s
		t.now++
		out(&t, "", "tick")
	}
	if s.promoted == 0 {
		for i := 1; i <= c.Replicas; i++ {
			t := *s
			t.node[i] = t.node[0]
			out(&t, "", "replica %d catches up", i)
			t = *s
			t.promoted, t.failed = uint8(i), s.now
			out(&t, "", "fail-over to node %d", i)
		}
	}
	c.ask(s, out)
	for a := range s.client {
		for i := 0; i <= c.Replicas; i++ {
			if s.writable(&c, i) {
				c.acquire(s, i, a, out)
				c.renew(s, i, a, out)
				c.release(s, i, a, out)
			}
		}
		c.acknowledge(s, a, out)
		c.sendRenewal(s, a, out)
	}
}

func (c Config) believers(s *state) string {
	if c.Only == "ORDER" {
		return ""
	}
	first := -1
	for a := range s.client {
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

// tidy ends what is over and forgets what can matter no more.
func (c Config) tidy(s *state) {
	for a := range s.client {
		x := &s.client[a]
		switch x.phase {
		case asking, waiting:
			if s.now >= x.asked+c.TTL {
				*x = client{phase: over}
			}
		case holding:
			if s.now >= x.until && (!c.LateCount || x.renewal == noRenewal) {
				*x = client{phase: over, token: x.token}
			}
		}
	}
	for i := range s.node {
		n := &s.node[i]
		gone := i == 0 && s.now >= s.failed+c.Partition || i > 0 && int(s.promoted) != i
		if s.promoted > 0 && gone {
			*n = node{}
		}
		// A replica's copy may still be judged by a clock that is behind.
		if n.owner > 0 && min(c.clock(s, 0), c.clock(s, 1)) >= int(n.ends) {
			n.owner, n.ends = 0, 0
		}
	}
}
