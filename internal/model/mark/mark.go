// Package mark models the key that remembers the last token of a name, which
// expires so that names do not pile up.
//
// One node grants as often as it likes. Its clock ticks, and steps back by
// StepBack ticks in all. A grant takes the largest of the mark and one block,
// the clock, a proposal of at most Propose ahead of the clock and a floor of at
// most Keep ahead. The mark expires Keep after the token that it stores, by the
// clock of the node. A token is the time of one tick.
//
// Rule, for each grant:
//
//	ORDER   its tokens are above those of all grants before
//
// Not modelled: leases, and the loss of a mark that has not expired, which is the
// subject of package redlock.
package mark

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Config fixes a model. Times are in ticks.
type Config struct {
	End      uint8 // the clock stands still there
	Keep     uint8
	Block    uint8
	Propose  uint8
	Floor    bool // grants may have a floor
	StepBack uint8

	// FromNow is broken: the mark expires Keep after the grant, not after the
	// token.
	FromNow bool
	// NoClock is broken: a grant does not look at the clock.
	NoClock bool
}

type state struct {
	now, back  uint8
	mark, ends uint8 // 0 is none
	last       uint8 // base of the last grant
}

func (c Config) run(o explore.Options) explore.Result {
	return explore.Run(explore.Model[state]{Start: []state{{now: 1}}, Next: c.next, Show: show}, o)
}

func show(s *state) string {
	return fmt.Sprintf("clock %d, mark %d until %d, last %d", s.now, s.mark, s.ends, s.last)
}

func (c Config) next(s *state, emit explore.Emit[state]) {
	if s.now < c.End {
		t := *s
		if t.now++; t.now >= t.ends {
			t.mark, t.ends = 0, 0
		}
		emit(&t, "", "tick")
	}
	if s.back < c.StepBack && s.now > 1 {
		t := *s
		t.now, t.back = s.now-1, s.back+1
		emit(&t, "", "the clock steps back")
	}
	if s.mark > c.End {
		return // far enough
	}
	c.grant(s, 0, emit)
	for ahead := range c.Propose {
		c.grant(s, s.now+ahead+1, emit)
	}
	if c.Floor {
		c.grant(s, s.now+c.Keep, emit)
	}
}

// grant mints a base of at least floor.
func (c Config) grant(s *state, floor uint8, emit explore.Emit[state]) {
	base := max(s.mark+c.Block, floor)
	if !c.NoClock {
		base = max(base, s.now)
	}
	broken := ""
	if s.last > 0 && base < s.last+c.Block {
		broken = fmt.Sprintf("ORDER: %d after %d", base, s.last)
	}
	t := *s
	t.last, t.mark, t.ends = base, base, base+c.Keep
	if c.FromNow {
		t.ends = s.now + c.Keep
	}
	emit(&t, broken, "grant of base %d, at least %d", base, floor)
}
