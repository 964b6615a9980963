package redisstore

import "time"

// deadlines gives up requests that are not answered in time, for those who wait
// for nothing but the answer. One timer serves all of a lane, and is seldom moved:
// it rings for the earliest of them, which nearly always was answered long ago.
// The lane's lock protects it.
type deadlines struct {
	lane  *lane
	first *request
	timer *time.Timer
	rings time.Time // zero if the timer is stopped
}

func (d *deadlines) add(q *request, by time.Time) {
	q.by, q.next, q.listed = by, d.first, true
	if d.first != nil {
		d.first.prev = q
	}
	d.first = q
	d.arm(by)
}

func (d *deadlines) remove(q *request) {
	if !q.listed {
		return
	}
	if q.prev == nil {
		d.first = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	}
	q.prev, q.next, q.listed = nil, nil, false
}

func (d *deadlines) arm(by time.Time) {
	if !d.rings.IsZero() && !by.Before(d.rings) {
		return
	}
	d.rings = by
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(by), d.pass)
	} else {
		d.timer.Reset(time.Until(by))
	}
}

// pass gives up what is late. Whoever waits for it goes on; the request stays
// with its batch and is not used again.
func (d *deadlines) pass() {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	d.rings = time.Time{}
	now := time.Now()
	var next time.Time
	for q := d.first; q != nil; {
		following := q.next
		switch {
		case !q.by.After(now):
			d.remove(q)
			q.gone, q.left = true, !d.lane.unqueueLocked(q)
			q.done <- struct{}{} // has room: the batch finds it gone
		case next.IsZero() || q.by.Before(next):
			next = q.by
		}
		q = following
	}
	if !next.IsZero() {
		d.arm(next)
	}
}

// withdraw takes q back if it was not sent yet.
func (l *lane) withdraw(q *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late.remove(q)
	return l.unqueueLocked(q)
}

func (l *lane) unqueueLocked(q *request) bool {
	for i, other := range l.queue {
		if other == q {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return true
		}
	}
	return false
}
