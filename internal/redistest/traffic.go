package redistest

import (
	"bufio"
	"bytes"
	"strings"
)

// pending is a request whose reply is still to come.
type pending struct {
	name    string
	replies int    // more than one for SUBSCRIBE a b
	fault   *Fault // nil: nothing happens to it
}

// readRequests passes requests on to the server.
func (c *conn) readRequests() {
	r := bufio.NewReaderSize(c.ends[toClient], 16<<10)
	for {
		raw, args, err := readCommand(r)
		if err != nil {
			c.ended(toServer, err)
			return
		}
		if len(args) == 0 { // an empty line gets no reply
			c.push(toServer, packet{bytes: raw})
			continue
		}
		c.request(raw, args)
		if c.is(&c.raw) {
			c.copyRaw(toServer, r)
			return
		}
	}
}

// request counts one request and lets it meet its fault, if there is one.
func (c *conn) request(raw []byte, args []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return
	}
	name := strings.ToLower(args[0])
	fault := c.proxy.meet(name, args)
	if name == "psync" || name == "sync" {
		c.raw = true
	}
	c.pending = append(c.pending, &pending{name: name, replies: replies(name, args), fault: fault})
	switch {
	case fault == nil:
		c.send(toServer, packet{bytes: raw})
	case fault.effect == answer:
		c.settle()
	case fault.effect == cut:
		c.cut = true
		c.settle()
	case fault.effect == holdRequest:
		c.send(toServer, packet{bytes: raw, until: fault.ended})
		fault.happened()
	default:
		c.send(toServer, packet{bytes: raw})
	}
}

// replies returns how many replies a request gets.
func replies(name string, args []string) int {
	if subscribes(name) {
		return max(1, len(args)-1)
	}
	return 1
}

func subscribes(name string) bool {
	switch name {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return true
	}
	return false
}

// readReplies passes replies on to the client.
func (c *conn) readReplies() {
	r := bufio.NewReaderSize(c.ends[toServer], 16<<10)
	for {
		if c.is(&c.raw) {
			c.copyRaw(toClient, r)
			return
		}
		frame, err := readFrame(r)
		if err != nil {
			c.ended(toClient, err)
			return
		}
		c.reply(frame)
	}
}

// reply passes one reply or message on.
func (c *conn) reply(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.raw:
		c.send(toClient, packet{bytes: frame})
		return
	case !c.isReply(frame):
		c.message(frame)
		return
	case len(c.pending) == 0: // such as "max number of clients reached"
		c.send(toClient, packet{bytes: frame})
		return
	}
	head := c.pending[0]
	if head.name == "hello" && frame[0] != '-' {
		c.resp3 = frame[0] == '%'
	}
	if head.replies--; head.replies == 0 || frame[0] == '-' {
		c.pending = c.pending[1:]
	}
	switch {
	case head.fault == nil:
		c.send(toClient, packet{bytes: frame})
	case head.fault.effect == swallow:
		c.mute = true
		head.fault.happened()
	case head.fault.effect == swallowAndCut:
		c.hangUp()
		head.fault.happened()
	case head.fault.effect == holdReply:
		c.send(toClient, packet{bytes: frame, until: head.fault.ended})
		head.fault.happened()
	default:
		c.send(toClient, packet{bytes: frame})
	}
	c.settle()
}

// message passes on what the server sends unasked, or lets it meet its fault.
func (c *conn) message(frame []byte) {
	var fault *Fault
	if what := kind(frame); isMessage(what) {
		fault = c.proxy.fault(what, elements(frame))
	}
	p := packet{bytes: frame}
	switch {
	case fault == nil:
		c.send(toClient, p)
		return
	case fault.effect == swallow:
	case fault.effect == holdReply:
		p.until = fault.ended
		c.send(toClient, p)
	case fault.effect == swallowAndCut:
		c.hangUp()
	default:
		c.proxy.t.Errorf("redistest: this fault cannot happen to a message: %+v", fault.match)
		c.send(toClient, p)
	}
	fault.happened()
}

// hangUp ends the connection for the client, after what it was sent before.
func (c *conn) hangUp() {
	c.cut = true
	c.send(toClient, packet{})
	c.send(toServer, packet{})
	c.mute = true
}

// isReply tells a reply from what the server sends unasked.
func (c *conn) isReply(frame []byte) bool {
	what := kind(frame)
	confirms := subscribes(what)
	waiting := len(c.pending) > 0 && subscribes(c.pending[0].name)
	switch {
	case frame[0] == '>':
		return confirms && waiting
	case c.resp3:
		return true
	case confirms && waiting:
		c.pubsub = true
		return true
	case c.pubsub:
		return !confirms && !isMessage(what)
	}
	return true
}

func isMessage(what string) bool {
	return what == "message" || what == "pmessage" || what == "smessage"
}

// kind returns the first element of an array or push, as in "message".
func kind(frame []byte) string {
	if frame[0] != '*' && frame[0] != '>' {
		return ""
	}
	parts := bytes.SplitN(frame, []byte("\r\n"), 4)
	if len(parts) < 4 {
		return ""
	}
	return string(parts[2])
}

// settle acts on requests at the head that the server never saw.
func (c *conn) settle() {
	for len(c.pending) > 0 {
		fault := c.pending[0].fault
		switch {
		case fault == nil:
			return
		case fault.effect == answer:
			c.send(toClient, packet{bytes: []byte(fault.text + "\r\n")})
			fault.happened()
		case fault.effect == cut:
			c.hangUp()
			fault.happened()
		default:
			return
		}
		c.pending = c.pending[1:]
	}
}
