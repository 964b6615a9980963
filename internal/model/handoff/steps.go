package handoff

// published lets p read grants that were published for its owners.
func (x *stepper) published(p int) {
	s, q := x.from, x.from.proc[p]
	for r := uint8(0); r <= q.round; r++ {
		o := x.owner(p, r)
		current := r == q.round || x.SameOwner
		for token := uint8(1); s.published[o-1]>>token != 0; token++ {
			if s.published[o-1]>>token&1 == 0 {
				continue
			}
			over := !current || q.phase == done
			if over || q.phase == releases && x.HandBack >= ofReleasing || q.phase == works && x.HandBack >= ofHolding {
				x.step(func(t *state) string {
					t.published[o-1] &^= 1 << token
					t.lateRelease.add(o) // nobody waits for the answer
					return ""
				}, "P%d reads the grant of token %d to owner %d and releases it", p, token, o)
			}
			// Otherwise a grant that is not believed is ignored, as if it was never read.
			if v := x.validity(&q, token); v > 0 && current && q.phase == waits {
				x.step(func(t *state) string {
					t.published[o-1] &^= 1 << token
					t.drop(&x.Config, p, false)
					return t.hold(p, v, token)
				}, "P%d reads the grant of token %d to owner %d and believes it for %d", p, token, o, v)
			}
		}
	}
}

// asks begins with an owner. Processes are alike, so they begin in order.
func (x *stepper) asks(p int) {
	q := x.from.proc[p]
	if q.phase != idle || q.round == 0 && p > 0 && x.from.proc[p-1].phase == idle && x.from.proc[p-1].round == 0 {
		return
	}
	x.step(func(t *state) string {
		t.proc[p].phase, t.proc[p].request = waits, asking
		return ""
	}, "P%d asks as owner %d", p, x.owner(p, q.round))
}

// executes p's request at the server; the answer is read, or lost.
func (x *stepper) executes(p int) {
	q := x.from.proc[p]
	o := x.owner(p, q.round)
	if q.request == none {
		return
	}
	x.executesAs(p, q, o, q.ticket)
	if s := x.from; q.ticket && q.request == asking && s.owner == nobody && s.queued > 0 && int(s.queue[0]) != o {
		x.executesAs(p, q, o, false) // the head has asked lately
	}
}

func (x *stepper) executesAs(p int, q proc, o int, ticket bool) {
	var a answer
	var value uint8
	execute := func(t *state) (broken string) {
		switch q.request {
		case asking:
			a, value, broken = t.ask(&x.Config, o, ticket)
		case renewing:
			a = t.renew(&x.Config, o)
		case releasing:
			a, broken = t.release(&x.Config, o)
		}
		return broken
	}
	x.step(func(t *state) string {
		broken := execute(t)
		if more := t.read(&x.Config, p, a, value); broken == "" {
			broken = more
		}
		return broken
	}, "the %s of owner %d is executed and answered", requestNames[q.request], o)
	if x.from.givenUp < x.GivenUp {
		x.step(func(t *state) string {
			broken := execute(t)
			t.givenUp++
			t.drop(&x.Config, p, true)
			return broken
		}, "the %s of owner %d is executed, the answer is lost", requestNames[q.request], o)
	}
}

// givesUp sends no more than a process that was told of a timeout.
func (x *stepper) givesUp(p int) {
	if x.from.proc[p].request == none || x.from.givenUp == x.GivenUp {
		return
	}
	x.step(func(t *state) string {
		t.givenUp++
		t.drop(&x.Config, p, false)
		return ""
	}, "P%d gives up on the answer", p)
}

func (x *stepper) waits(p int) {
	q := x.from.proc[p]
	o := x.owner(p, q.round)
	if q.request == none {
		x.step(func(t *state) string { t.proc[p].request = asking; return "" }, "P%d asks again as owner %d", p, o)
	}
	if x.Cancel {
		x.step(func(t *state) string {
			t.drop(&x.Config, p, false)
			t.proc[p].phase, t.proc[p].request = releases, releasing
			return ""
		}, "P%d stops waiting and releases owner %d", p, o)
	}
}

func (x *stepper) works(p int) {
	q := x.from.proc[p]
	if x.Renew && q.until > 0 && q.request == none {
		x.step(func(t *state) string { t.proc[p].request = renewing; return "" }, "P%d sends a renewal", p)
	}
	x.step(func(t *state) string {
		t.drop(&x.Config, p, false)
		r := &t.proc[p]
		r.phase, r.request = releases, releasing
		r.ahead = q.until > 0
		r.held = int(t.owner) == x.owner(p, q.round) && t.token == q.token
		return ""
	}, "P%d: the work ends, a release is sent", p)
}

func (x *stepper) releases(p int) {
	if x.from.proc[p].request != none {
		return
	}
	x.step(func(t *state) string { t.proc[p].request = releasing; return "" }, "P%d sends the release again", p)
	x.step(func(t *state) string { t.finish(&x.Config, p); return "" }, "P%d leaves it at that", p)
}
