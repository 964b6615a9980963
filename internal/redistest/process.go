package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 15 * time.Second
)

// process is one redis-server: its fixed port, directory and arguments, and the
// operating system process that currently runs it, if any.
type process struct {
	setup

	binary string
	port   int
	dir    string

	mu     sync.Mutex
	os     *os.Process
	exited chan struct{} // closed once os is gone
	frozen bool
}

// setup is what a server is started with.
type setup struct {
	args  []string
	bus   bool           // it needs a port for a Cluster's bus too
	watch string         // what a Sentinel watches; empty for any other server
	clock *time.Duration // offset of a wall clock that can be stepped
}

// launch starts a server on a free port.
func launch(binary string, like setup) (*process, error) {
	root, err := reaperRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(root, "server-")
	if err != nil {
		return nil, err
	}
	p := &process{binary: binary, setup: like, dir: dir}
	if err = p.prepare(); err == nil {
		p.port, err = onPort(p.bus, func(port int) error {
			p.port = port
			return p.start()
		})
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// end kills the server for good.
func (p *process) end() error {
	p.kill()
	givePort(p.port)
	return os.RemoveAll(p.dir)
}

// prepare writes the files that a server finds when it starts.
func (p *process) prepare() error {
	if p.watch != "" {
		if err := os.WriteFile(p.watchFile(), []byte(p.watch), 0o600); err != nil {
			return err
		}
	}
	if p.clock != nil {
		return p.setClock(*p.clock)
	}
	return nil
}

// watchFile is where a Sentinel keeps its configuration and what it has seen.
func (p *process) watchFile() string { return filepath.Join(p.dir, "sentinel.conf") }

// start runs the server on p.port and returns once it accepts connections.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.os != nil {
		return errors.New("redistest: server is running")
	}
	logName := filepath.Join(p.dir, "log")
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()
	if !slices.Contains(p.args, "--save") && !slices.Contains(p.args, "--appendonly") {
		// A replica leaves the snapshot it was sent, and would load it again.
		if err := os.RemoveAll(filepath.Join(p.dir, "dump.rdb")); err != nil {
			return err
		}
	}

	args := []string{"--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "--dir", p.dir}
	if p.watch != "" {
		args = append([]string{p.watchFile(), "--sentinel"}, args...)
	} else {
		args = append(args, "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	}
	args = append(args, p.args...)
	args = append(args, "--daemonize", "no", "--loglevel", "notice", "--logfile", "")
	cmd := exec.Command(p.binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if p.clock != nil {
		if cmd.Env, err = p.clockEnv(); err != nil {
			return err
		}
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.os, p.exited, p.frozen = cmd.Process, make(chan struct{}), false
	reap(p.os.Pid)
	go func(exited chan struct{}) {
		_ = cmd.Wait() // the log says why
		unreap(cmd.Process.Pid)
		close(exited)
	}(p.exited)
	return p.awaitReady(logName)
}

// awaitReady reads the log rather than connecting: a server of somebody else
// that won the race for the port would answer a PING just as well.
func (p *process) awaitReady(logName string) error {
	limit := time.After(startLimit)
	for {
		out, err := os.ReadFile(logName)
		if err != nil {
			return err
		}
		if bytes.Contains(out, []byte("Ready to accept connections")) || bytes.Contains(out, []byte("Sentinel ID is")) {
			return nil
		}
		select {
		case <-p.exited:
			p.os = nil
			if out, err = os.ReadFile(logName); err != nil {
				return err
			}
			if bytes.Contains(out, []byte("Address already in use")) {
				return errPortTaken
			}
			return fmt.Errorf("redistest: %s %q ended early:\n%s", p.binary, p.args, out)
		case <-limit:
			p.endLocked()
			return fmt.Errorf("redistest: %s %q is not ready after %v:\n%s", p.binary, p.args, startLimit, out)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// kill ends the server at once. It does nothing to a server that is not running.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked()
}

func (p *process) endLocked() {
	if p.os == nil {
		return
	}
	_ = p.os.Kill() // fails only when it is gone already
	<-p.exited
	p.os = nil
}

// stop asks the server to end, and ends it when it does not.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.os == nil {
		return nil
	}
	if p.frozen {
		if err := resume(p.os); err != nil {
			return err
		}
		p.frozen = false
	}
	if err := terminate(p.os); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		p.os = nil
		return nil
	case <-time.After(stopLimit):
		p.endLocked()
		return fmt.Errorf("redistest: server did not stop within %v", stopLimit)
	}
}

// setFrozen stops or continues the running server; asking twice is fine.
func (p *process) setFrozen(frozen bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.os == nil {
		return errors.New("redistest: server is not running")
	}
	if p.frozen == frozen {
		return nil
	}
	change := resume
	if frozen {
		change = suspend
	}
	if err := change(p.os); err != nil {
		return err
	}
	p.frozen = frozen
	return nil
}

// restart runs the server again on its old port, which another process may
// hold for a moment.
func (p *process) restart() error {
	if err := p.stop(); err != nil {
		return err
	}
	for end := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		if err := p.start(); !errors.Is(err, errPortTaken) || time.Now().After(end) {
			return err
		}
	}
}
