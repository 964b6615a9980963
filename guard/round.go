package guard

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
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
	floor fence.Token           // highest mark that a refusal reported
	seen  map[*node]fence.Token // of the holders, by the nodes that refused the last round
	until time.Time             // past what a late release of an earlier round could hit
}

// rounds remembers rounds that failed.
type rounds struct {
	mu        sync.Mutex
	byOwner   map[string]*round
	contended map[string]time.Time // by name, until when
	sweep     int
}

// last returns an owner's last failed round and whether its name is contended.
func (rs *rounds) last(owner, name string) (last round, contended bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.byOwner) == 0 {
		return last, false
	}
	if r := rs.byOwner[owner]; r != nil {
		last = *r
	}
	return last, time.Now().Before(rs.contended[name])
}

// failed notes that the n-th round of owner's has failed, and was undone.
func (rs *rounds) failed(owner string, r Request, n uint64, v *votes) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	at := rs.roundLocked(owner, r)
	at.n, at.floor = max(at.n, n+1), max(at.floor, v.mark)
	at.seen = v.tokens()
	if len(v.held) > 0 {
		rs.contended[r.Name] = time.Now().Add(contendedFor)
	}
}

// refused notes that a round of owner's ended at the gate, with nothing to undo.
func (rs *rounds) refused(owner string, r Request, v *votes) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	at := rs.roundLocked(owner, r)
	at.floor = max(at.floor, v.mark)
	seen := v.tokens()
	for n, token := range at.seen { // who was not asked is as before
		if _, ok := seen[n]; !ok {
			seen[n] = token
		}
	}
	at.seen = seen
	rs.contended[r.Name] = time.Now().Add(contendedFor)
}

func (rs *rounds) roundLocked(owner string, r Request) *round {
	now := time.Now()
	if len(rs.byOwner) >= rs.sweep {
		for o, at := range rs.byOwner {
			if now.After(at.until) {
				delete(rs.byOwner, o)
			}
		}
		for name, until := range rs.contended {
			if now.After(until) {
				delete(rs.contended, name)
			}
		}
		rs.sweep = 2*len(rs.byOwner) + 64
	}
	if rs.byOwner == nil {
		rs.byOwner, rs.contended = map[string]*round{}, map[string]time.Time{}
	}
	at := rs.byOwner[owner]
	if at == nil {
		at = &round{}
		rs.byOwner[owner] = at
	}
	at.until = now.Add(r.TTL + cleanFor + time.Minute)
	return at
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
// A holder that was not there the last time is proof enough: the name moves. One
// that was may be no more than a trace on a node that missed the release, so as
// many nodes must say so that the others are no majority.
func (q *quorum) gate(ctx context.Context, r Request, last round) (held *HeldError, v votes, unsure []*node) {
	ask := func(n *node) (over bool) {
		patience, ok := n.patience()
		if !ok {
			return false
		}
		ctx, cancel := context.WithTimeoutCause(ctx, min(patience, q.limitFor(r.TTL)), errNodeLimit)
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
		case h.Token != last.seen[n] && !h.Foreign:
			answer := *h
			answer.Wake, held = nil, &answer
		case len(v.held) > len(q.nodes)-q.need:
			held, _ = errors.AsType[*HeldError](v.verdict(r.Name, len(q.nodes), q.need))
		}
		return held != nil || ctx.Err() != nil && !errors.Is(context.Cause(ctx), errNodeLimit)
	}
	for _, before := range []bool{true, false} { // who refused the last round comes first
		for _, n := range q.nodes {
			if _, ok := last.seen[n]; ok == before && ask(n) {
				return held, v, unsure
			}
		}
	}
	return held, v, unsure
}
