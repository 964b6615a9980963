package guard

import "time"

// question is the request in flight of a line, and the last answer to it.
type question struct {
	request Request       // Owner "" if the next request needs a fresh one
	known   bool          // the store may know the owner: it queues, or an answer is missing
	asleep  time.Duration // how long the machine had slept before the last request
	held    *HeldError    // the last answer, if the wait for the name goes on

	past      *HeldError // the last answer, if the questions since were cut off by the end of an asker's wait
	pastUntil instant    // when the first of those was sent
}

// unanswered notes that the question sent at this time has no answer and will get
// none.
func (q *question) unanswered(sent instant) {
	if q.held != nil {
		q.past, q.pastUntil, q.held = q.held, sent, nil
	}
}

// restart makes q the question of another owner.
func (q *question) restart(r Request, at instant) {
	q.unanswered(at)
	*q = question{request: r, past: q.past, pastUntil: q.pastUntil}
}

// answerFor is the last answer that h may be told: one that stood at some time
// since h began. nil if there is none.
func (q *question) answerFor(h *hold) *HeldError {
	if q.held == nil && h.began <= q.pastUntil {
		return q.past
	}
	return q.held
}
