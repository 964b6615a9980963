package line

import (
	"fmt"
	"slices"
)

// judge checks the rules that every state must keep.
func (x *stepper) judge(s *state) (broken string) {
	if x.Breaks == 0 {
		if broken = x.exclusive(s); broken != "" {
			return broken
		}
	}
	l := &s.line
	for i, c := range s.call[:x.Calls] {
		if s.live(c) && l.lease.lost {
			return fmt.Sprintf("LOSS: %c is live although the process was told of the loss", letter(uint8(i+1)))
		}
	}
	if broken = x.moves(s); broken != "" {
		return broken
	}
	return x.owned(s)
}

func (s *state) live(c call) bool {
	return (c.phase == works || c.phase == lingers) && s.line.lease.until > 0
}

func (x *stepper) exclusive(s *state) string {
	var live []rune
	for i, c := range s.call[:x.Calls] {
		if s.live(c) {
			live = append(live, letter(uint8(i+1)))
		}
	}
	switch {
	case len(live) > 1:
		return fmt.Sprintf("ME: %c and %c are live", live[0], live[1])
	case len(live) == 1 && s.rival > 0:
		return fmt.Sprintf("ME: %c and the rival are live", live[0])
	}
	return ""
}

// moves tells whether the line goes on.
func (x *stepper) moves(s *state) string {
	l := &s.line
	for k, c := range s.call[:x.Calls] {
		i := uint8(k + 1)
		stands := slices.Contains(l.queue[:l.n], i)
		if stands != (c.phase == queued) || (l.asker == i) != (c.phase == asking) {
			return fmt.Sprintf("WAIT: %c %s and has lost its place", letter(i), phaseNames[c.phase])
		}
	}
	if l.n > 0 && l.asker == 0 && l.leaving == 0 && !s.held() {
		return "WAIT: calls wait, and none of them asks"
	}
	return ""
}

// held tells whether a call has the lease, and is there to give it back.
func (s *state) held() bool {
	h := s.line.holder
	return h > 0 && s.call[h-1].phase != over
}

// owned tells whether somebody will release what the store has granted.
func (x *stepper) owned(s *state) string {
	o, l := s.owner, &s.line
	switch {
	case o == nobody, o == rival, s.insisting.has(o), s.ends <= x.Margin:
	case l.owner == o && l.asker > 0:
	case l.lease.owner == o && s.held():
	case slices.ContainsFunc(s.call[:], func(c call) bool { return c.owes == o }):
	default:
		return fmt.Sprintf("ORPHAN: nobody releases owner %d", o)
	}
	return ""
}
