package line

import (
	"fmt"
	"slices"
	"strings"
)

const (
	maxCalls  = 4
	maxOwners = 5 // owners are numbered from 1, and used again once nothing remembers them

	nobody = 0
	rival  = 7
)

// state of the store, of the network and of the process. Times are ticks that
// are left.
type state struct {
	owner, ends, mark uint8 // of the lease; number of the last grant
	rival             uint8 // left of what the rival believes
	tomb              owners
	unanswered        owners // some copy of an acquire is unanswered
	lateAcquire       owners // such a copy may still come
	lateRelease       owners
	insisting         owners // release is sent until it is confirmed

	started                 uint8 // highest token that was started with
	givenUp, breaks, sleeps uint8

	line line
	call [maxCalls]call
}

type line struct {
	queue         [maxCalls]uint8 // calls that wait, from 1, the first first
	n             uint8
	asker, holder uint8 // calls, from 1; 0 is none
	leaving       uint8 // the owner whose release the line waits for; 0 is none

	owner  uint8 // of the request; 0 is none
	known  bool  // the store may know that owner
	onWay  bool  // a request is on its way
	age    uint8 // of it
	lease  lease
	renews renewal
}

type lease struct {
	owner, base uint8
	until, pass uint8
	used        uint8 // how often it was handed on
	lost        bool  // the process was told
}

type renewal struct {
	sender, owner, age uint8 // sender 0: none is on its way
}

type call struct {
	phase phase
	token uint8
	owes  uint8 // the owner of a lost lease, which the call releases when its work ends
}

type phase uint8

const (
	idle phase = iota
	queued
	asking
	chosen // has the lease, and its work did not start
	works
	ended   // its context has ended, the lease is still here
	lingers // the lease was handed on, its context has not ended
	lost    // its context has ended because the lease is lost, its work goes on
	bounced // the lease was lost before the work started; goes back into line
	over
)

var phaseNames = [...]string{"idle", "queued", "asks", "chosen", "works", "ended", "lingers", "lost", "bounced", "over"}

// owners is a set.
type owners uint8

func (s owners) has(o uint8) bool { return s>>o&1 == 1 }
func (s *owners) add(o uint8)     { *s |= 1 << o }
func (s *owners) remove(o uint8)  { *s &^= 1 << o }

func (l *line) empty() bool { return l.asker == 0 && l.holder == 0 && l.leaving == 0 }

func (l *line) push(i uint8) {
	l.queue[l.n] = i
	l.n++
}

func (l *line) pushFront(i uint8) {
	copy(l.queue[1:], l.queue[:l.n])
	l.queue[0] = i
	l.n++
}

func (l *line) remove(i uint8) {
	k := slices.Index(l.queue[:l.n], i)
	copy(l.queue[k:], l.queue[k+1:])
	l.n--
	l.queue[l.n] = 0
}

// less is a-b, and not below 0.
func less(a, b uint8) uint8 { return a - min(a, b) }

// tick lets a tick pass. While the machine sleeps, timers do not run.
func (s *state) tick(c *Config, asleep bool) {
	if s.owner != nobody {
		if s.ends--; s.ends == 0 {
			s.owner = nobody
		}
	}
	s.rival = less(s.rival, 1)
	l := &s.line
	l.lease.until = less(l.lease.until, 1)
	if !asleep {
		l.lease.pass = less(l.lease.pass, 1)
	}
	if l.onWay {
		l.age = min(l.age+1, c.TTL-c.Margin)
	}
	if l.renews.sender > 0 {
		l.renews.age = min(l.renews.age+1, c.TTL-c.Margin)
	}
}

// tidy forgets what can matter no more.
func (s *state) tidy() {
	l := &s.line
	if l.holder == 0 && l.leaving == 0 && !s.lingering() {
		l.lease = lease{}
	}
	s.lateAcquire &^= s.tomb // they will be refused
	used := s.used()
	for o := uint8(1); o <= maxOwners; o++ {
		if !used.has(o) {
			s.tomb.remove(o)
			s.unanswered.remove(o)
			s.lateRelease.remove(o)
		}
	}
	for i := range s.call {
		if c := &s.call[i]; c.phase == over {
			*c = call{phase: over}
		}
	}
}

func (s *state) lingering() bool {
	return slices.ContainsFunc(s.call[:], func(c call) bool { return c.phase == lingers })
}

// used are the owners that something remembers.
func (s *state) used() owners {
	used := s.lateAcquire | s.insisting | s.line.mine()
	if s.owner != rival {
		used.add(s.owner)
	}
	for _, c := range s.call {
		used.add(c.owes)
	}
	used.add(s.line.renews.owner)
	return used
}

// mine are the owners that the line has.
func (l *line) mine() owners {
	var set owners
	set.add(l.owner)
	set.add(l.leaving)
	set.add(l.lease.owner)
	return set
}

func (c Config) show(s *state) string {
	var b strings.Builder
	switch s.owner {
	case nobody:
		b.WriteString("[free]")
	case rival:
		fmt.Fprintf(&b, "[rival for %d]", s.ends)
	default:
		fmt.Fprintf(&b, "[owner %d for %d]", s.owner, s.ends)
	}
	l := &s.line
	if l.owner > 0 {
		fmt.Fprintf(&b, " asks as %d", l.owner)
	}
	if l.holder > 0 {
		fmt.Fprintf(&b, " lease of %d for %d", l.lease.owner, l.lease.until)
	}
	if s.insisting > 0 {
		b.WriteString(" releasing")
		for o := uint8(1); o <= maxOwners; o++ {
			if s.insisting.has(o) {
				fmt.Fprintf(&b, " %d", o)
			}
		}
	}
	for i, c := range s.call[:c.Calls] {
		fmt.Fprintf(&b, ", %c %s", letter(uint8(i+1)), phaseNames[c.phase])
		if c.token > 0 {
			fmt.Fprintf(&b, " with %d", c.token)
		}
	}
	return b.String()
}

// letter of a call, which counts from 1.
func letter(i uint8) rune { return 'A' - 1 + rune(i) }
