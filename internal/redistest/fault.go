package redistest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// faultLimit is how long [Fault.Wait] waits.
const faultLimit = 20 * time.Second

// Match selects requests on a [Proxy], or published messages. The zero Match is
// the next request.
type Match struct {
	// Command is a name in any case, or several separated by spaces, as in
	// "EVAL EVALSHA". "client|setinfo" also looks at the first argument.
	// "message", "pmessage" and "smessage" stand for what the server sends to
	// subscribers. Empty means any request.
	Command string
	// Contains must be a part of one argument, a key or a script's SHA say.
	Contains string
	// Skip lets that many matching requests pass unharmed first.
	Skip int
	// Times is how many requests are affected; 0 means 1, a negative number all.
	Times int
}

func (m Match) fits(name string, args []string) bool {
	if m.Command == "" && isMessage(name) {
		return false
	}
	if m.Command != "" {
		full := name
		if len(args) > 1 {
			full = name + "|" + args[1]
		}
		if !slices.ContainsFunc(strings.Fields(m.Command), func(want string) bool {
			return strings.EqualFold(want, name) || strings.EqualFold(want, full)
		}) {
			return false
		}
	}
	return m.Contains == "" || slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, m.Contains) })
}

type effect int

const (
	swallow effect = iota
	swallowAndCut
	holdRequest
	holdReply
	answer
	cut
)

// Fault is a mishap set up on a [Proxy]. Its methods may be called concurrently.
type Fault struct {
	match  Match
	effect effect
	text   string
	ended  chan struct{} // closed by End

	mu      sync.Mutex
	skip    int
	left    int // negative: no limit
	count   int
	changed chan struct{}
	over    bool
}

// Swallow lets the server execute a request and loses its reply. The
// connection stays open but nothing more arrives at the client on it, as TCP
// never delivers what follows a gap. Requests still go through. Of messages only
// the one is lost, since a server may lose one without its connection.
func (p *Proxy) Swallow(m Match) *Fault { return p.add(m, swallow, "") }

// SwallowAndCut lets the server execute a request, and closes the connection
// instead of passing the reply on.
func (p *Proxy) SwallowAndCut(m Match) *Fault { return p.add(m, swallowAndCut, "") }

// HoldRequest keeps a request, and what follows it on its connection, from the
// server until [Fault.End], even if the client has hung up by then.
func (p *Proxy) HoldRequest(m Match) *Fault { return p.add(m, holdRequest, "") }

// HoldReply lets the server execute a request, and keeps its reply, and what
// follows it on its connection, from the client until [Fault.End].
func (p *Proxy) HoldReply(m Match) *Fault { return p.add(m, holdReply, "") }

// Answer replies with line, "-NOPERM no permission" say, instead of asking the
// server. line is a RESP simple value without line end.
func (p *Proxy) Answer(m Match, line string) *Fault { return p.add(m, answer, line) }

// Cut closes the connection instead of passing the request on, after the
// replies to earlier requests; the client reads EOF.
func (p *Proxy) Cut(m Match) *Fault { return p.add(m, cut, "") }

func (p *Proxy) add(m Match, e effect, text string) *Fault {
	f := &Fault{
		match: m, effect: e, text: text, ended: make(chan struct{}),
		skip: m.Skip, left: m.Times, changed: make(chan struct{}),
	}
	if f.left == 0 {
		f.left = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// meet counts a request and returns the fault that takes it, or nil.
func (p *Proxy) meet(name string, args []string) *Fault {
	p.mu.Lock()
	p.commands[name]++
	p.mu.Unlock()
	return p.fault(name, args)
}

// fault returns the first fault that takes a request or message, or nil.
func (p *Proxy) fault(name string, args []string) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.takes(name, args) {
			return f
		}
	}
	return nil
}

func (f *Fault) takes(name string, args []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || !f.match.fits(name, args) {
		return false
	}
	if f.skip > 0 {
		f.skip--
		return false
	}
	if f.left > 0 {
		f.left--
	}
	return true
}

func (f *Fault) happened() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	close(f.changed)
	f.changed = make(chan struct{})
}

// Count returns how many times the fault has taken effect: a swallowed or held
// reply counts when it has arrived at the proxy, so the server has executed
// the request; all else when the request has.
func (f *Fault) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// Wait returns once the fault has taken effect n times in all. It fails t
// after 20 s.
func (f *Fault) Wait(t testing.TB, n int) {
	t.Helper()
	limit := time.After(faultLimit)
	for {
		f.mu.Lock()
		count, changed := f.count, f.changed
		f.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("redistest: fault %+v happened %d times within %v, want %d", f.match, count, faultLimit, n)
		}
	}
}

// End lets further requests pass and delivers what HoldRequest or HoldReply hold.
func (f *Fault) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over = true
		close(f.ended)
	}
	f.left = 0
}
