package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// QuorumOption configures a [Quorum].
type QuorumOption interface{ quorumOption() }

type quorumOption func(*quorum) error

func (quorumOption) quorumOption() {}

// NodeLimit is how long a node may take to answer; it matters only while no
// majority has answered. 1 ms to 1 min; default a quarter of the TTL, at most 1 s.
func NodeLimit(d time.Duration) QuorumOption {
	return quorumOption(func(q *quorum) error {
		if d < time.Millisecond || d > time.Minute {
			return rangeError("NodeLimit", d, "1ms to 1m")
		}
		q.limit = d
		return nil
	})
}

// Quorum makes one Locker of independent nodes: Redlock, with fencing tokens. An
// odd number of nodes, 3 or more, is needed; it returns [ErrInvalid] otherwise.
//
// A lease stands while a majority of the nodes has it. All nodes are asked at
// once, and the answer is there as soon as a majority decides, so a minority that
// is frozen or gone costs nothing. What it may still grant is undone: no lease is
// left behind. A node that was restarted empty gets a lease back while the
// majority stands.
//
// Mutual exclusion needs clocks that run at about the same rate, and nodes that
// grant nothing for a while after they were restarted without their data:
// Request.Grace, which Quorum switches on. A clock that steps back does no harm to
// that; one that steps forward ends the leases on its node, so others that hold
// them must be a majority. Tokens rise strictly whatever clocks and messages do,
// as long as no majority loses its data at once; see the proof in internal/model.
//
// Waiters poll, paced by [Backoff]: nodes would queue them in different orders.
// The line and the hand-off inside a process work as ever.
//
// Source: Redlock, https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/;
// tokens by an owner-checked majority register after Attiya, Bar-Noy and Dolev
// (1995).
func Quorum(nodes []Locker, opts ...QuorumOption) (Locker, error) {
	if len(nodes) < 3 || len(nodes)%2 == 0 {
		return nil, invalid("Quorum of %d nodes: want an odd number, 3 or more", len(nodes))
	}
	q := &quorum{need: len(nodes)/2 + 1}
	for i, n := range nodes {
		if n == nil {
			return nil, invalid("Quorum: node %d is nil", i+1)
		}
		q.nodes = append(q.nodes, &node{Locker: n, number: i + 1})
	}
	for _, o := range opts {
		set, ok := o.(quorumOption)
		if !ok {
			return nil, invalid("Quorum: option is nil")
		}
		if err := set(q); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// quorum is one Locker of several.
type quorum struct {
	nodes  []*node
	need   int
	limit  time.Duration
	rounds rounds

	mu       sync.Mutex
	renewals map[string]*repair // by owner
}

// Acquire runs one round.
func (q *quorum) Acquire(ctx context.Context, r Request) (Lease, error) {
	if ctx.Err() != nil {
		return Lease{}, context.Cause(ctx)
	}
	if r.Name == "" || r.Owner == "" || r.TTL < time.Millisecond {
		return Lease{}, invalid("a request needs a name, an owner and a TTL")
	}
	asked := r
	last, rivals := q.rounds.last(r.Owner, r.Name)
	r.Owner, r.Queue = ownerOf(r.Owner, last.n), false
	r.Grace = max(r.Grace, max(r.TTL, r.MinHold)+2*time.Second)
	sent := time.Now()
	r.Propose = max(r.Propose, q.proposal(sent), last.floor+TokensPerGrant)
	if rivals != nil {
		held, v, unsure := q.gate(ctx, r, rivals, asked.Queue)
		switch {
		case held != nil && unsure == nil:
			q.rounds.refused(asked.Owner, r, &v)
			return Lease{}, held
		case held != nil:
			q.rounds.failed(asked.Owner, r, last.n, &v)
			for _, n := range unsure {
				n.clean(Lease{Request: r})
			}
			return Lease{}, held
		}
	}
	var v votes
	token, why := q.poll(ctx, r, &v)
	until := Until(sent, r.TTL)
	if why == nil && !time.Now().Before(until) {
		why = invalidRound(r, time.Since(sent))
	}
	if why != nil {
		q.rounds.failed(asked.Owner, r, last.n, &v)
		q.undo(r, &v)
		return Lease{}, why
	}
	return Lease{
		Request: Request{Name: r.Name, Owner: r.Owner, TTL: r.TTL, Queue: asked.Queue, Floor: asked.Floor, Propose: asked.Propose,
			MinHold: r.MinHold, Once: r.Once, Grace: asked.Grace, Label: r.Label, Trace: r.Trace},
		Token: token, Granted: v.granted, Since: sent, Until: until, HandOffs: v.handOffs, Nodes: min(len(q.nodes), math.MaxUint8),
	}, nil
}

// poll asks all nodes and returns the token on which a majority agrees.
func (q *quorum) poll(ctx context.Context, r Request, v *votes) (fence.Token, error) {
	var agreed atomic.Int64
	grants := make(chan reply, len(q.nodes))
	for _, n := range q.nodes {
		n.expect(r.Owner)
	}
	b := q.ask(ctx, r.TTL, func(ctx context.Context, n *node) reply {
		defer n.arrived(r.Owner)
		l, err := n.acquire(ctx, r)
		if _, silent := errors.AsType[*silentError](err); silent {
			n.skip(r.Owner)
		}
		if err == nil {
			grants <- reply{node: n, lease: l}
			if t := agreed.Load(); t != 0 {
				q.align(grants, fence.Token(t), nil)
			}
		}
		return reply{lease: l, err: err}
	})
	why := b.collect(ctx, func(a reply) bool {
		v.add(a)
		token, granted := v.leading()
		pending := len(q.nodes) - v.answers
		best := token.votes + pending // no other value can still win more
		return token.votes >= q.need || (granted+pending < q.need && v.clear(len(q.nodes), q.need)) || (best < q.need && granted >= q.need)
	})
	token, granted := v.leading()
	switch {
	case why != nil:
	case token.votes >= q.need:
	case granted >= q.need:
		token.value, why = q.writeBack(ctx, r, v)
		if why == nil {
			q.align(grants, token.value, v.leases)
			agreed.Store(int64(token.value))
			q.align(grants, token.value, nil)
		}
	default:
		why = v.verdict(r.Name, len(q.nodes), q.need)
	}
	if why != nil {
		b.cancel()
	}
	return token.value, why
}

// align raises grants that came too late to count to the token of the majority,
// in the background, so that all nodes tell the same of the holder.
func (q *quorum) align(grants <-chan reply, token fence.Token, counted []reply) {
	for {
		select {
		case a := <-grants:
			if a.lease.Token < token && !slices.ContainsFunc(counted, func(c reply) bool { return c.node == a.node }) {
				go func() {
					ctx, cancel := context.WithTimeoutCause(context.Background(), q.limitFor(a.lease.TTL), errNodeLimit)
					defer cancel()
					a.lease.Token = token
					_, _ = a.node.renew(ctx, a.lease)
				}()
			}
		default:
			return
		}
	}
}

// writeBack makes the highest token that was returned the one of a majority. It
// goes only to nodes whose grant was seen, and they check the owner: a grant that
// was not seen may have been made after another owner's.
func (q *quorum) writeBack(ctx context.Context, r Request, v *votes) (fence.Token, error) {
	var highest fence.Token
	for _, a := range v.leases {
		highest = max(highest, a.lease.Token)
	}
	b := q.askSome(ctx, r.TTL, v.leases, func(ctx context.Context, n *node, l Lease) reply {
		l.Token = highest
		stored, err := n.renew(ctx, l)
		if err == nil && stored.Token != highest { // another grant of this owner: a copy of the request came late
			err = fmt.Errorf("%w: it has token %d", errOtherGrant, stored.Token)
		}
		return reply{lease: l, err: err}
	})
	var stored votes
	why := b.collect(ctx, func(a reply) bool {
		stored.add(a)
		return len(stored.leases) >= q.need || len(stored.leases)+len(v.leases)-stored.answers < q.need
	})
	if why == nil && len(stored.leases) < q.need {
		why = stored.failure(Lease{Request: r}, len(q.nodes), q.need)
	}
	return highest, why
}

// errOtherGrant keeps a node from counting for a token that it does not have. A
// second copy of a request may have been granted there, higher, after the first
// grant had ended.
var errOtherGrant = errors.New("guard: the node made another grant")

// proposal is a token ahead of every node's clock when it decides, so that all of
// them return it.
func (q *quorum) proposal(now time.Time) fence.Token {
	var ahead time.Duration
	for _, n := range q.nodes {
		ahead = max(ahead, time.Duration(n.ahead.Load()))
	}
	return fence.Token(now.Add(ahead + proposalSlack).UnixMicro())
}

// proposalSlack covers what a request may take to a node more often than not.
const proposalSlack = 5 * time.Millisecond

// undo takes back what a failed round may have been granted, or may still be. A
// node that said it is held has granted nothing.
func (q *quorum) undo(r Request, v *votes) {
	for _, n := range q.nodes {
		if !slices.Contains(v.refused, n) {
			n.clean(Lease{Request: r})
		}
	}
}

// Release ends the lease everywhere and returns once a majority has confirmed.
// The other nodes are seen to in the background.
func (q *quorum) Release(ctx context.Context, l Lease) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q.released(l.Owner)
	if l.Token == 0 { // abandoned: of the owner's rounds only the last is not undone yet
		last, _ := q.rounds.last(l.Owner, l.Name)
		l.Owner = ownerOf(l.Owner, last.n)
	}
	b := q.ask(ctx, l.TTL, func(ctx context.Context, n *node) reply {
		l := l
		if !n.landed(ctx, l.Owner) {
			l = abandoned(l)
		}
		err := n.release(ctx, l)
		if err != nil && !isLost(err) {
			n.clean(l)
		}
		return reply{lease: l, err: err}
	})
	var v votes
	why := b.collect(ctx, func(a reply) bool {
		v.add(a)
		return len(v.leases) >= q.need || len(v.leases)+len(q.nodes)-v.answers < q.need
	})
	if why != nil || len(v.leases) >= q.need {
		return why
	}
	return v.failure(l, len(q.nodes), q.need)
}

func (q *quorum) limitFor(ttl time.Duration) time.Duration {
	if q.limit > 0 {
		return q.limit
	}
	return min(ttl/4, time.Second)
}
