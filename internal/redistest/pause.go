package redistest

import (
	"sync"
	"time"
)

const (
	pauseTick  = 5 * time.Millisecond
	pauseCount = 50 * time.Millisecond // shorter ones are what any machine does
)

type pause struct{ from, to time.Time }

var pauses struct {
	once sync.Once
	mu   sync.Mutex
	list []pause
	last time.Time // when the watching goroutine ran last
}

// Paused returns for how long in all the machine stood still since a moment:
// the pauses of 50 ms and more in which a goroutine that only wakes every 5 ms
// did not run. A bound on real time is one on the time without them: a machine
// that is shared, or fetches its memory from elsewhere, may stop for half a
// second at any point, and so stops the code and its test alike.
//
// Pauses are seen from the first call on, which therefore belongs into TestMain.
// It may be called from several goroutines.
func Paused(since time.Time) time.Duration {
	pauses.once.Do(func() {
		pauses.last = time.Now()
		go watchPauses()
	})
	var sum time.Duration
	for _, p := range seePause() {
		if p.from.Before(since) {
			p.from = since
		}
		sum += max(p.to.Sub(p.from), 0)
	}
	return sum
}

func watchPauses() {
	for {
		time.Sleep(pauseTick)
		seePause()
	}
}

// seePause also serves who runs before the watching goroutine does after a pause.
func seePause() []pause {
	pauses.mu.Lock()
	defer pauses.mu.Unlock()
	now := time.Now()
	if now.Sub(pauses.last) >= pauseCount {
		pauses.list = append(pauses.list, pause{pauses.last.Add(pauseTick), now})
	}
	pauses.last = now
	return pauses.list
}
