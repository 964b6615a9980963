//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the keyboard that we were started in front of. It is lent to the
// command, whose group the keys then reach: without that a command that reads
// from it would be stopped by SIGTTIN. All methods but close do nothing on nil.
type terminal struct {
	fd    int
	group int // ours
	cont  chan os.Signal
}

// ourTerminal is nil if there is none, or if another group is in front of it.
func ourTerminal() *terminal {
	t := &terminal{fd: int(os.Stdin.Fd()), group: unix.Getpgrp()}
	if !t.isOurs() {
		return nil
	}
	t.cont = make(chan os.Signal, 1)
	signal.Notify(t.cont, syscall.SIGCONT)
	return t
}

func (t *terminal) isOurs() bool {
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && front == t.group
}

// lend puts group in front, if the terminal is ours to lend.
func (t *terminal) lend(group int) {
	if t != nil && t.isOurs() {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
	}
}

// takeBack puts our own group in front again. A process in the background may do
// that only while it ignores SIGTTOU.
func (t *terminal) takeBack() {
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	signal.Reset(syscall.SIGTTOU)
}

// pause stops our own group as Ctrl-Z has stopped the command, so that the shell
// comes back.
func (t *terminal) pause() {
	if t == nil {
		return
	}
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGTSTP)
}

// resumed receives when the shell has continued us.
func (t *terminal) resumed() <-chan os.Signal {
	if t == nil {
		return nil
	}
	return t.cont
}

func (t *terminal) close() {
	signal.Stop(t.cont)
	t.takeBack()
}
