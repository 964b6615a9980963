// Package cli is what the subcommands of holdfast share: exit codes, the
// connection to Redis, signals, and whether there is a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes. Those from 64 on follow sysexits.h where it has a fitting one,
// those from 126 on what shells do. Lost lies outside of sysexits.h, so that no
// command means something else by it.
const (
	OK          = 0
	Failed      = 1
	Usage       = 64
	Unavailable = 69 // the lock service could not be asked, or refused
	Conflict    = 75 // held by another
	Lost        = 79 // the lease ended before the command did
	CannotRun   = 126
	NotFound    = 127
	Signalled   = 128 // plus the number of the signal
)

// Fail writes a line for people to w and returns code.
func Fail(w io.Writer, code int, format string, args ...any) int {
	fmt.Fprintf(w, "holdfast: "+format+"\n", args...)
	return code
}

// SignalError is the cause of a context that a signal has ended.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return e.Signal.String() }

// Code is the exit code of a program that the signal has ended.
func (e *SignalError) Code() int {
	n, _ := e.Signal.(syscall.Signal)
	return Signalled + int(n)
}

// Interruptible returns a context that ends with the first of the signals that
// ask a program to end; a [*SignalError] is its cause. The second one ends the
// program as usual. Call stop when the context is no longer needed.
func Interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-caught:
			cancel(&SignalError{s})
		case <-ctx.Done():
		}
		signal.Stop(caught)
	}()
	return ctx, func() { cancel(nil); <-done }
}

// Interrupted tells whether a signal has ended ctx, and with which exit code
// the program should end.
func Interrupted(ctx context.Context) (code int, ok bool) {
	var e *SignalError
	if ctx.Err() == nil || !errors.As(context.Cause(ctx), &e) {
		return 0, false
	}
	return e.Code(), true
}
