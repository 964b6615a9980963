package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Between lets fault happen to the links of half of the clients to one server or
// to all, and ends it. happened is false if nothing was on its way.
func (w *World) Between(r *rand.Rand, fault Fault) (did string, happened bool, err error) {
	side, first := r.IntN(2), r.IntN(len(w.sides[0]))
	links := w.sides[side][first : first+1]
	if r.IntN(3) == 0 {
		links = w.sides[side]
	}
	lasts := w.lasts(r)
	did = fmt.Sprintf("%d links of side %d, from server %d, for %v", len(links), side, first, lasts.Round(time.Millisecond))
	if fault == HalfOpen {
		return did, swallow(links, lasts), nil
	}
	for _, l := range links {
		switch fault {
		case Latency:
			l.Delay(between(r, 0, w.TTL/8), between(r, 0, w.TTL/8))
		case Bandwidth:
			l.Throttle(2000 + r.IntN(20_000))
		case Partition:
			l.Stall()
		case Requests:
			l.StallRequests()
		case Replies:
			l.StallReplies()
		case Reset:
			l.Reset()
		case Refuse:
			l.Refuse()
			l.Reset()
		default:
			return did, false, fmt.Errorf("world: %q is no fault of a link", fault)
		}
	}
	if fault != Reset {
		time.Sleep(lasts)
		for _, l := range links {
			l.Pass()
		}
	}
	return did, true, nil
}

// swallow loses the next reply on each link, after which its connection is dead
// without anybody's knowing.
func swallow(links []*redistest.Proxy, within time.Duration) bool {
	var faults []*redistest.Fault
	for _, l := range links {
		faults = append(faults, l.Swallow(redistest.Match{Command: "EVALSHA EVAL"}))
	}
	time.Sleep(within)
	happened := false
	for _, f := range faults {
		f.End()
		happened = happened || f.Count() > 0
	}
	return happened
}

// Heal ends all faults of links, and returns once the servers are in order.
func (w *World) Heal() error {
	for _, side := range w.sides {
		for _, l := range side {
			l.Pass()
		}
	}
	if w.masters == nil {
		return nil
	}
	for i := range w.Servers {
		if err := w.await(i, "CLUSTER", "cluster_state:ok", "INFO"); err != nil {
			return err
		}
	}
	return nil
}
