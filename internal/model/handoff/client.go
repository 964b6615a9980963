package handoff

import "fmt"

// What a process makes of answers and messages.

// hold makes p a believer for v ticks.
func (s *state) hold(p int, v, token uint8) (broken string) {
	q := &s.proc[p]
	q.phase, q.until, q.token, q.claim, q.mark = works, v, token, 0, 0
	if token <= s.seen {
		return fmt.Sprintf("ORDER: P%d has token %d, but %d was seen before", p, token, s.seen)
	}
	s.seen = token
	return ""
}

// validity is how long a grant with that token is believed, if it is read now.
func (c *Config) validity(q *proc, token uint8) uint8 {
	switch {
	case c.Reserve == hints:
		return 0
	case c.Trust == sinceRead:
		return c.Claim - c.Margin
	case c.Trust == fullTTL:
		return c.TTL - c.Margin
	case !c.OldGrants && token <= q.mark:
		return 0
	}
	return q.claim
}

// drop stops waiting for the answer to p's request. If it was not executed, it
// stays in the network.
func (s *state) drop(c *Config, p int, executed bool) {
	q := &s.proc[p]
	o := c.owner(p, q.round)
	switch q.request {
	case asking:
		s.unanswered.add(o)
		if !executed {
			s.lateAcquire.add(o)
		}
	case releasing:
		q.again = true
		if !executed {
			s.lateRelease.add(o)
		}
	}
	q.request, q.age = none, 0
}

// finish ends an owner; the process goes on with the next.
func (s *state) finish(c *Config, p int) {
	round := s.proc[p].round
	s.proc[p] = proc{phase: done, round: round}
	if int(round)+1 < c.Owners {
		s.proc[p] = proc{phase: idle, round: round + 1}
		if c.SameOwner {
			s.released.remove(c.owner(p, 0)) // the owner lives on: GHOST has no meaning
		}
	}
}

// read takes in the answer to p's request.
func (s *state) read(c *Config, p int, a answer, value uint8) (broken string) {
	q := &s.proc[p]
	request, age := q.request, q.age
	q.request, q.age = none, 0
	v := less(c.TTL-c.Margin, age)
	switch {
	case request == asking && a == granted && v > 0:
		return s.hold(p, v, value)
	case request == asking && a == queued:
		q.claim, q.mark, q.ticket = less(c.Claim-c.Margin, age), value, true
	case request == renewing && a == refused: // lost, and released in the background
		q.phase, q.until = releases, 0
	case request == renewing && q.until > 0 && v > q.until: // an answer after the deadline is discarded
		q.until = v
	case request == releasing:
		broken = c.result(q, a)
		s.finish(c, p)
	}
	return broken
}

// result judges what a release tells the caller.
func (c *Config) result(q *proc, a answer) (broken string) {
	if a != refused || !q.ahead {
		return ""
	}
	loss := false
	switch c.NotOurs {
	case byTime:
		loss = !q.again && q.until > 0
	case byCopies:
		loss = !q.again
	case isLoss:
		loss = true
	}
	switch {
	case loss && q.held:
		return "RESULT: a loss is reported of work that was done under the lock"
	case !loss && !q.held && !q.again && q.until > 0:
		return "RESULT: success is reported although the answer proves the loss"
	}
	return ""
}

// believers counts those that think they have the name.
func (s *state) believers(c *Config) int {
	n := 0
	if s.owner == foreigner {
		n++
	}
	for _, q := range s.proc[:c.Procs] {
		if q.phase == works && q.until > 0 {
			n++
		}
	}
	return n
}

// recovers plays the rest of the run without faults, and tells whether every
// waiting process gets its turn in a bounded time.
func (c Config) recovers(s state) bool {
	c.Reserve = min(c.Reserve, hints)
	s.published = [maxOwners]uint16{}
	if s.owner == foreigner {
		s.end()
	}
	waiting := 0
	for p := range c.Procs {
		s.drop(&c, p, false)
		if s.proc[p].phase == waits {
			waiting++
		}
	}
	limit := c.TTL + c.Live + c.MinHold*uint8(c.Procs) + (maxOwners+1)*c.Claim + 2
	for ; limit > 0 && waiting > 0; limit-- {
		for p := range c.Procs {
			q := &s.proc[p]
			o := c.owner(p, q.round)
			switch q.phase {
			case works, releases:
				s.release(&c, o)
				q.phase = done
			case waits:
				a, _, _ := s.ask(&c, o, q.ticket)
				q.ticket = a == queued
				if a == granted {
					s.release(&c, o)
					q.phase = done
					waiting--
				}
			}
			s.published = [maxOwners]uint16{}
		}
		s.tick(&c)
	}
	return waiting == 0
}
