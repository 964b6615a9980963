// Package tb lets redistest start servers outside of a test.
package tb

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// T is what redistest needs of a test. Its methods may be called concurrently.
type T struct {
	testing.TB // nil: what is missing below panics

	name string

	mu       sync.Mutex
	cleanups []func()
	said     []string
}

// Run runs f like a test: what f has started is ended afterwards, and what was
// reported comes back as an error. Fatal ends the goroutine that called it.
func Run(name string, f func(t *T)) error {
	t := &T{name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanup()
		f(t)
	}()
	<-done
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.said) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", name, strings.Join(t.said, "\n"))
}

func (t *T) cleanup() {
	t.mu.Lock()
	list := t.cleanups
	t.cleanups = nil
	t.mu.Unlock()
	for _, f := range slices.Backward(list) {
		f()
	}
}

// Name returns the name that Run was given.
func (t *T) Name() string { return t.name }

// Context never ends.
func (t *T) Context() context.Context { return context.Background() }

// Helper does nothing: no lines are reported.
func (t *T) Helper() {}

// Cleanup calls f when the run is over, the last one first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Errorf reports a failure.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = append(t.said, fmt.Sprintf(format, args...))
}

// Failed tells whether a failure was reported.
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.said) > 0
}

// Error reports a failure.
func (t *T) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

// Fatalf reports a failure and ends the calling goroutine.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Fatal reports a failure and ends the calling goroutine.
func (t *T) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

// Skipf is a failure: without servers nothing is shown.
func (t *T) Skipf(format string, args ...any) { t.Fatalf(format, args...) }

// Skip is a failure: without servers nothing is shown.
func (t *T) Skip(args ...any) { t.Fatal(args...) }
