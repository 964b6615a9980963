package guard

import (
	"context"
	"sync"
)

// line is where the calls of this Guard that want one name stand, first come
// first served. Its head, who holds the lease or asks for it, moves it on; a line
// without a head is removed.
//
// The request in flight belongs to the line, not to the call that sent it: when
// the asker leaves, the next call goes on with the same owner and keeps the
// place in the store's queue.
//
// Guard.mu protects the fields; what the question says is changed by the asker
// alone.
type line struct {
	head *hold
	asks bool // the head asks the store; else it holds the lease, or gives it back
	kept bool // the lease is not passed on

	first, last *hold // waiting, in order of arrival
	n           int32
	impatient   int32 // waiting calls that want the next verdict only

	q *question // while the head asks, or there is an owner to go on with
}

var (
	lines     = sync.Pool{New: func() any { return new(line) }}
	questions = sync.Pool{New: func() any { return new(question) }}
)

func newLine(asker *hold) *line {
	l := lines.Get().(*line)
	l.head, l.asks, l.q = asker, true, questions.Get().(*question)
	return l
}

// answered drops the question once its owner is of no further use.
func (l *line) answered() {
	if l.q != nil {
		*l.q = question{}
		questions.Put(l.q)
		l.q = nil
	}
}

// held is the last answer of the store, nil if there is none or it is out of
// date.
func (l *line) held() *HeldError {
	if l.q == nil {
		return nil
	}
	return l.q.held
}

func (l *line) push(h *hold) {
	h.line, h.state = l, queued
	if l.last == nil {
		l.first = h
	} else {
		l.last.waits.next, h.waits.prev = h, l.last
	}
	l.last = h
	l.n++
	if h.limit == 0 {
		l.impatient++
	}
}

// pushFront puts back a call whose lease was lost before it could start.
func (l *line) pushFront(h *hold) {
	h.line, h.state = l, queued
	if h.waits.next = l.first; l.first == nil {
		l.last = h
	} else {
		l.first.waits.prev = h
	}
	l.first = h
	l.n++
	if h.limit == 0 {
		l.impatient++
	}
}

func (l *line) remove(h *hold) {
	w := h.waits
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.waits.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.waits.prev = w.prev
	}
	w.prev, w.next = nil, nil
	l.n--
	if h.limit == 0 {
		l.impatient--
	}
}

// stopPassing keeps the lease with its holder: one that was renewed, or is being
// renewed, is never passed on, so nobody starts with a doubtful lease.
func (l *line) stopPassing() {
	if l != nil {
		l.kept = true
	}
}

// askNextLocked makes the first waiting call the asker. If nobody waits the line
// is removed, and an owner that the store may know is abandoned; ctx gives the
// values for that. The caller must not use l after that.
func (g *Guard) askNextLocked(ctx context.Context, l *line) {
	next := l.first
	if next != nil {
		g.behindLocked(l, next)
	}
	if next == nil {
		delete(g.lines, l.head.name)
		if l.q != nil && l.q.known {
			g.abandonLocked(ctx, l.q.request)
		}
		l.answered()
		*l = line{}
		lines.Put(l)
		return
	}
	if l.q == nil {
		l.q = questions.Get().(*question)
	}
	l.remove(next)
	next.state, l.head, l.asks = asking, next, true
	next.wake()
}

// behindLocked keeps for the observers whom next has waited for.
func (g *Guard) behindLocked(l *line, next *hold) {
	if g.obs != nil && !l.asks {
		next.waits.behind = l.heldHere()
	}
}

// dismissLocked ends the calls that only wanted to know whether they can have
// the name now.
func (l *line) dismissLocked(err error) {
	for h := l.first; h != nil && l.impatient > 0; {
		next := h.waits.next
		if h.limit == 0 {
			l.remove(h)
			h.state, h.line, h.waits.verdict = dismissed, nil, err
			h.wake()
		}
		h = next
	}
}

// heldHere is the verdict of a line whose holder is in this process.
func (l *line) heldHere() *HeldError {
	he := &HeldError{Name: l.head.name}
	if h := l.head; !l.asks {
		he.Holder, he.Trace, he.Token, he.Mark = h.class.policy.label, h.trace(), h.token(), h.grant.token
		r := look()
		he.RetryIn = max(0, h.ends(r).until(r))
	}
	return he
}

// join gives h its place: it becomes the asker of a new line, or stands in one.
// The error is the final verdict for a call that does not wait.
func (g *Guard) join(h *hold) (asks bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.enterLocked(); err != nil {
		return false, err
	}
	l := g.lines[h.name]
	if l == nil {
		l = newLine(h)
		g.lines[h.name] = l
		h.line, h.state = l, asking
		return true, nil
	}
	if err := l.refuse(h); err != nil {
		h.away = true
		g.leaveLocked()
		return false, err
	}
	h.wait().turn = make(chan struct{}, 1)
	l.push(h)
	return false, nil
}

// refuse tells whether h must not stand in the line.
func (l *line) refuse(h *hold) error {
	n := l.n
	if l.asks {
		n++
	}
	full := h.class.policy.maxWaiters > 0 && int(n) >= h.class.policy.maxWaiters
	switch {
	case h.limit == 0 && l.asks && l.held() == nil:
		return nil // the verdict is on its way
	case h.limit != 0 && !full:
		return nil
	case l.held() != nil:
		he := *l.held()
		he.Wake, he.Waited, he.Attempts = nil, 0, 0
		return &he
	default:
		return l.heldHere()
	}
}
