package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// conn is one connection through a proxy. Two goroutines read whole requests
// and replies and decide what becomes of them; two others deliver what is
// queued, when the link lets them.
type conn struct {
	proxy *Proxy
	ends  [2]*net.TCPConn // by direction: where it leads to
	out   [2]*queue
	dead  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	pending []*pending // requests in the order of their replies
	raw     bool       // not request and reply any more: bytes pass unread
	resp3   bool
	pubsub  bool // subscribed over RESP2, where messages look like replies
	mute    bool // a reply was lost: like on TCP, nothing after it can arrive
	cut     bool // closed by a fault: requests are read and dropped
}

// packet is something to deliver. No bytes means the end of the stream, which
// waits its turn like everything else.
type packet struct {
	bytes []byte
	reset bool // the end is an RST
	at    time.Time
	until <-chan struct{} // if not nil: not before it is closed
}

func newConn(p *Proxy, client, server *net.TCPConn) *conn {
	return &conn{
		proxy: p,
		ends:  [2]*net.TCPConn{toServer: server, toClient: client},
		out:   [2]*queue{newQueue(), newQueue()},
		dead:  make(chan struct{}),
	}
}

// run returns when the connection is over on both sides.
func (c *conn) run() {
	var readers, writers sync.WaitGroup
	readers.Go(c.readRequests)
	readers.Go(c.readReplies)
	writers.Go(func() { c.deliver(toServer) })
	writers.Go(func() { c.deliver(toClient) })
	readers.Wait()
	if c.is(&c.mute) {
		c.abort() // no end of stream will reach the client's writer
	}
	writers.Wait()
	c.abort()
}

// abort ends both sides with RST.
func (c *conn) abort() {
	c.once.Do(func() {
		close(c.dead)
		for i, end := range c.ends {
			_ = errors.Join(end.SetLinger(0), end.Close()) // it may be gone already
			c.out[i].close()
		}
	})
}

// is reads a flag of c.
func (c *conn) is(flag *bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *flag
}

// send queues p; c.mu is held.
func (c *conn) send(direction int, p packet) {
	if direction == toClient && c.mute {
		return
	}
	p.at = time.Now()
	c.out[direction].push(p)
}

// push is send for callers that do not hold c.mu.
func (c *conn) push(direction int, p packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(direction, p)
}

// ended passes on the end of the stream that was read for direction.
func (c *conn) ended(direction int, err error) {
	orderly := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	c.push(direction, packet{reset: !orderly})
}

// copyRaw passes bytes unread once they are not request and reply.
func (c *conn) copyRaw(direction int, r *bufio.Reader) {
	for {
		buf := make([]byte, 16<<10)
		n, err := r.Read(buf)
		if n > 0 {
			c.push(direction, packet{bytes: buf[:n]})
		}
		if err != nil {
			c.ended(direction, err)
			return
		}
	}
}

// deliver writes what is queued until the end of the stream.
func (c *conn) deliver(direction int) {
	var last time.Time // when something was delivered
	for {
		p, ok := c.out[direction].pop()
		if !ok {
			return
		}
		last = later(last, p.at)
		if p.until != nil {
			select {
			case <-p.until:
			case <-c.dead:
				return
			}
		}
		if !c.write(direction, p, last) {
			return
		}
		last = time.Now()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// write waits until the link lets p pass and writes it; the link was free since
// last. It returns false when nothing follows.
func (c *conn) write(direction int, p packet, last time.Time) bool {
	for {
		c.proxy.delivering.RLock()
		stalled, delay, gap, changed := c.proxy.state(direction, len(p.bytes))
		wait := time.Until(later(p.at.Add(delay), last.Add(gap)))
		if !stalled && wait <= 0 {
			more := c.put(direction, p)
			c.proxy.delivering.RUnlock()
			return more
		}
		c.proxy.delivering.RUnlock()
		var timer <-chan time.Time
		if !stalled {
			timer = time.After(wait)
		}
		select {
		case <-timer:
		case <-changed:
		case <-c.dead:
			return false
		}
	}
}

func (c *conn) put(direction int, p packet) bool {
	if p.reset {
		c.abort()
		return false
	}
	if len(p.bytes) == 0 {
		_ = c.ends[direction].CloseWrite() // the other side may be gone already
		return false
	}
	if _, err := c.ends[direction].Write(p.bytes); err != nil {
		c.push(1-direction, packet{reset: true}) // the sender learns it as slowly as anything else
		return false
	}
	return true
}

// queue is an unbounded first-in first-out list: a stalled link must not stop
// the reading side, or a sender would notice.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond
	list   []packet
	closed bool
}

func newQueue() *queue {
	q := new(queue)
	q.filled.L = &q.mu
	return q
}

func (q *queue) push(p packet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, p)
	q.filled.Signal()
}

func (q *queue) pop() (packet, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.filled.Wait()
	}
	if q.closed {
		return packet{}, false
	}
	p := q.list[0]
	q.list = q.list[1:]
	return p, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}
