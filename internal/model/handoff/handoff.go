// Package handoff models the queue of one Redis node and the hand-off between
// processes, as redisstore has them: release grants the head of the queue for
// the claim window and publishes the grant.
//
// Each process is one line: it asks, stands in the queue, asks again, may give
// up, works, renews, releases. One that asks for its next call before its release
// is answered has two owners on their way, which is two processes here. Times are
// kept relative to now, so time is unbounded; a case is bounded by the number of
// grants and of requests that are given up.
//
// A request is executed at any later time or never. Its sender may give up on it
// at any time and send again; the first copy stays in the network for ever. An
// answer is read at once or never: reading it later only shortens what is
// believed, since that counts from sending. A published grant is read at any
// later time or never. This covers loss, delay, reordering, re-sending and a
// process that stood still; a client reads its clock in the step in which it
// reads a message.
//
// Rules:
//
//	ME      two clients never believe at once; a foreign key counts as one
//	ORDER   a new holder's token is above all tokens that were seen before
//	GHOST   no owner is granted anything after its release was executed
//	STUCK   from every state in which the name changes hands, with all that is on
//	        its way lost and no further fault, every waiting process gets its turn
//	RESULT  a release reports neither a loss that did not happen nor, where the
//	        client could tell, success after a loss
//	MINHOLD nothing is granted before the minimum hold of a released lease is over
//
// A token stands for the block of a grant. Not modelled: what happens inside a
// process (package line), tombstones that expire, requests that do not queue,
// the mark's hint that lets an acquire skip the queue, renewals executed late
// (they lengthen the lease of their owner, or do nothing).
package handoff

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Config fixes a model. Times are in ticks.
type Config struct {
	Procs, Owners int // processes, and owners that each uses one after another
	TTL, Claim    uint8
	Live          uint8 // liveness of a place in the queue
	Early, Margin uint8 // the server may end a lease Early before its time; clients end it Margin before
	Grants        uint8 // made in all
	GivenUp       uint8 // answers that are not waited for, in all
	Foreign       uint8 // keys set by others
	Breaks        uint8 // an operator deletes the key; then only RESULT is checked
	MinHold       uint8 // left of it when a lease is released
	Renew, Cancel bool  // processes renew; processes stop waiting
	Only          string

	// What is left out of the design, or done in another way.

	OldGrants  bool     // a published grant counts although its token is not above the mark of the last "queued" answer
	Trust      trust    // until when a published grant is believed
	Tombs      tombs    // which releases leave a tombstone
	SameOwner  bool     // a process keeps its owner for all attempts
	Reserve    reserve  // a release keeps the place of the head in place of granting
	HandBack   handBack // which published grants are released when they are read
	NotOurs    notOurs  // what the answer "not ours" to a release means
	KeepsOwner bool     // a minimum hold shortens the lease and leaves its owner
}

type trust int

const (
	sinceQueued trust = iota // as long as the claim window that began with the last "queued" answer's request
	sinceRead                // a claim window from now
	fullTTL                  // the TTL from now
)

type tombs int

const (
	ofLate    tombs = iota // of an owner whose acquire may still come
	onlyOther              // of such an owner that does not hold
	never
)

type reserve int

const (
	grants  reserve = iota
	hints           // and the head asks
	trusted         // and the head believes the message
)

type handBack int

const (
	ofOver      handBack = iota // of owners that neither wait, hold nor are being released
	ofReleasing                 // and of those that are being released
	ofHolding                   // and of those that hold
)

type notOurs int

const (
	byTime   notOurs = iota // a loss if no earlier copy is unanswered and the lease was not over yet
	byCopies                // a loss if no earlier copy is unanswered
	isLoss
	isFine
)

func (c Config) run(o explore.Options) explore.Result {
	return explore.Run(explore.Model[state]{Start: []state{{}}, Next: c.next, Show: c.show}, o)
}

// stepper emits steps from one state.
type stepper struct {
	Config
	from *state
	emit explore.Emit[state]
}

// step emits what change makes of the state.
func (x *stepper) step(change func(t *state) (broken string), format string, args ...any) {
	t := *x.from
	broken := change(&t)
	x.emit(&t, x.judge(&t, broken), format, args...)
}

// judge keeps the rules that are checked here, in order.
func (x *stepper) judge(t *state, broken string) string {
	c := &x.Config
	if c.Breaks > 0 {
		if !strings.HasPrefix(broken, "RESULT") {
			broken = ""
		}
	} else if (broken == "" || c.Only == "ME") && t.believers(c) > 1 {
		broken = "ME: two hold"
	}
	if !strings.HasPrefix(broken, c.Only) {
		broken = ""
	}
	changed := t.owner != x.from.owner && t.owner != nobody
	if broken == "" && c.Only == "" && c.Breaks == 0 && changed && !c.recovers(*t) {
		broken = "STUCK: a waiting process never gets its turn"
	}
	t.tidy(c)
	return broken
}

func (c Config) next(s *state, emit explore.Emit[state]) {
	x := &stepper{c, s, emit}
	x.step(func(t *state) string { t.tick(&c); return "" }, "tick")
	x.others()
	room := s.mark < c.Grants
	if room {
		x.lateCopies()
	}
	for p := range c.Procs {
		x.published(p)
		x.asks(p)
		if room || s.proc[p].request == renewing {
			x.executes(p)
		}
		x.givesUp(p)
		switch s.proc[p].phase {
		case waits:
			x.waits(p)
		case works:
			x.works(p)
		case releases:
			x.releases(p)
		}
	}
}

// others are the server's clock, foreign programs and operators.
func (x *stepper) others() {
	s, ours := x.from, x.from.owner != nobody && x.from.owner != foreigner && x.from.owner != heldBack
	end := func(t *state) string { t.end(); return "" }
	if ours && s.ends <= x.Early {
		x.step(end, "the server ends the lease early")
	}
	if s.owner == nobody && s.foreign < x.Foreign {
		x.step(func(t *state) string {
			t.owner, t.ends = foreigner, forever
			t.foreign++
			return ""
		}, "a foreigner sets the key")
	}
	if s.owner == foreigner {
		x.step(end, "the foreigner deletes the key")
	}
	if ours && s.breaks < x.Breaks {
		x.step(func(t *state) string {
			// The work has ended: the release cannot tell when the key went.
			for p := range t.proc {
				if q := &t.proc[p]; q.phase == releases && x.owner(p, q.round) == int(t.owner) {
					q.held = false
				}
			}
			t.end()
			t.breaks++
			return ""
		}, "an operator deletes the key")
	}
}

// lateCopies executes requests that nobody waits for.
func (x *stepper) lateCopies() {
	for o := 1; o <= x.Procs*x.Owners; o++ {
		if x.from.lateAcquire.has(o) {
			for _, ticket := range []bool{false, true} {
				x.step(func(t *state) string {
					t.lateAcquire.remove(o)
					_, _, broken := t.ask(&x.Config, o, ticket)
					return broken
				}, "a late acquire of owner %d is executed, ticket %v", o, ticket)
			}
		}
		if x.from.lateRelease.has(o) {
			x.step(func(t *state) string {
				t.lateRelease.remove(o)
				_, broken := t.release(&x.Config, o)
				return broken
			}, "a late release of owner %d is executed", o)
		}
	}
}

func (c Config) show(s *state) string {
	var b strings.Builder
	switch s.owner {
	case nobody:
		b.WriteString("[free")
	case foreigner:
		b.WriteString("[foreign")
	case heldBack:
		fmt.Fprintf(&b, "[minimum hold for %d", s.ends)
	default:
		fmt.Fprintf(&b, "[owner %d, token %d, for %d", s.owner, s.token, s.ends)
	}
	fmt.Fprintf(&b, ", mark %d, queue %v]", s.mark, s.queue[:s.queued])
	for p := range c.Procs {
		q := s.proc[p]
		o := c.owner(p, q.round)
		switch q.phase {
		case idle:
			fmt.Fprintf(&b, " P%d idle", p)
		case waits:
			fmt.Fprintf(&b, " P%d: owner %d waits", p, o)
		case works:
			fmt.Fprintf(&b, " P%d: owner %d has %d for %d", p, o, q.token, q.until)
		case releases:
			fmt.Fprintf(&b, " P%d: owner %d releases", p, o)
		case done:
			fmt.Fprintf(&b, " P%d done", p)
		}
	}
	return b.String()
}
