package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
)

var background = context.Background()

// result is what became of a call.
type result struct {
	answer answer
	sent   time.Time // before the request that was answered was sent
	resent bool      // an earlier copy of it was not answered
}

// call sends a request and re-sends it when the server does not know the script
// or a connection broke. It takes q over. onUnknown is called each time a copy
// was sent of which the answer will not be seen.
func (e *engine) call(ctx context.Context, name string, q *request, onUnknown func()) (result, error) {
	var r result
	lane := e.lanes.of(q)
	if e.withText.Load() {
		q = q.again(true)
	}
	for tries := 0; ; tries++ {
		r.sent = time.Now()
		sent, stuck, err := lane.do(ctx, q, r.sent)
		if err != nil {
			if sent {
				onUnknown()
			}
			if errors.Is(err, errUnanswered) {
				err = explain(name, err)
			}
			return r, err
		}
		answered, err := e.read(q, &r)
		if answered {
			if err != nil {
				err = explain(name, err)
			}
			return r, err
		}
		switch {
		case ctx.Err() != nil && !isServerError(err):
			onUnknown()
			return r, context.Cause(ctx)
		case isNoScript(err) && q.values[0] == "evalsha":
			if !redis.HasErrorPrefix(err, "NOSCRIPT") {
				e.withText.Store(true)
			}
			q = q.again(true)
			continue
		case isServerError(err), neverSent(err):
			return r, explain(name, err)
		}
		onUnknown()
		r.resent = true
		if stuck {
			q = q.again(q.values[0] == "eval")
			continue
		}
		if !isBrokenConnection(err) || tries >= resends || ctx.Err() != nil {
			return r, explain(name, err)
		}
		q = q.again(q.values[0] == "eval")
	}
}

// read takes the answer out of q. An answer that was read before the connection
// broke stands beside the error of its batch, and counts.
func (e *engine) read(q *request, r *result) (answered bool, err error) {
	text := q.cmd.Val()
	if err = q.cmd.Err(); err != nil && text == "" {
		return false, err
	}
	r.answer, err = parse(text)
	if err == nil && e.lanes.reuse && q.values[0] == "evalsha" {
		q.recycle()
	}
	return true, err
}

// get returns a request of s for e's client.
func (e *engine) get(s *script) *request {
	if e.lanes.reuse {
		return s.get()
	}
	return s.fresh()
}

const (
	keyFence  = "}:fence"
	keyQueue  = "}:q"
	keyWaiter = "}:w"
	keyTomb   = "}:x:"
)

func (e *engine) putKeys(q *request, name, owner string) {
	const open = "lock:{"
	for i := range q.script.keys {
		switch i {
		case 0:
			q.put(e.prefix, open, name, "}")
		case 1:
			q.put(e.prefix, open, name, keyFence)
		case 2:
			q.put(e.prefix, open, name, keyQueue)
		case 3:
			q.put(e.prefix, open, name, keyWaiter)
		case 4:
			q.put(e.prefix, open, name, keyTomb, owner)
		}
	}
}

func (e *engine) acquireRequest(r guard.Request) *request {
	s, grace := acquireScript, e.graceSeconds(r)
	if r.Floor != 0 || r.Propose != 0 || grace != 0 {
		s = acquireWithScript
	}
	q := e.get(s)
	e.putKeys(q, r.Name, r.Owner)
	q.put("-", r.Owner, "|")
	q.putInt(r.TTL.Milliseconds())
	q.put(r.Trace, "|", r.Label[:min(len(r.Label), maxLabel)])
	if s == acquireWithScript {
		q.putToken(int64(r.Floor))
		q.putToken(int64(r.Propose))
		q.putToken(grace)
	}
	return q
}

func (e *engine) standRequest(r guard.Request, graceSeconds int64, channel, ticket string) *request {
	q := e.get(standScript)
	e.putKeys(q, r.Name, r.Owner)
	q.put(r.Owner)
	q.putInt(r.TTL.Milliseconds())
	q.put(r.Trace, "|", r.Label[:min(len(r.Label), maxLabel)])
	q.putToken(int64(r.Floor))
	q.putToken(int64(r.Propose))
	q.putToken(graceSeconds)
	q.put(channel)
	q.putInt(liveness.Milliseconds())
	q.putInt(e.claim.Milliseconds())
	q.put(ticket)
	return q
}

func (e *engine) renewRequest(l guard.Lease) *request {
	q := e.get(renewScript)
	e.putKeys(q, l.Name, l.Owner)
	q.put(l.Owner)
	q.putInt(l.TTL.Milliseconds())
	q.putInt(int64(l.Token))
	q.patient = true // renewals come in groups
	return q
}

func (e *engine) leaveRequest(l guard.Lease, late bool) *request {
	q := e.get(leaveScript)
	q.patient = l.Next
	e.putKeys(q, l.Name, l.Owner)
	q.put(l.Owner)
	q.putInt(tombLife.Milliseconds())
	if late {
		q.put("1")
	} else {
		q.put("")
	}
	if l.MinHold > 0 && l.Token != 0 {
		q.putInt(int64(l.Granted)/1000 + l.MinHold.Milliseconds())
	} else {
		q.put("")
	}
	q.putInt(e.claim.Milliseconds())
	q.putInt((liveness - awake).Milliseconds())
	return q
}
