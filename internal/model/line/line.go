// Package line models the calls of one process that want one name, as the line
// of package guard serves them: first come first served, one request on its way
// for all, a lease that is handed on from call to call.
//
// The store is one node that grants, refuses, extends and releases, without a
// queue (package handoff has it). A rival takes the name whenever it is free. As
// there, times are relative to now, requests are executed at any later time or
// never, and senders may give up on answers.
//
// Rules:
//
//	ME      two calls, or a call and the rival, are never live at once: a call is
//	        live while its context has not ended and its lease is not over
//	ORDER   who starts has a token above all tokens that were started with
//	LOSS    no call is live on a lease that the process was told is lost, and none
//	        starts on one that is over
//	WAIT    while calls wait, one holds, asks, or releases, so that the line moves;
//	        and each of them has a place
//	ORPHAN  an owner of this process that the store has granted the name is one
//	        that a call holds or asks with, or that is being released; or its lease
//	        ends within the margin
//
// An operator may delete the key. Then ME and ORDER are not promised, and LOSS is
// more than the deadline gives.
//
// Not modelled: kinds that are shared, MinHold, calls with different TTLs, a
// process with two Guards.
package line

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Config fixes a model. Times are in ticks.
type Config struct {
	Calls   int
	Grants  uint8 // made in all
	Tokens  uint8 // of a grant
	TTL     uint8
	Early   uint8 // the server may end a lease that much before its time
	Margin  uint8 // calls end it that much before
	Pass    uint8 // a lease is passed on for that long
	GivenUp uint8 // answers that are not waited for, in all
	Breaks  uint8 // an operator deletes the key
	Sleeps  uint8 // ticks in which the machine sleeps
	Cancel  bool  // calls stop waiting

	// What is left out of the design, or done in another way.

	SameToken    bool // the next call gets the token of the one before
	NoTokenLimit bool // a lease is passed on more often than it has tokens
	HandOnFirst  bool // the context ends after the lease was handed on
	DropsTurn    bool // a call that stops waiting in the moment of its turn drops it
	DropsLine    bool // an asker that stops waiting does not let the next one ask
	FreshOwner   bool // the next asker takes a new owner
	NotAbandoned bool // an empty line sends no release
	SameOwner    bool // an owner is used again after its release
	NotReleased  bool // a lease lost before its call could start is not released
	PassRenewed  bool // a lease is passed on also after a renewal was sent
	TellHolder   bool // the answer to a renewal is for the holder, not for the call that sent it
	PassLost     bool // a lost lease is passed on
	StartsBlind  bool // the clock is not looked at before work starts
}

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
	if broken == "" || x.Breaks > 0 && strings.HasPrefix(broken, "ORDER") {
		broken = x.judge(&t)
	}
	t.tidy()
	x.emit(&t, broken, format, args...)
}

func (c Config) next(s *state, emit explore.Emit[state]) {
	x := &stepper{c, s, emit}
	x.step(func(t *state) string { t.tick(&c, false); return "" }, "tick")
	if s.sleeps < c.Sleeps {
		x.step(func(t *state) string { t.sleeps++; t.tick(&c, true); return "" }, "the machine sleeps for a tick")
	}
	x.others()
	x.copies()
	x.releases()
	x.joins()
	x.asker()
	x.renewal()
	for i := range c.Calls {
		x.call(i)
	}
}
