package guard

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// contendedFor is how long a name counts as contended after a refusal.
const contendedFor = time.Second

// round is what is kept of an owner whose last round failed. Its grants were
// released, which retires the owner at the nodes, so each round has its own.
type round struct {
	n     uint64
	floor fence.Token // highest mark that a refusal reported
	until time.Time   // past what a late release of an earlier round could hit
}

// rivalry is what is kept of a name that others held a moment ago.
type rivalry struct {
	seen  map[*node]fence.Token // the holder's, by the node that told
	free  []*node               // that granted it in the last round, in vain
	until time.Time
}

// rounds remembers rounds that failed.
type rounds struct {
	mu      sync.Mutex
	byOwner map[string]*round
	byName  map[string]*rivalry
	sweep   int
}

// last returns an owner's last failed round, and who fights for the name; nil if
// nobody does.
func (rs *rounds) last(owner, name string) (last round, rivals *rivalry) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.byOwner) == 0 {
		return last, nil
	}
	if r := rs.byOwner[owner]; r != nil {
		last = *r
	}
	if rivals = rs.byName[name]; rivals != nil && time.Now().After(rivals.until) {
		rivals = nil
	}
	return last, rivals
}

// failed notes that the n-th round of owner's has failed, and was undone.
func (rs *rounds) failed(owner string, r Request, n uint64, v *votes) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	at := rs.roundLocked(owner, r)
	at.n = max(at.n, n+1)
	rs.heldLocked(at, r.Name, v)
}

// refused notes that a round of owner's ended at the gate, with nothing to undo.
func (rs *rounds) refused(owner string, r Request, v *votes) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.heldLocked(rs.roundLocked(owner, r), r.Name, v)
}

func (rs *rounds) heldLocked(at *round, name string, v *votes) {
	at.floor = max(at.floor, v.mark)
	if len(v.held) == 0 {
		return
	}
	next := &rivalry{seen: make(map[*node]fence.Token, len(v.held)), until: time.Now().Add(contendedFor)}
	if old := rs.byName[name]; old != nil { // who was not asked is as before
		maps.Copy(next.seen, old.seen)
		next.free = old.free
	}
	for i, n := range v.refused {
		next.seen[n] = v.held[i].Token
	}
	if len(v.leases) > 0 {
		next.free = nil
		for _, a := range v.leases {
			next.free = append(next.free, a.node)
		}
	}
	rs.byName[name] = next
}

func (rs *rounds) roundLocked(owner string, r Request) *round {
	now := time.Now()
	if len(rs.byOwner) >= rs.sweep {
		maps.DeleteFunc(rs.byOwner, func(_ string, at *round) bool { return now.After(at.until) })
		maps.DeleteFunc(rs.byName, func(_ string, at *rivalry) bool { return now.After(at.until) })
		rs.sweep = 2*len(rs.byOwner) + 64
	}
	if rs.byOwner == nil {
		rs.byOwner, rs.byName = map[string]*round{}, map[string]*rivalry{}
	}
	at := rs.byOwner[owner]
	if at == nil {
		at = &round{}
		rs.byOwner[owner] = at
	}
	at.until = now.Add(r.TTL + cleanFor + time.Minute)
	return at
}

// before is the token that n told the last time; token if it was not asked.
func (r *rivalry) before(n *node, token fence.Token) fence.Token {
	if seen, ok := r.seen[n]; ok {
		return seen
	}
	return token
}

// ownerOf is the owner of an asker's n-th round: the asker's own first, then 128
// bits that only somebody who knows it can tell.
func ownerOf(owner string, n uint64) string {
	if n == 0 {
		return owner
	}
	sum := sha256.Sum256([]byte(owner + "#" + strconv.FormatUint(n, 10)))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// gate asks for a contended name, one node after the other, and returns the
// refusal; nil if one has granted it, and all the others are to be asked. Asked
// at once, nodes are split between rivals and nobody gets a majority; in a row,
// who is refused takes nothing from the one who was granted. The order is the same
// in every process that lists the nodes in the same order. unsure are nodes that
// may have granted it.
//
// For who asks again, a holder that was not there the last time is proof enough:
// the name moves. One that was may be no more than a trace on a node that missed
// the release, so as many nodes must say so that the others are no majority. Who
// does not wait is refused by that rule alone: it has no second try, and a release
// returns while a node has yet to hear of it.
func (q *quorum) gate(ctx context.Context, r Request, rivals *rivalry, waits bool) (held *HeldError, v votes, unsure []*node) {
	ask := func(n *node) (over bool) {
		patience, ok := n.patience()
		if !ok {
			return false
		}
		why := errPatience
		if limit := q.limitFor(r.TTL); limit <= patience {
			patience, why = limit, errNodeLimit
		}
		ctx, cancel := context.WithTimeoutCause(ctx, patience, why)
		defer cancel()
		l, err := n.acquire(ctx, r)
		v.add(reply{n, l, err})
		h, refused := errors.AsType[*HeldError](err)
		switch {
		case err == nil:
			return true
		case !refused:
			if _, silent := errors.AsType[*silentError](err); !silent {
				unsure = append(unsure, n)
			}
		case waits && h.Token != rivals.before(n, h.Token) && !h.Foreign:
			answer := *h
			answer.Wake, held = nil, &answer
		case len(v.held) > len(q.nodes)-q.need:
			held, _ = errors.AsType[*HeldError](v.verdict(r.Name, len(q.nodes), q.need))
		}
		return held != nil || ctx.Err() != nil && !errors.Is(context.Cause(ctx), why)
	}
	for _, free := range []bool{false, true} {
		for _, n := range q.nodes {
			if slices.Contains(rivals.free, n) == free && ask(n) {
				return held, v, unsure
			}
		}
	}
	return held, v, unsure
}
