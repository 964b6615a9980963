package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy is a TCP link to one server whose behaviour a test can change while it
// is in use. It starts in good order; Delay, Throttle, the Stall methods and Refuse
// change it until Pass. Faults in single commands are made by Swallow and its
// relatives and are independent of that. All methods may be called concurrently.
//
// Changes hold for every byte not yet delivered when the method returns,
// whatever connection it is on. CLIENT REPLY must not be used through a proxy.
type Proxy struct {
	t    testing.TB
	addr string
	wg   sync.WaitGroup // the goroutines of all connections, and the listener's

	// delivering is held for reading by every write to a connection, and for
	// writing by a change, so that no byte slips out after the change.
	delivering sync.RWMutex

	mu       sync.Mutex
	target   string
	link     link
	changed  chan struct{} // closed and replaced with every change of link
	listener net.Listener  // nil while refusing
	conns    map[*conn]struct{}
	faults   []*Fault
	accepted int
	commands map[string]int64
	closed   bool
}

// link is how bytes travel, by direction.
type link struct {
	stalled [2]bool
	delay   [2]time.Duration
	rate    int // bytes a second on each connection and way; 0: no limit
}

const (
	toServer = 0
	toClient = 1
)

// NewProxy opens a proxy in front of target, host:port, for the rest of the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		t: t, target: target, changed: make(chan struct{}),
		conns: make(map[*conn]struct{}), commands: make(map[string]int64),
	}
	port, err := onPort(false, func(port int) error {
		p.addr = loopback(port)
		return p.listen()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.close()
		givePort(port)
	})
	return p
}

// Addr returns host:port to connect to instead of the server's; it never changes.
func (p *Proxy) Addr() string { return p.addr }

// Client returns a new client that goes through the proxy, closed at the end
// of t. Each edit may change its options first.
func (p *Proxy) Client(t testing.TB, edit ...func(*redis.Options)) *redis.Client {
	return newClient(t, &redis.Options{Addr: p.addr}, edit)
}

// Through returns a dialer for client options that reaches the servers behind
// proxies through them, also where a Cluster names the servers' own addresses.
// Other addresses are dialed directly.
func Through(proxies ...*Proxy) func(ctx context.Context, network, addr string) (net.Conn, error) {
	by := make(map[string]string)
	for _, p := range proxies {
		by[p.leadsTo()] = p.addr
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if via, ok := by[addr]; ok {
			addr = via
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

// Pass ends Delay, Throttle, the Stall methods and Refuse. What was held back is
// delivered now, in order.
func (p *Proxy) Pass() {
	p.t.Helper()
	p.change(func(l *link) { *l = link{} })
	for end := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		err := p.listen()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			p.t.Errorf("redistest: proxy: %v", err)
			return
		}
	}
}

// Delay lets every request take request longer to arrive, and every reply
// reply longer.
func (p *Proxy) Delay(request, reply time.Duration) {
	p.change(func(l *link) { l.delay = [2]time.Duration{toServer: request, toClient: reply} })
}

// Throttle lets each connection carry that many bytes a second each way.
func (p *Proxy) Throttle(bytes int) {
	p.change(func(l *link) { l.rate = bytes })
}

// Stall turns the link into a black hole: connections are accepted and stay
// open, but no byte arrives on either side, and no end of a connection. As TCP
// would, the proxy keeps what is sent and delivers it after [Proxy.Pass], even
// when the sender has closed its connection by then.
func (p *Proxy) Stall() {
	p.change(func(l *link) { l.stalled = [2]bool{true, true} })
}

// StallRequests is [Proxy.Stall] in one direction: replies and messages of the
// server still arrive.
func (p *Proxy) StallRequests() {
	p.change(func(l *link) { l.stalled[toServer] = true })
}

// StallReplies is [Proxy.Stall] in one direction: the server still receives
// and executes requests.
func (p *Proxy) StallReplies() {
	p.change(func(l *link) { l.stalled[toClient] = true })
}

// Refuse closes the listener: connecting fails, present connections live on.
// [Proxy.Reset] ends those.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // nothing but accept uses it
		p.listener = nil
	}
}

// Reset ends every present connection with a TCP RST. What was held back is lost.
func (p *Proxy) Reset() {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range conns {
		c.abort()
	}
}

// Retarget leads new connections to another server, as a failover would;
// present ones stay. [Proxy.Reset] ends those.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) leadsTo() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Connections returns how many connections were accepted so far, and how many
// of them are open.
func (p *Proxy) Connections() (accepted, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted, len(p.conns)
}

// Commands returns how many requests of each name arrived from clients since
// the start or [Proxy.ResetCommands], by lower case name. What a request does
// inside a script is not seen here; see [Server.CommandStats].
func (p *Proxy) Commands() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// ResetCommands sets the counts of [Proxy.Commands] to zero.
func (p *Proxy) ResetCommands() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.commands)
}

func (p *Proxy) change(f func(*link)) {
	p.delivering.Lock()
	defer p.delivering.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.link)
	close(p.changed)
	p.changed = make(chan struct{})
}

// state tells whether bytes travel, how long a packet of n bytes takes after it
// was sent and after the one before it, and when to ask again.
func (p *Proxy) state(direction, n int) (stalled bool, delay, gap time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link.rate > 0 {
		gap = time.Duration(n) * time.Second / time.Duration(p.link.rate)
	}
	return p.link.stalled[direction], p.link.delay[direction], gap, p.changed
}

// listen accepts connections unless it does already.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("%w: proxy: %w", errPortTaken, err)
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(client.(*net.TCPConn))
		}
	})
	return nil
}

// serve connects client to the server; without one the client is reset.
func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	p.accepted++
	p.mu.Unlock()
	p.wg.Go(func() {
		server, err := net.DialTimeout("tcp", p.leadsTo(), adminLimit)
		if err != nil {
			_ = errors.Join(client.SetLinger(0), client.Close())
			return
		}
		c := newConn(p, client, server.(*net.TCPConn))
		p.mu.Lock()
		p.conns[c] = struct{}{}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			c.abort()
		}
		c.run()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	})
}

// close ends everything the proxy started.
func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.Reset()
	p.wg.Wait()
}
