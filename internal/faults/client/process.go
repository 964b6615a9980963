package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const startLimit = 30 * time.Second

// Process is a client as its parent sees it. All methods may be called
// concurrently.
type Process struct {
	Job Job

	cmd    *exec.Cmd
	in     io.WriteCloser
	read   chan struct{} // closed once all of its output was read
	killed sync.Once
	gone   func() // for whoever would end it if we did not

	mu      sync.Mutex
	events  []Event
	changed chan struct{}
}

// Start runs program, or this very program if it is empty, as a client.
func Start(program string, j Job) (*Process, error) {
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &Process{Job: j, cmd: exec.Command(program), read: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if p.gone, err = redistest.Reap(p.cmd.Process); err != nil {
		_ = p.cmd.Process.Kill()
		return nil, err
	}
	go p.listen(out)
	if _, ok := p.Await(startLimit, func(e Event) bool { return e.Kind == Ready }); !ok {
		p.Kill()
		return nil, errors.New("client: it did not start")
	}
	return p, nil
}

func (p *Process) listen(out io.Reader) {
	defer close(p.read)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the last line of a killed client
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// Tell gives the client an order. One that was killed does not hear it.
func (p *Process) Tell(o Order) {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	_, _ = p.in.Write(append(line, '\n'))
}

// Await returns the first event, past or to come, that fits.
func (p *Process) Await(within time.Duration, fits func(Event) bool) (Event, bool) {
	return p.AwaitAfter(0, within, fits)
}

// AwaitAfter is Await without the first events.
func (p *Process) AwaitAfter(first int, within time.Duration, fits func(Event) bool) (Event, bool) {
	limit := time.After(within)
	for {
		p.mu.Lock()
		fresh, changed := p.events[first:], p.changed
		p.mu.Unlock()
		for _, e := range fresh {
			if fits(e) {
				return e, true
			}
		}
		first += len(fresh)
		select {
		case <-changed:
		case <-limit:
			return Event{}, false
		case <-p.read:
			p.mu.Lock()
			done := len(p.events) == first
			p.mu.Unlock()
			if done {
				return Event{}, false
			}
		}
	}
}

// Seen is how many events there are so far.
func (p *Process) Seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events)
}

// Events is what the client has said so far.
func (p *Process) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.events)
}

// Holding tells whether the client holds a name and is at work on its register.
func (p *Process) Holding() bool {
	all := p.Events()
	open := 0
	for _, e := range all[max(0, len(all)-100):] {
		switch e.Kind {
		case Read:
			if !e.Stale {
				open++
			}
		case Written:
			open--
		}
	}
	return open > 0
}

// Freeze stops the client in its tracks.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the client at once, and returns when all it said is known.
func (p *Process) Kill() {
	p.killed.Do(func() {
		_ = p.cmd.Process.Kill()
		<-p.read
		_ = p.cmd.Wait()
		p.gone()
	})
}

// End lets the client release what it has, and kills it if it takes too long.
func (p *Process) End() error {
	_ = p.in.Close()
	select {
	case <-p.read:
	case <-time.After(startLimit):
		p.Kill()
		return fmt.Errorf("client %d: it did not end", p.Job.Number)
	}
	p.Kill()
	return nil
}
