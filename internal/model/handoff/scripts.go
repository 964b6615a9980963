package handoff

import "fmt"

// What the scripts do. Each of these is atomic.

// end frees the name.
func (s *state) end() { s.owner, s.ends, s.token = nobody, 0, 0 }

func (s *state) dequeue(o int) {
	for i, x := range s.queue[:s.queued] {
		if int(x) == o {
			copy(s.queue[i:], s.queue[i+1:])
			s.queue[maxOwners-1] = 0
			s.queued--
			s.live[o-1] = 0
			return
		}
	}
}

func (s *state) stands(o int) bool {
	for _, x := range s.queue[:s.queued] {
		if int(x) == o {
			return true
		}
	}
	return false
}

func (s *state) grant(o int, ttl uint8) (broken string) {
	s.mark++
	s.owner, s.ends, s.token = uint8(o), ttl, s.mark
	switch {
	case s.released.has(o):
		return fmt.Sprintf("GHOST: owner %d is granted the name after its release", o)
	case s.minHold > 0:
		return fmt.Sprintf("MINHOLD: owner %d is granted the name %d ticks too early", o, s.minHold)
	}
	return ""
}

// pass gives a free name to the first live place of the queue, if there is one.
func (s *state) pass(c *Config) (broken string) {
	s.end()
	for s.queued > 0 {
		head := int(s.queue[0])
		alive := s.live[head-1] > 0
		s.dequeue(head)
		if !alive {
			continue
		}
		if c.Reserve != grants {
			s.mark++
			s.published[head-1] |= 1 << s.mark
			return ""
		}
		broken = s.grant(head, c.Claim)
		s.published[head-1] |= 1 << s.token
		return broken
	}
	return ""
}

// ask is acquire and stand. A request with a ticket was answered "queued"
// before; if it finds the name free it gets it, unless the head has asked lately.
func (s *state) ask(c *Config, o int, ticket bool) (a answer, value uint8, broken string) {
	if s.tomb.has(o) {
		return refused, 0, ""
	}
	if int(s.owner) == o {
		s.ends = c.TTL
		return granted, s.token, ""
	}
	if s.owner == nobody {
		mine := ticket || s.queued == 0 || int(s.queue[0]) == o
		for !mine && s.queued > 0 && s.live[s.queue[0]-1] == 0 {
			s.dequeue(int(s.queue[0]))
			mine = s.queued == 0 || int(s.queue[0]) == o
		}
		if !mine {
			broken = s.pass(c)
			mine = s.owner == nobody && c.Reserve == grants
		}
		if mine {
			s.dequeue(o)
			broken = s.grant(o, c.TTL)
			return granted, s.token, broken
		}
	}
	if !s.stands(o) {
		s.queue[s.queued] = uint8(o)
		s.queued++
	}
	s.live[o-1] = c.Live
	return queued, s.mark, broken
}

// release also abandons an owner that does not hold.
func (s *state) release(c *Config, o int) (a answer, broken string) {
	s.released.add(o)
	mine := int(s.owner) == o
	if !mine || s.unanswered.has(o) {
		s.dequeue(o)
	}
	if s.unanswered.has(o) && (c.Tombs == ofLate || c.Tombs == onlyOther && !mine) {
		s.tomb.add(o)
	}
	switch {
	case !mine:
		return refused, ""
	case c.MinHold == 0 || c.KeepsOwner && s.minHold > 0:
		return granted, s.pass(c)
	case c.KeepsOwner:
		s.ends, s.minHold = c.MinHold, c.MinHold
	default:
		s.owner, s.ends, s.token, s.minHold = heldBack, c.MinHold, 0, c.MinHold
	}
	return granted, ""
}

func (s *state) renew(c *Config, o int) answer {
	if int(s.owner) != o {
		return refused
	}
	s.ends = c.TTL
	return granted
}
