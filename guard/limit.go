package guard

import (
	"context"
	"sync"
	"time"
)

// limit is a context with the values of another one and an end of its own: stop,
// or a time. What waiting for the end takes is made when Done is first called.
type limit struct {
	context.Context         // for its values
	until           instant // 0 if there is none

	mu    sync.Mutex
	done  chan struct{}
	timer *time.Timer
	err   error
}

// deadline is a limit that is stopped only when nobody waits for its end.
type deadline struct{ limit }

// OnlyDeadline tells a store that may ask for it that the Deadline is all that
// ends the context, so that one with a clock of its own need not call Done.
func (*deadline) OnlyDeadline() {}

func (l *limit) Deadline() (time.Time, bool) {
	if l.until == 0 {
		return time.Time{}, false
	}
	return l.until.time(), true
}

func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return l.done
	}
	err := l.errLocked()
	l.done = make(chan struct{})
	switch {
	case err != nil:
		close(l.done)
	case l.until != 0:
		l.timer = time.AfterFunc(l.until.sub(now()), func() { l.end(context.DeadlineExceeded) })
	}
	return l.done
}

func (l *limit) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

func (l *limit) errLocked() error {
	if l.err == nil && l.until != 0 && now() >= l.until {
		l.err = context.DeadlineExceeded
		if l.done != nil {
			close(l.done)
		}
	}
	return l.err
}

// Value hides the parent's cancellation, which is looked for in values.
func (l *limit) Value(key any) any { return context.WithoutCancel(l.Context).Value(key) }

// stop ends the context and frees its timer.
func (l *limit) stop() { l.end(context.Canceled) }

func (l *limit) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.err == nil {
		l.err = err
		if l.done != nil {
			close(l.done)
		}
	}
}
