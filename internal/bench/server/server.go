// Package server starts redis-servers on loopback, reads their counters, and
// stops what it started.
package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/bench/place"
)

const startWithin = 10 * time.Second

// Server is a redis-server process of ours, without persistence.
type Server struct {
	Addr    string
	Started time.Time

	bin string
	cmd *exec.Cmd
	ctl *redis.Client
}

// Start runs bin on a free port. The caller stops it.
func Start(bin string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: l.Addr().String(), bin: bin}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return s, s.Restart()
}

// Restart starts the server again, empty, after Kill.
func (s *Server) Restart() error {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(s.bin, "--port", port, "--bind", host, "--save", "", "--appendonly", "no", "--dir", os.TempDir(),
		"--maxclients", "9000", "--loglevel", "warning")
	s.cmd.SysProcAttr = withParent()
	s.Started = time.Now()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	if err := place.Server(s.cmd.Process.Pid); err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return fmt.Errorf("server: CPUs of %s: %w", s.bin, err)
	}
	s.ctl = redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 2, ReadTimeout: 20 * time.Second})
	for time.Since(s.Started) < startWithin {
		if s.ctl.Ping(context.Background()).Err() == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Kill()
	return fmt.Errorf("server: %s on %s does not answer", s.bin, s.Addr)
}

// Freeze stops the process without ending it; Thaw lets it go on.
func (s *Server) Freeze() error { return s.cmd.Process.Signal(stopSignal) }

// Thaw lets a frozen process go on.
func (s *Server) Thaw() error { return s.cmd.Process.Signal(continueSignal) }

// Kill ends the process at once.
func (s *Server) Kill() {
	_ = s.ctl.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Flush empties the server, which keeps the scripts it knows.
func (s *Server) Flush() { _ = s.ctl.FlushAll(context.Background()).Err() }

// Left counts the locks with name in their keys. Other keys that holdfast keeps
// for a name have a suffix behind the hash tag and are no locks.
func (s *Server) Left(name string) int {
	n := 0
	keys := s.ctl.Scan(context.Background(), 0, "*"+name+"*", 1000).Iterator()
	for keys.Next(context.Background()) {
		if !strings.Contains(keys.Val(), "}:") {
			n++
		}
	}
	return n
}

// Version is what bin says about itself, such as "7.0.15".
func Version(bin string) (string, error) {
	out, err := exec.Command(bin, "--version").Output()
	if err != nil {
		return "", err
	}
	for word := range strings.FieldsSeq(string(out)) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return v, nil
		}
	}
	return strconv.Quote(string(out)), nil
}
