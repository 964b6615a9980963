//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/guard"
)

const unsupported = ""

// underLock acquires the lock, runs the command, and gives the lock back.
func (o options) underLock(name guard.Name, path string) int {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if !signal.Ignored(s) { // nohup stays nohup
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	survivePipes()

	held, err := o.acquire(name, signals)
	if err != nil {
		return o.refused(name, err)
	}
	s := supervisor{held: held, name: name.String(), margin: stopMargin(o.ttl), signals: signals}
	code, err := s.run(path, o.command)
	lost := held.Release()
	switch {
	case err != nil:
		return cli.Fail(os.Stderr, cli.CannotRun, "run: %v", err)
	case errors.Is(lost, guard.ErrLost):
		return cli.Fail(os.Stderr, cli.Lost, "run: the lock was lost before the command had ended (it ended with %d): %v", code, lost)
	case s.told:
		return cli.Fail(os.Stderr, cli.Lost, "run: the command was told to end since the lease on %q could not be renewed (it ended with %d)", name, code)
	}
	return code
}

// acquire waits for the lock until a signal comes.
func (o options) acquire(name guard.Name, signals <-chan os.Signal) (*guard.Held, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	acquired, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			cancel(&cli.SignalError{Signal: s})
		case <-acquired:
		}
	}()
	held, err := o.acquireFresh(ctx, name)
	close(acquired)
	<-watched
	if err == nil && ctx.Err() != nil { // the signal came in the last moment
		_ = held.Release()
		err = context.Cause(ctx)
	}
	return held, err
}

// acquireFresh returns a lease of about the full TTL. One that was handed over
// by another process is short until it is renewed.
func (o options) acquireFresh(ctx context.Context, name guard.Name) (*guard.Held, error) {
	for {
		held, err := guard.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		if time.Until(held.Until()) > o.ttl/2 {
			return held, nil
		}
		if err = held.Extend(ctx); err == nil {
			return held, nil
		}
		_ = held.Release() // the command has not run
		if !errors.Is(err, guard.ErrLost) {
			return nil, err
		}
	}
}

// refused says why the command did not run.
func (o options) refused(name guard.Name, err error) int {
	code := cli.Unavailable
	var caught *cli.SignalError
	switch {
	case errors.As(err, &caught):
		return cli.Fail(os.Stderr, caught.Code(), "run: %v while waiting for %q", caught, name)
	case errors.Is(err, guard.ErrHeld):
		code = o.conflict
	case errors.Is(err, guard.ErrInvalid):
		code = cli.Usage
	}
	return cli.Fail(os.Stderr, code, "run: %v", err)
}

// environ is what the command gets to know about its lock.
func environ(held *guard.Held, name string) []string {
	return append(os.Environ(),
		"HOLDFAST_NAME="+name,
		"HOLDFAST_TOKEN="+strconv.FormatInt(int64(held.Token()), 10),
		"HOLDFAST_UNTIL="+held.Until().UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	)
}

// survivePipes makes a write to a stderr that nobody reads any more fail, instead
// of ending us when there is something to tell. Unlike an ignored signal, that is
// not passed on to the command.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func warn(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "holdfast: run: "+format+"\n", args...)
}
