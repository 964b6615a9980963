package redistest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	settleLimit = 2 * time.Second
	settlePoll  = 10 * time.Millisecond
)

// Goroutines fails t at its end if goroutines are left that were not there
// when it was called, and prints their stacks. They have 2 s to settle. Called
// first in a test, it looks last, after clients and servers are closed; the
// returned function looks earlier. The goroutines of this package, of the
// testing package and of os/signal do not count.
//
// It must not be used in a test that runs in parallel with others: theirs would count.
func Goroutines(t testing.TB) (check func()) {
	t.Helper()
	before := goroutines()
	check = func() {
		t.Helper()
		var left []string
		for end := time.Now().Add(settleLimit); ; time.Sleep(settlePoll) {
			left = left[:0]
			for id, stack := range goroutines() {
				if _, old := before[id]; !old && !ours(stack) {
					left = append(left, stack)
				}
			}
			if len(left) == 0 {
				return
			}
			if time.Now().After(end) {
				break
			}
		}
		t.Errorf("redistest: %d goroutines are left:\n\n%s", len(left), strings.Join(left, "\n\n"))
	}
	t.Cleanup(check)
	return check
}

// goroutines returns the stack of every goroutine by its number.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[id] = strings.TrimSpace(stack)
	}
	return all
}

func ours(stack string) bool {
	for _, mark := range []string{
		"holdfast/internal/redistest.",
		"created by testing.",
		"os/signal.loop",
	} {
		if strings.Contains(stack, mark) {
			return true
		}
	}
	return false
}
