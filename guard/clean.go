package guard

import (
	"context"
	"time"
)

const (
	cleanFor  = 5 * time.Minute // how long a node is asked to give up what it may still grant
	cleanMost = 10_000          // leases in its list
)

// dirty is a lease that a node may have granted, or may grant yet.
type dirty struct {
	lease Lease
	until time.Time
}

// clean releases l at the node in the background until it is confirmed: a grant
// on its way to a node that hangs must not outlive the node's sleep.
func (n *node) clean(l Lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.unasked[l.Owner]; ok {
		delete(n.unasked, l.Owner)
		return
	}
	if len(n.dirty) >= cleanMost {
		n.dirty = n.dirty[1:] // it ends by itself
	}
	n.dirty = append(n.dirty, dirty{l, time.Now().Add(cleanFor)})
	if !n.cleaning {
		n.cleaning = true
		go n.sweep()
	}
}

// abandoned is l for a release that is to refuse also what still comes. A minimum
// hold needs the token.
func abandoned(l Lease) Lease {
	if l.MinHold == 0 {
		l.Token = 0
	}
	return l
}

func (n *node) sweep() {
	pause := 10 * time.Millisecond
	for {
		n.mu.Lock()
		if len(n.dirty) == 0 {
			n.cleaning, n.dirty = false, nil
			n.mu.Unlock()
			return
		}
		next := n.dirty[0]
		n.mu.Unlock()

		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errNodeLimit)
		err := n.Locker.Release(ctx, abandoned(next.lease))
		cancel()
		if err == nil || isLost(err) || permanent(err) || time.Now().After(next.until) {
			pause = 10 * time.Millisecond
			n.mu.Lock()
			n.answeredLocked()
			if len(n.dirty) > 0 && n.dirty[0] == next {
				n.dirty = n.dirty[1:]
			}
			n.mu.Unlock()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Second)
	}
}
