//go:build unix

package run

import (
	"errors"
	"syscall"
	"time"
)

// leftoverPoll is how often a group is looked at of which no member left is our
// child, so that waiting for it is not possible.
const leftoverPoll = 20 * time.Millisecond

// leftoverPatience is when somebody who waits is told for what.
const leftoverPatience = time.Second

// group is the command's process group. Its number is that of the command and
// stays taken as long as the group has a member.
type group struct {
	id     int
	status syscall.WaitStatus // of the command; valid after gone
	gone   chan struct{}      // the command and everything else in the group has ended
	paused chan struct{}      // the command was stopped; has room for one
	denied bool               // a signal was refused, and that was told
}

// start starts the command in a group of its own, in front of tty if there is
// one. It runs once ready is called.
func start(path string, command, env []string, tty *terminal) (g *group, ready func(), err error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if tty != nil {
		attr.Foreground, attr.Ctty = true, tty.fd
	}
	adopt()
	p, ready, err := launch(path, command, env, attr)
	if err != nil {
		return nil, nil, err
	}
	g = &group{id: p.Pid, gone: make(chan struct{}), paused: make(chan struct{}, 1)}
	_ = p.Release() // wait reaps it
	go g.wait()
	return g, ready, nil
}

// wait reaps the command, and what it left behind: see adopt.
func (g *group) wait() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-g.id, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // no child left
			g.waitForOthers()
			return
		case pid != g.id:
		case status.Stopped():
			select {
			case g.paused <- struct{}{}:
			default:
			}
		default:
			g.status = status
			defer time.AfterFunc(leftoverPatience, func() {
				warn("the command has ended; waiting for what it left in process group %d", g.id)
			}).Stop()
		}
	}
}

func (g *group) waitForOthers() {
	for g.alive() {
		time.Sleep(leftoverPoll)
		_, _ = syscall.Wait4(-g.id, nil, syscall.WNOHANG, nil)
	}
	close(g.gone)
}

func (g *group) alive() bool { return !errors.Is(syscall.Kill(-g.id, 0), syscall.ESRCH) }

// signal sends s to every process of the group, and wakes those that were
// stopped, so that they can act on it.
func (g *group) signal(s syscall.Signal) {
	if err := syscall.Kill(-g.id, s); err != nil && !errors.Is(err, syscall.ESRCH) && !g.denied {
		g.denied = true
		warn("%v to process group %d: %v", s, g.id, err)
	}
	if s != syscall.SIGKILL {
		_ = syscall.Kill(-g.id, syscall.SIGCONT)
	}
}

// code is the exit code of the command as a shell shows it.
func (g *group) code() int {
	if g.status.Signaled() {
		return 128 + int(g.status.Signal())
	}
	return g.status.ExitStatus()
}
