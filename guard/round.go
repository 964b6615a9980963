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
	floor fence.Token // highest mark that a refusal reported
	seen  fence.Token // of the holder, in the last refusal by one node alone
	until time.Time   // past what a late release of an earlier round could hit
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

// failed notes that a round of owner's has failed. r.Owner is the round's own.
func (rs *rounds) failed(owner string, r Request, n uint64, v *votes) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	at := rs.roundLocked(owner, r)
	at.n, at.floor = max(at.n, n+1), max(at.floor, v.mark)
	if len(v.held) > 0 {
		rs.contended[r.Name] = time.Now().Add(contendedFor)
	}
}

// refused notes that one node alone was asked and refused.
func (rs *rounds) refused(owner string, r Request, held *HeldError) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	at := rs.roundLocked(owner, r)
	at.floor, at.seen = max(at.floor, held.Mark), held.Token
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

// gate asks one node before all others, the same one in every process that lists
// the nodes in the same order. Who is refused there takes nothing from the one
// who is granted: asked all at once, nodes are split between rivals, and nobody
// gets a majority. A holder that was seen there before proves nothing, since the
// node may have missed its release; then, as without an answer, it is nil and all
// nodes are asked.
func (q *quorum) gate(ctx context.Context, r Request, seen fence.Token) *HeldError {
	for _, n := range q.nodes {
		patience, ok := n.patience()
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeoutCause(ctx, min(patience, q.limitFor(r.TTL)), errNodeLimit)
		defer cancel()
		_, err := n.acquire(ctx, r)
		held, refused := errors.AsType[*HeldError](err)
		if !refused || held.Token == seen && seen != 0 || held.Foreign {
			return nil
		}
		answer := *held
		answer.Wake = nil
		return &answer
	}
	return nil
}
