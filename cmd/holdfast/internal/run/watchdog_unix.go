//go:build unix

package run

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// watchdog is a second process that ends the command's group when this one
// cannot: it was killed, or stopped past the deadline. It reads lines from a
// pipe of which only we have the other end.
//
//	<group> <ns>   when the group must be gone, on the clock of [monotonic]
//	done           it is
//	end of file    we are gone: tell the group to end now, the deadline stands
//
// The time is one that both processes have: if it were told what is left, a
// watchdog that starts slowly, or a pause of ours before the line is sent, would
// put the deadline off.
type watchdog struct {
	cmd *exec.Cmd
	to  io.WriteCloser
}

const watchdogDone = "done"

func startWatchdog() (*watchdog, error) {
	cmd, err := cli.Self(WatchdogCommand)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of the terminal's keys
	to, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the watchdog: %w", err)
	}
	return &watchdog{cmd, to}, nil
}

// A watchdog that somebody killed is no reason to fail the command: we are still there.

func (w *watchdog) expect(group int, deadline time.Time) {
	at := monotonic() // first: a pause in between makes it earlier
	_, _ = fmt.Fprintln(w.to, group, int64(at+time.Until(deadline)))
}

func (w *watchdog) dismiss() {
	_, _ = fmt.Fprintln(w.to, watchdogDone)
	_ = w.to.Close()
	_ = w.cmd.Wait()
}

// order is what the watchdog was told last.
type order struct {
	group    int
	deadline time.Time
}

// Watchdog is the main function of the watchdog's process.
func Watchdog() int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM) // it ends last
	survivePipes()
	orders, done := make(chan order), make(chan bool)
	go func() { done <- listen(os.Stdin, orders) }()
	var last order
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case last = <-orders:
			timer.Reset(time.Until(last.deadline))
		case <-timer.C:
			_ = syscall.Kill(-last.group, syscall.SIGKILL)
		case told := <-done:
			if !told && last.group > 0 {
				avenge(last)
			}
			return 0
		}
	}
}

// listen passes on what comes from in until it ends; it returns whether that was
// in good order.
func listen(in io.Reader, orders chan<- order) bool {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var group int
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &group, &at); err != nil || group <= 1 {
			return lines.Text() == watchdogDone
		}
		now := time.Now() // first, as above
		orders <- order{group, now.Add(time.Duration(at) - monotonic())}
	}
	return false
}

// avenge ends the group of a holdfast that died.
func avenge(o order) {
	g := group{id: o.group}
	if !g.alive() {
		return
	}
	warn("holdfast itself was killed: ending process group %d", o.group)
	g.signal(syscall.SIGTERM)
	for g.alive() && time.Now().Before(o.deadline) {
		time.Sleep(leftoverPoll)
	}
	if g.alive() {
		g.signal(syscall.SIGKILL)
	}
}
