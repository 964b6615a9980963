package server

import (
	"net"
	"sync/atomic"
)

// Proxy is a link to a server that counts. A client that runs on one goroutine
// writes once for each round trip.
type Proxy struct {
	listener net.Listener
	target   string
	writes   atomic.Int64
	sent     atomic.Int64 // bytes to the server
	received atomic.Int64
}

// NewProxy opens a link to the server at target.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target}
	go p.accept()
	return p, nil
}

// Addr is what a client connects to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close takes no new connections; open ones end with their client.
func (p *Proxy) Close() { _ = p.listener.Close() }

// Counts are writes of clients, and bytes sent and received by them, so far.
func (p *Proxy) Counts() (writes, sent, received float64) {
	return float64(p.writes.Load()), float64(p.sent.Load()), float64(p.received.Load())
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		go forward(client, upstream, &p.writes, &p.sent)
		go forward(upstream, client, new(atomic.Int64), &p.received)
	}
}

func forward(from, to net.Conn, writes, bytes *atomic.Int64) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			writes.Add(1)
			bytes.Add(int64(n))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
