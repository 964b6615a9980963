package guard

import (
	"context"
	"sync"
	"time"
)

// limit is a context with the values of another one and an end of its own. What
// waiting for the end takes is made when Done is first called.
type limit struct {
	context.Context // for its values
	until           time.Time

	mu    sync.Mutex
	done  chan struct{}
	timer *time.Timer
	over  bool
}

func (l *limit) Deadline() (time.Time, bool) { return l.until, true }

func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if left := time.Until(l.until); left > 0 && !l.over {
			l.timer = time.AfterFunc(left, l.stop)
		} else {
			l.over = true
			close(l.done)
		}
	}
	return l.done
}

// Err is a deadline's error both when the time is up and after stop: the caller
// that stops it has its answer.
func (l *limit) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !time.Now().Before(l.until) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value hides the parent's cancellation, which is looked for in values.
func (l *limit) Value(key any) any { return context.WithoutCancel(l.Context).Value(key) }

// stop ends the context and frees its timer.
func (l *limit) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.done != nil && !l.over {
		close(l.done)
	}
	l.over = true
}
