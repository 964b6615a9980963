package line

// finish gives the lease of call i back, or hands it on.
func (s *state) finish(c *Config, i uint8) {
	x, l := &s.call[i-1], &s.line
	if x.phase != lost && l.lease.until == 0 {
		s.lose(c) // found out just now
	}
	was := *x
	*x = call{phase: over}
	switch {
	case was.phase == bounced: // its lease is being released
	case was.phase == lost:
		s.insisting.add(was.owes)
	case s.mayPass(c):
		next := l.queue[0]
		l.remove(next)
		l.lease.used++
		l.holder = next
		token := l.lease.base*c.Tokens + l.lease.used
		if c.SameToken {
			token = was.token
		}
		s.call[next-1] = call{phase: chosen, token: token}
	default:
		s.insisting.add(l.lease.owner)
		l.holder, l.leaving = 0, l.lease.owner
	}
}

func (s *state) mayPass(c *Config) bool {
	l := &s.line
	return l.n > 0 && l.lease.pass > 0 && (c.NoTokenLimit || l.lease.used+1 < c.Tokens)
}

// lose ends the holder's context and lets the next call ask with a fresh owner.
func (s *state) lose(c *Config) {
	l := &s.line
	x := &s.call[l.holder-1]
	switch x.phase {
	case chosen:
		*x = call{phase: bounced}
		if !c.NotReleased {
			s.insisting.add(l.lease.owner)
		}
	case works, ended:
		x.phase, x.owes = lost, l.lease.owner
	}
	s.askNext(c)
}

// renewal is sent by the holder, and once it was, the lease is not passed on.
func (x *stepper) renewal() {
	l := &x.from.line
	if r := l.renews; r.sender > 0 {
		x.step(func(t *state) string { return x.renewed(t) }, "the renewal of owner %d is executed and answered", r.owner)
		x.step(func(t *state) string { t.line.renews = renewal{}; return "" }, "the renewal of owner %d is lost", r.owner)
		return
	}
	if l.holder == 0 || x.from.call[l.holder-1].phase != works || l.lease.until == 0 {
		return
	}
	x.step(func(t *state) string {
		t.line.renews = renewal{sender: l.holder, owner: l.lease.owner}
		if !x.PassRenewed {
			t.line.lease.pass = 0
		}
		return ""
	}, "%c sends a renewal", letter(l.holder))
}

// renewed executes the renewal and reads its answer.
func (x *stepper) renewed(t *state) string {
	l := &t.line
	r := l.renews
	l.renews = renewal{}
	ours := t.owner == r.owner
	if ours {
		t.ends = x.TTL
	}
	if l.lease.owner != r.owner || l.holder == 0 {
		return "" // the lease is over, or being released
	}
	l.lease.lost = l.lease.lost || !ours
	if !x.TellHolder && l.holder != r.sender {
		return ""
	}
	v := less(x.TTL-x.Margin, r.age)
	switch {
	case !ours && x.PassLost:
		t.call[l.holder-1].phase = ended
	case !ours:
		t.lose(&x.Config)
	case l.lease.until > 0: // an answer after the deadline is discarded
		l.lease.until = max(l.lease.until, v)
	}
	return ""
}
