//go:build unix

package run

import (
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

const maxMargin = 5 * time.Second

// stopMargin is how long before the end of its lease a command is told to end.
// Renewals are sent every third of the TTL, so by then at least two have failed.
func stopMargin(ttl time.Duration) time.Duration { return min(ttl/4, maxMargin) }

// supervisor runs the command and sees to it that nothing of it outlives the lease.
type supervisor struct {
	held    *guard.Held
	name    string
	margin  time.Duration
	signals <-chan os.Signal

	group    *group
	tty      *terminal // nil unless the command has the keyboard
	watchdog *watchdog
	kills    time.Time // when the watchdog does, as it was told last
	lost     bool      // the lease is known to be lost
	lostAt   time.Time // since when
	told     bool      // the group was told to end
	killed   bool
}

// run returns the command's exit code once its group has ended.
func (s *supervisor) run(path string, command []string) (code int, err error) {
	if s.watchdog, err = startWatchdog(); err != nil {
		return 0, err
	}
	defer s.watchdog.dismiss()
	s.tty = ourTerminal()
	if s.tty != nil {
		defer s.tty.close()
	}
	var ready func()
	if s.group, ready, err = start(path, command, environ(s.held, s.name), s.tty); err != nil {
		return 0, err
	}
	s.expect(s.deadline())
	ready()
	s.supervise()
	return s.group.code(), nil
}

func (s *supervisor) supervise() {
	lost := s.held.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.enforce())
		select {
		case <-s.group.gone:
			s.expect(s.deadline())
			return
		case <-lost:
			lost, s.lost, s.lostAt = nil, true, time.Now()
		case sig := <-s.signals:
			s.group.signal(sig.(syscall.Signal))
		case <-s.group.paused:
			s.tty.pause()
		case <-s.tty.resumed():
			s.resume()
		case <-timer.C:
		}
	}
}

// expect tells the watchdog when to kill the group. If what it was told last is
// past, it has done so: this process was stopped, or could not run.
func (s *supervisor) expect(deadline time.Time) {
	s.told = s.told || !s.kills.IsZero() && !time.Now().Before(s.kills)
	s.kills = deadline
	s.watchdog.expect(s.group.id, deadline)
}

// deadline is when the group is killed: ahead of the lease's local end by a
// fifth of the margin, since a busy machine takes its time to run us and to end
// a process; and one margin after a lease was found lost, since somebody else may
// be at work already.
func (s *supervisor) deadline() time.Time {
	d := s.held.Until().Add(-s.margin / 5)
	if given := s.lostAt.Add(s.margin); s.lost && given.Before(d) {
		return given
	}
	return d
}

// enforce does to the group what the time asks for, and returns when to look
// again. The lease may have been renewed since the last look.
func (s *supervisor) enforce() time.Duration {
	now, deadline := time.Now(), s.deadline()
	s.expect(deadline)
	stop := s.held.Until().Add(-s.margin)
	switch {
	case !now.Before(deadline):
		if !s.killed {
			s.killed = true
			warn("the lease on %q has ended: killing the command", s.name)
		}
		s.told = true
		s.group.signal(syscall.SIGKILL)
		return leftoverPoll
	case s.told:
		return deadline.Sub(now)
	case s.lost, !now.Before(stop):
		s.told = true
		why := "cannot be renewed"
		if s.lost {
			why = "is lost"
		}
		warn("the lease on %q %s: telling the command to end within %v", s.name, why, deadline.Sub(now).Round(time.Millisecond))
		s.group.signal(syscall.SIGTERM)
		return deadline.Sub(now)
	}
	return stop.Sub(now)
}

// resume continues a command that was stopped at the terminal, if it still has
// its lock.
func (s *supervisor) resume() {
	if s.held.Context().Err() == nil && time.Now().Before(s.deadline()) {
		s.tty.lend(s.group.id)
		_ = syscall.Kill(-s.group.id, syscall.SIGCONT)
	}
}
