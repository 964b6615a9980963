package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	subscriptionIdle = 10 * time.Second // replaced in tests
	subscribeWithin  = 100 * time.Millisecond
	deniedFor        = 10 * time.Second // how long a refused subscription is not tried again
	pingEvery        = 5 * time.Second
)

// subscription is this process's channel on one node; on Cluster on any node,
// since the bus spreads plain PUBLISH. (SPUBLISH in a script fails on another
// shard, after the lease has moved.)
type subscription struct {
	wakes *wakes
	node  string
	ps    *redis.PubSub

	confirmed atomic.Bool
	settled   chan struct{} // closed once it was confirmed or refused

	// wakes.mu
	users  int
	idle   time.Time   // since when there are none
	timer  *time.Timer // looks whether that is long enough
	denied time.Time
	closed bool
}

// channel returns the channel that grants are to be published on, and "" if
// none can be heard now. The first waiter waits for the subscription, shortly.
func (ws *wakes) channel(ctx context.Context, name string) string {
	node := ws.node(name)
	ws.mu.Lock()
	s := ws.subs[node]
	if s != nil && !s.denied.IsZero() && time.Since(s.denied) > deniedFor {
		s = nil
	}
	if s == nil {
		s = &subscription{wakes: ws, node: node, settled: make(chan struct{})}
		ws.subs[node] = s
		s.ps = ws.client(name).Subscribe(background)
		s.idle, s.timer = time.Now(), time.AfterFunc(subscriptionIdle, s.closeIdle)
		go s.run()
	}
	ws.mu.Unlock()
	if !s.confirmed.Load() {
		t := time.NewTimer(subscribeWithin)
		defer t.Stop()
		select {
		case <-s.settled:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if !s.confirmed.Load() {
		return ""
	}
	return s.name()
}

func (s *subscription) name() string { return s.wakes.engine.prefix + "lock:wake:" + s.wakes.id }

// node tells where a name's messages are published: a Ring's shards do not know
// of each other.
func (ws *wakes) node(name string) string {
	if _, ring := ws.engine.rdb.(*redis.Ring); ring {
		return ws.engine.lanes.node(ws.engine.prefix + "lock:{" + name + "}")
	}
	return ""
}

type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

func (ws *wakes) client(name string) subscriber {
	if ring, ok := ws.engine.rdb.(*redis.Ring); ok {
		if c, err := ring.GetShardClientForKey(ws.engine.prefix + "lock:{" + name + "}"); err == nil {
			return c
		}
	}
	return ws.engine.rdb
}

func (s *subscription) useLocked() { s.users++ }

func (s *subscription) unuseLocked() {
	s.users--
	if s.users == 0 {
		s.idle = time.Now()
	}
}

// closeIdle closes the subscription if nobody has waited for long enough. The
// timer is not touched when waiters come and go.
func (s *subscription) closeIdle() {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	left := subscriptionIdle
	if s.users == 0 {
		left = time.Until(s.idle.Add(subscriptionIdle))
	}
	if left <= 0 {
		s.closeLocked()
	} else if !s.closed {
		s.timer.Reset(left)
	}
}

func (s *subscription) closeLocked() {
	if s.closed {
		return
	}
	s.closed = true
	s.timer.Stop()
	s.confirmed.Store(false)
	if s.wakes.subs[s.node] == s && s.denied.IsZero() {
		delete(s.wakes.subs, s.node)
	}
	go func() { _ = s.ps.Close() }() // ends run; it waits for a connection being set up, which nobody else must
}

// run receives until the subscription is closed or refused.
func (s *subscription) run() {
	pinged := false
	pause := 10 * time.Millisecond
	err := s.ps.Subscribe(background, s.name())
	for {
		var msg any
		if err == nil {
			msg, err = s.ps.ReceiveTimeout(background, pingEvery)
		}
		if err != nil {
			if s.over(err) {
				return
			}
			if isTimeout(err) && !pinged {
				pinged = true
				err = s.ps.Ping(background)
				continue
			}
			// go-redis connects and subscribes again at the next read.
			s.confirmed.Store(false)
			pinged, err = false, nil
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pinged, pause = false, 10*time.Millisecond
		switch m := msg.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" && s.confirm() {
				s.wakes.fireAll(s) // what was published meanwhile is gone
			}
		case *redis.Message:
			s.wakes.deliver(m.Payload)
		}
	}
}

// confirm notes that messages arrive from now on. It tells whether waiters may
// have missed some.
func (s *subscription) confirm() bool {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	if s.closed {
		return false
	}
	s.confirmed.Store(true)
	select {
	case <-s.settled:
		return true
	default:
		close(s.settled)
		return false
	}
}

// over tells whether err ends the subscription: it was closed, or the server
// does not allow it.
func (s *subscription) over(err error) bool {
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	if s.closed {
		return true
	}
	if !isServerError(err) || strings.Contains(err.Error(), "LOADING") {
		return false
	}
	s.denied = time.Now()
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
	s.closeLocked()
	return true
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
