// Package demo is "holdfast demo": what goes wrong without a lock, and what
// does not go wrong under one.
//
// Four replicas of a shop work through a day's orders. Each order reads the
// stock of its product, takes the money, and writes what is left. They do it
// twice: without a lock, and under guard.Do for each product, with a stock that
// refuses stale fencing tokens.
package demo

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// ReplicaCommand is the hidden subcommand that [Replica] serves.
const ReplicaCommand = "demo-replica"

const usage = `usage: holdfast demo [--redis URL]

Four replicas of a shop work through %d orders for %d products, first without
a lock, then under guard.Do for each product. Shows what was oversold. Takes at
most 15 seconds.

Without --redis the replicas are four Guards of this process over the embedded
store. With it they are four processes that share locks and stock on that Redis;
$HOLDFAST_REDIS is not looked at. All keys begin with "holdfast-demo:" and are
removed at the end, also after Ctrl-C.

  --redis URL   %s

Exit codes: 0 if units were oversold without a lock and none under it, 1 if not,
64 wrong usage, 69 if Redis could not be asked.
`

// Each pass ends at its limit, however slow Redis is, so that the whole demo
// ends within 15 s.
const (
	limitWithout = 4 * time.Second
	limitWith    = 7 * time.Second
	setUpWithin  = time.Second
	cleanWithin  = 1500 * time.Millisecond
)

// crew is the replicas and the stock they share.
type crew interface {
	// pass works through the orders once, starting with all of the stock.
	// handled is called with how many more orders are done.
	pass(ctx context.Context, guarded bool, handled func(n int)) (pass, error)
	close(ctx context.Context) error
	String() string
}

// Main runs "holdfast demo" with args and returns the exit code.
func Main(args []string) int {
	in, err := load()
	if err != nil {
		return cli.Fail(os.Stderr, cli.Failed, "demo: %v", err)
	}
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	url := f.String("redis", "", "")
	err = f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Printf(usage, len(in.orders), len(in.products), cli.RedisHelp)
		return cli.OK
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("what is %q?", f.Arg(0))
	}
	var c crew = &embedded{in: in}
	if err == nil && *url != "" {
		c, err = newFleet(in, *url)
	}
	if err != nil {
		return cli.Fail(os.Stderr, cli.Usage, `demo: %v (see "holdfast help demo")`, err)
	}
	return perform(in, c, os.Stdout, newBar(os.Stderr, len(in.orders)))
}

// perform makes both passes and tells about them.
func perform(in input, c crew, out io.Writer, b *bar) (code int) {
	ctx, stop := cli.Interruptible(context.Background())
	defer stop()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWithin)
		defer cancel()
		if err := c.close(ctx); err != nil {
			failed := cli.Fail(os.Stderr, cli.Unavailable, "demo: cleaning up: %v; what is left expires within the hour", err)
			code = cmp.Or(code, failed)
		}
	}()
	fmt.Fprintf(out, "%d orders for %d products, %s\n\n", len(in.orders), len(in.products), c)
	var passes [2]pass
	for i, guarded := range []bool{false, true} {
		done := b.start([]string{"without a lock", "under guard.Do"}[i])
		p, err := c.pass(ctx, guarded, b.add)
		done()
		if code, interrupted := cli.Interrupted(ctx); interrupted {
			return cli.Fail(os.Stderr, code, "demo: interrupted")
		}
		if err != nil {
			return cli.Fail(os.Stderr, cli.Unavailable, "demo: %v", err)
		}
		passes[i] = p
	}
	printTable(out, in, passes[0], passes[1])
	code, text := verdict(passes[0], passes[1])
	fmt.Fprintf(out, "\n%s\n", text)
	return code
}

// limit is the longest that a pass may take.
func limit(guarded bool) time.Duration {
	if guarded {
		return limitWith
	}
	return limitWithout
}
