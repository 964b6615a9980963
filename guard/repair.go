package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// repair is what an owner's renewals still have on their way: requests, and new
// copies of the lease.
type repair struct {
	pending  int
	released atomic.Bool // no new copy may stay
}

// renewing counts one more renewal and its requests.
func (q *quorum) renewing(owner string) *repair {
	q.mu.Lock()
	defer q.mu.Unlock()
	rn := q.renewals[owner]
	if rn == nil {
		if q.renewals == nil {
			q.renewals = map[string]*repair{}
		}
		rn = &repair{}
		q.renewals[owner] = rn
	}
	rn.pending += 1 + len(q.nodes)
	return rn
}

// renewed is the end of one of them.
func (q *quorum) renewed(owner string, rn *repair) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if rn.pending--; rn.pending == 0 {
		delete(q.renewals, owner)
	}
}

// released tells the owner's renewals that the lease is given back.
func (q *quorum) released(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if rn := q.renewals[owner]; rn != nil {
		rn.released.Store(true)
	}
}

// Renew extends the lease on a majority. A node that has lost it gets it back,
// once a majority has confirmed it in this round, and does not count in it.
func (q *quorum) Renew(ctx context.Context, l Lease) (Lease, error) {
	if ctx.Err() != nil {
		return Lease{}, context.Cause(ctx)
	}
	rn := q.renewing(l.Owner)
	defer q.renewed(l.Owner, rn)
	sent := time.Now()
	var confirmed atomic.Bool
	wipe := make(chan *node, len(q.nodes))
	b := q.ask(ctx, l.TTL, func(ctx context.Context, n *node) reply {
		defer q.renewed(l.Owner, rn)
		_, err := n.renew(ctx, l)
		if isLost(err) {
			wipe <- n
			if confirmed.Load() { // after the majority: nobody else will look
				q.replant(l, rn, wipe)
			}
		}
		return reply{lease: l, err: err}
	})
	var v votes
	why := b.collect(ctx, func(a reply) bool {
		v.add(a)
		return len(v.leases) >= q.need || len(v.leases)+len(q.nodes)-v.answers < q.need
	})
	if why != nil {
		b.cancel()
		return Lease{}, why
	}
	if len(v.leases) < q.need {
		return Lease{}, v.failure(l, len(q.nodes), q.need)
	}
	confirmed.Store(true)
	q.replant(l, rn, wipe)
	renewed := l // slower nodes are still being asked about l
	renewed.Since, renewed.Until = sent, Until(sent, l.TTL)
	return renewed, nil
}

// replant gives nodes that lost the lease a new copy, in the background. It is an
// Acquire, so a node in its restart grace refuses it, which makes it safe: what a
// rival was granted there before it was wiped is over when grace ends. The token
// such a node returns is of no interest.
func (q *quorum) replant(l Lease, rn *repair, nodes <-chan *node) {
	for {
		select {
		case n := <-nodes:
			r := l.Request
			r.Queue, r.Floor, r.Propose = false, l.Token, 0
			r.Grace = max(r.Grace, max(r.TTL, r.MinHold)+2*time.Second)
			q.mu.Lock()
			rn.pending++
			q.mu.Unlock()
			go func() {
				defer q.renewed(l.Owner, rn)
				q.plant(n, r, &rn.released)
			}()
		default:
			return
		}
	}
}

// plant asks a few times, since a rival that polls has the node now and then.
// When it gives up the next renewal tries again.
func (q *quorum) plant(n *node, r Request, released *atomic.Bool) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), q.limitFor(r.TTL), errNodeLimit)
	defer cancel()
	for range plantings {
		if released.Load() {
			return
		}
		_, err := n.acquire(ctx, r)
		if released.Load() {
			n.clean(Lease{Request: r}) // the release may have come first
			return
		}
		if !errors.Is(err, ErrHeld) {
			return
		}
		time.Sleep(time.Millisecond + rand.N(10*time.Millisecond))
	}
}

const plantings = 8
