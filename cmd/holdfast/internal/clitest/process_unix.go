//go:build unix

package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const patience = time.Minute // a busy machine is no failure

// Process is a holdfast process.
type Process struct {
	*exec.Cmd
	Out, Err bytes.Buffer

	t testing.TB
}

// Prepare makes a "holdfast run" with args that was not started.
func Prepare(t testing.TB, args ...string) *Process {
	p := &Process{t: t, Cmd: Command(append([]string{"run"}, args...)...)}
	p.Stdout, p.Stderr = &p.Out, &p.Err
	return p
}

// Begin starts "holdfast run" with args.
func Begin(t testing.TB, args ...string) *Process {
	t.Helper()
	p := Prepare(t, args...)
	p.Start()
	return p
}

// Start starts it, for the rest of the test.
func (p *Process) Start() {
	p.t.Helper()
	require.NoError(p.t, p.Cmd.Start())
	p.t.Cleanup(func() { _ = p.Process.Kill() }) // the watchdog does the rest
}

// Signal sends s to holdfast alone.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(s))
}

// End waits for the process and returns its exit code.
func (p *Process) End() int {
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

// Lines is a FIFO that a command and all it has started keep open: what they
// write into it, and that the last of them is gone.
type Lines struct {
	At time.Time // when what Next or Over returned last has happened

	t    testing.TB
	path string
	got  chan said
}

type said struct {
	line string
	at   time.Time
	more bool
}

// Listen makes one.
func Listen(t testing.TB) *Lines {
	t.Helper()
	l := &Lines{t: t, path: filepath.Join(t.TempDir(), "lines"), got: make(chan said, 100)}
	require.NoError(t, syscall.Mkfifo(l.path, 0o600))
	go func() {
		f, err := os.Open(l.path) // waits for the command
		if err != nil {
			return
		}
		defer f.Close()
		var rest string
		for buf := make([]byte, 4096); ; {
			n, err := f.Read(buf)
			rest += string(buf[:n])
			for {
				line, after, whole := strings.Cut(rest, "\n")
				if !whole {
					break
				}
				l.got <- said{line, time.Now(), true}
				rest = after
			}
			if err != nil {
				l.got <- said{at: time.Now()}
				return
			}
		}
	}()
	return l
}

// Next is what the command says next.
func (l *Lines) Next() string {
	l.t.Helper()
	select {
	case s := <-l.got:
		require.True(l.t, s.more, "the command has ended")
		l.At = s.at
		return s.line
	case <-time.After(patience):
		require.Fail(l.t, "the command said nothing")
		return ""
	}
}

// Over waits until nobody has the FIFO open any more.
func (l *Lines) Over() {
	l.t.Helper()
	for end := time.After(patience); ; {
		select {
		case s := <-l.got:
			if l.At = s.at; !s.more {
				return
			}
		case <-end:
			require.Fail(l.t, "something of the command still runs")
		}
	}
}

// Shell is a command that has the FIFO as file 9.
func (l *Lines) Shell(script string) []string {
	return []string{"--", "sh", "-c", "exec 9>'" + l.path + "'\n" + script}
}

// On is the arguments for a run of name on s.
func On(s *redistest.Server, name string, command []string, flags ...string) []string {
	args := append([]string{"--redis", "redis://" + s.Addr()}, flags...)
	return append(append(args, name), command...)
}
