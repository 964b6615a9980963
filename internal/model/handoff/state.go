package handoff

const (
	maxProcs  = 3
	maxOwners = 6 // owners are numbered from 1

	nobody    = 0
	foreigner = 7
	heldBack  = 8 // a minimum hold: an owner that matches no request

	forever = 255
)

// state of the server, of the network and of all processes. Times are ticks
// that are left.
type state struct {
	owner, ends uint8 // of the lease
	token, mark uint8
	queued      uint8
	queue       [maxOwners]uint8 // owners, the head first
	live        [maxOwners]uint8 // by owner: liveness left
	minHold     uint8            // left of the minimum hold of the last lease

	published   [maxOwners]uint16 // by owner: grants not read, bits by token
	tomb        owners            // have a tombstone
	released    owners            // a release was executed
	unanswered  owners            // some copy of an acquire is unanswered
	lateAcquire owners            // such a copy may still come
	lateRelease owners

	seen    uint8 // highest token any holder has had
	foreign uint8 // used so far
	breaks  uint8
	givenUp uint8
	proc    [maxProcs]proc
}

// proc is one line: an owner at a time.
type proc struct {
	phase   phase
	round   uint8 // which of its owners
	request request
	age     uint8 // of the request
	until   uint8 // left of what is believed
	token   uint8
	claim   uint8 // left of the claim window, from the last request that was answered "queued"
	mark    uint8 // in that answer
	ticket  bool
	again   bool // an earlier copy of the release is unanswered
	ahead   bool // when the work ended the lease was not over,
	held    bool // and the server agreed
}

type phase uint8

const (
	idle phase = iota
	waits
	works
	releases
	done
)

type request uint8

const (
	none request = iota
	asking
	renewing
	releasing
)

var requestNames = [...]string{asking: "acquire", renewing: "renewal", releasing: "release"}

type answer uint8

const (
	granted answer = iota // or renewed, or released
	queued
	refused // or not ours
)

// owners is a set.
type owners uint8

func (s owners) has(o int) bool { return s>>(o-1)&1 == 1 }
func (s *owners) add(o int)     { *s |= 1 << (o - 1) }
func (s *owners) remove(o int)  { *s &^= 1 << (o - 1) }

// owner is the number of a process's owner.
func (c *Config) owner(p int, round uint8) int {
	if c.SameOwner {
		round = 0
	}
	return p*c.Owners + int(round) + 1
}

// less is a-b, and not below 0.
func less(a, b uint8) uint8 { return a - min(a, b) }

// tick lets a tick pass.
func (s *state) tick(c *Config) {
	if s.owner != nobody && s.ends != forever {
		if s.ends--; s.ends == 0 {
			s.end()
		}
	}
	s.minHold = less(s.minHold, 1)
	for o := range s.live {
		s.live[o] = less(s.live[o], 1)
	}
	for p := range s.proc {
		q := &s.proc[p]
		if q.request != none {
			q.age = min(q.age+1, c.TTL)
		}
		q.until, q.claim = less(q.until, 1), less(q.claim, 1)
	}
}

// tidy forgets what can matter no more.
func (s *state) tidy(c *Config) {
	var used owners
	for _, o := range s.queue[:s.queued] {
		used.add(int(o))
	}
	for p := range c.Procs {
		q := &s.proc[p]
		if q.phase != done {
			used.add(c.owner(p, q.round))
		}
		if q.phase >= works {
			q.ticket, q.claim = false, 0
		}
		if q.claim == 0 {
			q.mark = 0
		}
		if q.phase == releases {
			q.token, q.age = 0, 0
			if !q.ahead || q.again && c.NotOurs < isLoss {
				q.until, q.ahead, q.held = 0, false, false
			}
		}
	}
	for o := 1; o <= c.Procs*c.Owners; o++ {
		if used.has(o) || int(s.owner) == o || s.lateAcquire.has(o) {
			continue
		}
		// Nobody speaks for this owner, and nothing can bring it back.
		s.lateRelease.remove(o)
		s.tomb.remove(o)
		s.released.remove(o)
		s.unanswered.remove(o)
		s.published[o-1] = 0
	}
}
