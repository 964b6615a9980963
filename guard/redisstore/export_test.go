package redisstore

import "time"

// SubscriptionIdle is how long tests wait for a subscription to close; it is
// shortened so that nothing is left when a test looks.
const SubscriptionIdle = time.Second

func init() { subscriptionIdle = SubscriptionIdle }

// Gather keeps requests to a single server back until send, which sends all of
// them in one batch. waiting is how many there are.
func Gather(s *Store) (waiting func() int, send func()) {
	l := s.engine.lanes.single
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying += maxWidth
	waiting = func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.queue)
	}
	send = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flying -= maxWidth
		if len(l.queue) > 0 {
			l.handLocked(load{background, l.takeLocked()})
		}
	}
	return waiting, send
}
