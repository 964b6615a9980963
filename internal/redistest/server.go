package redistest

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server process on a loopback port. Its methods report
// trouble to the test it was started for and may be called concurrently, from
// any goroutine.
type Server struct {
	t      testing.TB
	p      *process
	shared bool
	stats  *stats
}

// Start runs a server for the rest of the test, with nothing persisted. args
// are further redis-server arguments, such as "--appendonly", "yes".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return Nodes(t, 1, args...)[0]
}

// Nodes starts n servers that know nothing of each other.
func Nodes(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	return startAll(t, n, setup{args: args})
}

// startAll starts n servers like the one given at the same time, since each
// spends most of its start waiting.
func startAll(t testing.TB, n int, like setup) []*Server {
	t.Helper()
	binary := Binary(t)
	type result struct {
		p   *process
		err error
	}
	results := make(chan result, n)
	for range n {
		go func() {
			p, err := launch(binary, like)
			results <- result{p, err}
		}()
	}
	var servers []*Server
	var failed error
	for range n {
		r := <-results
		if r.err != nil {
			failed = r.err
			continue
		}
		servers = append(servers, &Server{t: t, p: r.p, stats: &stats{own: make(map[string]int64)}})
		t.Cleanup(func() {
			if err := r.p.end(); err != nil {
				t.Errorf("redistest: %v", err)
			}
		})
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return servers
}

// Addr returns host:port of the server; it stays the same over a restart.
func (s *Server) Addr() string { return loopback(s.p.port) }

// Port returns the port of Addr.
func (s *Server) Port() int { return s.p.port }

// Options returns new client options for the server: address, and the password
// when it was started with --requirepass. All else is go-redis' default.
func (s *Server) Options() *redis.Options {
	return &redis.Options{Addr: s.Addr(), Password: s.password()}
}

func (s *Server) password() string {
	if i := slices.Index(s.p.args, "--requirepass"); i >= 0 && i+1 < len(s.p.args) {
		return s.p.args[i+1]
	}
	return ""
}

// Client returns a new client of the server, closed at the end of t. Each edit
// may change its options first.
func (s *Server) Client(t testing.TB, edit ...func(*redis.Options)) *redis.Client {
	return newClient(t, s.Options(), edit)
}

func newClient(t testing.TB, o *redis.Options, edit []func(*redis.Options)) *redis.Client {
	for _, f := range edit {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// Stop ends the server in good order (SIGTERM), so it persists what it was told to.
func (s *Server) Stop() {
	s.t.Helper()
	if s.owned("stop") {
		s.check(s.p.stop())
	}
}

// Kill ends the server at once (SIGKILL).
func (s *Server) Kill() {
	s.t.Helper()
	if s.owned("kill") {
		s.p.kill()
	}
}

// Restart stops the server if it runs and starts it on its old port: empty,
// unless its arguments ask for persistence. Not before Restart returns are
// connections accepted.
func (s *Server) Restart() {
	s.t.Helper()
	if s.owned("restart") {
		s.check(s.p.restart())
	}
}

// Freeze stops the server in its tracks (SIGSTOP). Connections stay open and
// new ones are still accepted by the kernel, but nothing is answered before
// [Server.Thaw]. The server executes no command after Freeze has returned.
func (s *Server) Freeze() {
	s.t.Helper()
	if s.owned("freeze") {
		s.check(s.p.setFrozen(true))
	}
}

// Thaw undoes [Server.Freeze] (SIGCONT).
func (s *Server) Thaw() {
	s.t.Helper()
	if s.owned("thaw") {
		s.check(s.p.setFrozen(false))
	}
}

// owned refuses what would break other tests on a shared server.
func (s *Server) owned(verb string) bool {
	s.t.Helper()
	if s.shared {
		s.t.Errorf("redistest: cannot %s the shared server, use Start", verb)
	}
	return !s.shared
}

func (s *Server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("redistest: server %s: %v", s.Addr(), err)
	}
}
