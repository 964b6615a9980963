package guard

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// grant is what a hold keeps of its Lease: the rest it knows anyway. Thousands of
// leases are held at a time, so it is small.
type grant struct {
	owner   string
	since   time.Time
	life    time.Duration // Until less Since
	token   fence.Token   // does not change
	granted fence.Token
	whole   *Lease // the Lease itself, if it tells something else
}

// keep takes the Lease of a grant.
func (h *hold) keep(l *Lease) {
	h.nth, h.most = 0, uint8(min(max(l.HandOffs, 0), TokensPerGrant-1))
	h.nodes = uint8(min(max(l.Nodes, 0), math.MaxUint8))
	h.grant = grant{owner: l.Owner, token: l.Token, granted: l.Granted}
	h.extendTo(l)
}

// extendTo takes a confirmed renewal. It leaves the token, which is read without
// the lock, as the grant had it.
func (h *hold) extendTo(l *Lease) {
	h.waiters = l.Waiters
	g := &h.grant
	g.since, g.life, g.whole = l.Since, l.Until.Sub(l.Since), nil
	if h.lease() != *l {
		g.whole = new(*l)
	}
}

// takeOver gives h the grant of a holder before it.
func (h *hold) takeOver(from *hold) {
	h.grant, h.most, h.nodes, h.waiters, h.nth = from.grant, from.most, from.nodes, from.waiters, from.nth+1
	if h.grant.whole == nil && h.request("") != from.request("") {
		h.grant.whole = new(from.lease())
	}
}

// lease is what the store granted, or confirmed last.
func (h *hold) lease() Lease {
	g := &h.grant
	if g.whole != nil {
		return *g.whole
	}
	return Lease{
		Request: h.request(g.owner), Token: g.token, Granted: g.granted,
		Since: g.since, Until: g.since.Add(g.life), HandOffs: int(h.most), Nodes: int(h.nodes), Waiters: h.waiters,
	}
}

// request is what h asks the store for.
func (h *hold) request(owner string) Request {
	p := &h.class.policy
	return Request{
		Name: h.name, Owner: owner, TTL: p.ttl, MinHold: p.minHold, Queue: h.limit != 0,
		Label: p.label, Trace: h.trace(),
	}
}

// ends is the local end of the lease at a reading of the clock, which stood still
// while the machine slept.
func (h *hold) ends(r reading) instant {
	return instantOf(h.grant.since).add(h.grant.life - r.sleptSince(h.asleep))
}
