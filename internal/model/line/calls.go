package line

import (
	"fmt"
	"slices"
)

// joins lets the next call come; calls are alike, so they come in order.
func (x *stepper) joins() {
	i := slices.IndexFunc(x.from.call[:x.Calls], func(c call) bool { return c.phase == idle })
	if i < 0 {
		return
	}
	x.step(func(t *state) string {
		t.join(uint8(i+1), (*line).push)
		return ""
	}, "%c comes", letter(uint8(i+1)))
}

// join makes i the asker of an empty line, or lets it stand in one.
func (s *state) join(i uint8, stand func(*line, uint8)) {
	if l := &s.line; l.empty() {
		l.asker, s.call[i-1].phase = i, asking
	} else {
		stand(l, i)
		s.call[i-1].phase = queued
	}
}

// askNext lets the first waiting call ask. If none waits, an owner that the store
// may know is abandoned.
func (s *state) askNext(c *Config) {
	l := &s.line
	l.holder, l.asker, l.leaving = 0, 0, 0
	if l.n > 0 {
		l.asker = l.queue[0]
		l.remove(l.asker)
		s.call[l.asker-1].phase = asking
		if c.FreshOwner {
			l.owner, l.known = 0, false
		}
		return
	}
	if l.known && !c.NotAbandoned {
		s.insisting.add(l.owner)
	}
	l.owner, l.known = 0, false
}

// dropRequest leaves the request on its way without a receiver.
func (s *state) dropRequest(executed bool) {
	l := &s.line
	if !l.onWay {
		return
	}
	s.unanswered.add(l.owner)
	if !executed {
		s.lateAcquire.add(l.owner)
	}
	l.onWay, l.age = false, 0
}

// asker sends the line's request and reads its answer.
func (x *stepper) asker() {
	s, l := x.from, &x.from.line
	if l.asker == 0 {
		return
	}
	if !l.onWay {
		used := s.used()
		for o := uint8(1); o <= maxOwners; o++ {
			if l.owner == 0 && !used.has(o) || l.owner == o {
				x.step(func(t *state) string {
					t.line.owner, t.line.known, t.line.onWay, t.line.age = o, true, true, 0
					return ""
				}, "%c asks as owner %d", letter(l.asker), o)
				break
			}
		}
		return
	}
	x.step(func(t *state) string {
		a := t.acquire(&x.Config, l.owner)
		t.line.onWay, t.line.age = false, 0
		switch {
		case a == retired:
			t.line.owner, t.line.known = 0, false
		case a == granted:
			t.granted(&x.Config, less(x.TTL-x.Margin, l.age))
		}
		return ""
	}, "the acquire of owner %d is executed and answered", l.owner)
	if s.givenUp < x.GivenUp {
		x.step(func(t *state) string {
			t.givenUp++
			t.acquire(&x.Config, l.owner)
			t.dropRequest(true)
			return ""
		}, "the acquire of owner %d is executed, the answer is lost", l.owner)
		x.step(func(t *state) string { t.givenUp++; t.dropRequest(false); return "" }, "%c gives up on the answer", letter(l.asker))
	}
}

// granted gives the asker a lease that is believed for v ticks.
func (s *state) granted(c *Config, v uint8) {
	l := &s.line
	if v == 0 { // over before it could be used
		s.insisting.add(l.owner)
		l.owner, l.known = 0, false
		return
	}
	l.lease = lease{owner: l.owner, base: s.mark, until: v, pass: less(v, c.TTL-c.Margin-c.Pass)}
	l.holder, l.asker = l.asker, 0
	s.call[l.holder-1] = call{phase: chosen, token: s.mark * c.Tokens}
	if l.known = false; !c.SameOwner {
		l.owner = 0
	}
}

// call is what call number i+1 does.
func (x *stepper) call(index int) {
	i, c := uint8(index+1), x.from.call[index]
	switch c.phase {
	case queued, asking, chosen:
		if x.Cancel {
			x.step(func(t *state) string { x.cancel(t, i); return "" }, "%c stops waiting", letter(i))
		}
		if c.phase == chosen {
			x.step(func(t *state) string { return x.starts(t, i) }, "%c starts", letter(i))
		}
	case bounced:
		x.step(func(t *state) string { t.join(i, (*line).pushFront); return "" }, "%c goes back into line", letter(i))
	case works:
		x.step(func(t *state) string {
			if x.HandOnFirst {
				t.finish(&x.Config, i)
				t.call[index].phase = lingers
			} else {
				t.call[index].phase = ended
			}
			return ""
		}, "the work of %c ends", letter(i))
	case ended, lost:
		x.step(func(t *state) string { t.finish(&x.Config, i); return "" }, "%c finishes", letter(i))
	case lingers:
		x.step(func(t *state) string { t.call[index].phase = over; return "" }, "the context of %c ends", letter(i))
	}
	if x.from.line.holder == i && x.from.line.lease.until == 0 {
		x.step(func(t *state) string { t.lose(&x.Config); return "" }, "a timer finds that the lease is over")
	}
}

// starts begins the work of a call that has the lease.
func (x *stepper) starts(t *state, i uint8) (broken string) {
	c := &t.call[i-1]
	if t.line.lease.until == 0 {
		if !x.StartsBlind {
			t.lose(&x.Config)
			return ""
		}
		broken = fmt.Sprintf("LOSS: %c starts on a lease that is over", letter(i))
	}
	c.phase = works
	if broken == "" {
		broken = t.start(c.token)
	}
	return broken
}

// cancel takes a call that stops waiting out of the line.
func (x *stepper) cancel(t *state, i uint8) {
	c, l := &t.call[i-1], &t.line
	switch c.phase {
	case queued:
		l.remove(i)
	case asking:
		t.dropRequest(false)
		if l.asker = 0; !x.DropsLine {
			t.askNext(&x.Config)
		}
	case chosen:
		if !x.DropsTurn {
			t.finish(&x.Config, i)
		}
	}
	c.phase = over
}
