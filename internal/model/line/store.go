package line

import "fmt"

// others are the server's clock, the rival and operators.
func (x *stepper) others() {
	s := x.from
	if s.owner != nobody && s.ends <= x.Early {
		x.step(func(t *state) string { t.owner, t.ends = nobody, 0; return "" }, "the store ends the lease early")
	}
	if s.owner == nobody && s.mark < x.Grants {
		x.step(func(t *state) string {
			t.grant(&x.Config, rival)
			t.rival = x.TTL - x.Margin
			return t.start(t.mark * x.Tokens)
		}, "the rival is granted the name")
	}
	if s.rival > 0 && s.owner == rival {
		x.step(func(t *state) string { t.owner, t.ends, t.rival = nobody, 0, 0; return "" }, "the rival releases")
	}
	if s.owner != nobody && s.owner != rival && s.breaks < x.Breaks {
		x.step(func(t *state) string { t.owner, t.ends = nobody, 0; t.breaks++; return "" }, "an operator deletes the key")
	}
}

// copies executes acquires and releases that nobody waits for.
func (x *stepper) copies() {
	for o := uint8(1); o <= maxOwners; o++ {
		if x.from.lateAcquire.has(o) {
			x.step(func(t *state) string {
				t.lateAcquire.remove(o)
				t.acquire(&x.Config, o)
				return ""
			}, "a late acquire of owner %d is executed", o)
		}
		if x.from.lateRelease.has(o) {
			x.step(func(t *state) string {
				t.lateRelease.remove(o)
				t.release(o)
				return ""
			}, "a late release of owner %d is executed", o)
		}
	}
}

type answer uint8

const (
	granted answer = iota
	held
	retired // the owner has a tombstone
)

func (s *state) grant(c *Config, o uint8) {
	s.mark++
	s.owner, s.ends = o, c.TTL
}

// acquire is atomic. A full model grants no more.
func (s *state) acquire(c *Config, o uint8) answer {
	switch {
	case s.tomb.has(o):
		return retired
	case s.owner == o:
		s.ends = c.TTL
		return granted
	case s.owner == nobody && s.mark < c.Grants:
		s.grant(c, o)
		return granted
	}
	return held
}

func (s *state) release(o uint8) {
	if s.unanswered.has(o) {
		s.tomb.add(o)
	}
	if s.owner == o {
		s.owner, s.ends = nobody, 0
	}
}

// start is called when somebody begins to work with a token.
func (s *state) start(token uint8) (broken string) {
	if token <= s.started {
		broken = fmt.Sprintf("ORDER: token %d starts after %d", token, s.started)
	}
	s.started = max(s.started, token)
	return broken
}

// releases are sent until they are confirmed. The line may stop waiting for one
// at any time.
func (x *stepper) releases() {
	s := x.from
	for o := uint8(1); o <= maxOwners; o++ {
		if !s.insisting.has(o) {
			continue
		}
		confirm := func(t *state) {
			t.insisting.remove(o)
			if t.line.leaving == o {
				t.askNext(&x.Config)
			}
		}
		x.step(func(t *state) string {
			t.release(o)
			confirm(t)
			return ""
		}, "the release of owner %d is executed and answered", o)
		if s.givenUp < x.GivenUp {
			x.step(func(t *state) string {
				t.givenUp++
				t.release(o)
				confirm(t)
				t.lateRelease.add(o)
				return ""
			}, "the release of owner %d is executed and answered, a copy of it stays on its way", o)
		}
	}
	if o := s.line.leaving; o > 0 {
		x.step(func(t *state) string { t.askNext(&x.Config); return "" }, "the line does not wait for the release of owner %d", o)
	}
}
