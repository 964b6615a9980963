package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const adminLimit = 10 * time.Second

// stats corrects the counters of a server for the commands that read them.
type stats struct {
	mu  sync.Mutex
	own map[string]int64 // by command: ours since the last reset
}

// ResetStats sets the counts of [Server.CommandStats] to zero.
func (s *Server) ResetStats() {
	s.t.Helper()
	if !s.owned("reset the counts of") {
		return
	}
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	if _, err := s.admin("CONFIG", "RESETSTAT"); err != nil {
		s.check(err)
		return
	}
	s.stats.own = map[string]int64{"config|resetstat": 1} // it counts itself
}

// CommandStats returns how often the server executed each command since its
// start or [Server.ResetStats], by lower case name as in "evalsha" or
// "client|setinfo". Commands called by a script count too; those of
// CommandStats and ResetStats do not. To count requests, see [Proxy.Commands].
func (s *Server) CommandStats() map[string]int64 {
	s.t.Helper()
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	text, err := s.admin("INFO", "commandstats")
	if err != nil {
		s.check(err)
		return nil
	}
	counts := make(map[string]int64)
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		s.check(err)
		counts[name] = n
	}
	own := maps.Clone(s.stats.own)
	own["info"]-- // this one is counted from now on
	for name, n := range own {
		if _, ok := counts[name]; !ok {
			name, _, _ = strings.Cut(name, "|") // Redis 6 does not tell subcommands apart
		}
		if counts[name] -= n; counts[name] == 0 {
			delete(counts, name)
		}
	}
	return counts
}

// must sends one command that is not to be counted and returns its reply.
func (s *Server) must(args ...string) string {
	s.t.Helper()
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	text, err := s.admin(args...)
	if err != nil {
		s.t.Fatalf("redistest: server %s: %v", s.Addr(), err)
	}
	return text
}

// await asks until the reply contains text.
func (s *Server) await(text string, args ...string) {
	s.t.Helper()
	reply := ""
	for end := time.Now().Add(joinLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if reply = s.must(args...); strings.Contains(reply, text) {
			return
		}
	}
	s.t.Fatalf("redistest: server %s: no %q within %v in\n%s", s.Addr(), text, joinLimit, reply)
}

// admin sends one command on a connection of its own and nothing else: a client
// library would add a handshake to the counts. s.stats.mu is held.
func (s *Server) admin(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), adminLimit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(adminLimit)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if pass := s.password(); pass != "" {
		if _, err := exchange(conn, r, "AUTH", pass); err != nil {
			return "", err
		}
		s.stats.own["auth"]++
	}
	name := args[0]
	if name == "CLUSTER" {
		name += "|" + args[1]
	}
	s.stats.own[strings.ToLower(name)]++
	return exchange(conn, r, args...)
}

func exchange(conn net.Conn, r *bufio.Reader, args ...string) (string, error) {
	if _, err := conn.Write(request(args...)); err != nil {
		return "", err
	}
	frame, err := readFrame(r)
	if err != nil {
		return "", err
	}
	if frame[0] == '-' {
		return "", fmt.Errorf("%s: %s", args[0], frame[1:])
	}
	if frame[0] == '$' {
		_, body, _ := strings.Cut(string(frame), "\r\n")
		return body, nil
	}
	return string(frame), nil
}

// Keys returns every key that starts with prefix and its remaining time to
// live; -1 means that it never expires. It shows up in [Server.CommandStats].
func (s *Server) Keys(prefix string) map[string]time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminLimit)
	defer cancel()
	c := redis.NewClient(s.Options())
	found := make(map[string]time.Duration)
	scan := c.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		if key := scan.Val(); strings.HasPrefix(key, prefix) {
			ttl, err := c.PTTL(ctx, key).Result()
			s.check(err)
			if ttl != -2 { // expired since SCAN saw it
				found[key] = ttl
			}
		}
	}
	s.check(errors.Join(scan.Err(), c.Close()))
	return found
}
