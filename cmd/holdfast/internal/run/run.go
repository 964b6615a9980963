// Package run is "holdfast run": a command under a lock.
//
// The lock is held until the command's whole process group has ended, so what
// the command leaves in the background is under the lock too. If the lease
// cannot be renewed the group is told to end ahead of the lease's local end and
// is killed by then, whatever the server says and even if holdfast itself was
// stopped or killed: a second process, the watchdog, knows the deadline.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
)

// Hidden subcommands, for [Watchdog] and [Launcher].
const (
	WatchdogCommand = "run-watchdog"
	LauncherCommand = "run-launcher"
)

const minTTL = time.Second // a quarter of it is what a command gets to end in

const usage = `usage: holdfast run [flags] NAME -- command [args...]

Runs the command while it holds the lock NAME, and waits for the lock first.
NAME is written as holdfast shows names: "order/42" is the lock that a program
calls locks.Class("order").Name("42"). A "/" separates parts; one that belongs
to a part is written %%2F, and a percent sign %%25.

Flags:
  --redis URL         where locks are kept; default $HOLDFAST_REDIS
                      %s
  --wait D            wait at most D for the lock, such as 30s; default: no limit
  --no-wait           do not wait
  --conflict-exit N   exit code when another holds the lock; default 75
  --ttl D             length of the lease, 1s to 24h; default 30s. It is renewed
                      while the command runs. After a crash of the machine the
                      lock stays taken for at most this long.
  --prefix P          prefix of the keys in Redis
  --label TEXT        who holds the lock, for others to see; default host:pid

The command sees HOLDFAST_NAME, HOLDFAST_TOKEN (the fencing token: a number that
rises from holder to holder) and HOLDFAST_UNTIL (when the lease ends unless it is
renewed, RFC 3339). It runs in a process group of its own. INT, TERM, HUP and QUIT
are passed on to the group; at a terminal the group gets the keyboard, so Ctrl-C
and Ctrl-Z reach it directly, and a command stopped by Ctrl-Z loses its lock when
the lease ends. The lock is held until every process of the group has ended.

When the lease cannot be renewed, or is found lost, the group gets TERM a quarter
of the TTL (at most 5s) ahead of the lease's end and KILL at the end. That holds
even if holdfast itself is killed. A process that left the group (setsid) or that
runs as another user (sudo) is out of reach.

Exit codes:
  the command's own; 128+N if signal N ended it
  64   wrong usage
  69   the lock service could not be asked: the command did not run
  75   another holds the lock: the command did not run (--conflict-exit)
  79   the lease was lost, or could not be renewed, before the command had ended
  126  the command cannot be started; 127: there is no such command
  128+N  signal N came while waiting for the lock: the command did not run
`

type options struct {
	redis, prefix, label string
	wait, ttl            time.Duration // wait: -1 for no limit, 0 for not at all
	conflict             int
	parts                []string
	command              []string
}

// Main runs "holdfast run" with args and returns the exit code.
func Main(args []string) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Printf(usage, strings.ReplaceAll(cli.RedisHelp, "\n", "\n                      "))
		return cli.OK
	case err != nil:
		return cli.Fail(os.Stderr, cli.Usage, `run: %v (see "holdfast help run")`, err)
	case unsupported != "":
		return cli.Fail(os.Stderr, cli.Usage, "run: %s", unsupported)
	}
	path, err := exec.LookPath(o.command[0])
	if err != nil {
		code := cli.NotFound
		if errors.Is(err, os.ErrPermission) {
			code = cli.CannotRun
		}
		return cli.Fail(os.Stderr, code, "run: %v", err)
	}
	name, done, err := o.open()
	if err != nil {
		return cli.Fail(os.Stderr, cli.Usage, "run: %v", err)
	}
	defer done()
	return o.underLock(name, path)
}

func parse(args []string) (options, error) {
	o := options{wait: -1}
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.redis, "redis", "", "")
	f.DurationVar(&o.wait, "wait", -1, "")
	noWait := f.Bool("no-wait", false, "")
	f.IntVar(&o.conflict, "conflict-exit", cli.Conflict, "")
	f.DurationVar(&o.ttl, "ttl", 30*time.Second, "")
	f.StringVar(&o.prefix, "prefix", "", "")
	f.StringVar(&o.label, "label", "", "")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	limited := false
	f.Visit(func(f *flag.Flag) { limited = limited || f.Name == "wait" })
	rest := f.Args()
	switch {
	case len(rest) == 0 || rest[0] == "":
		return o, errors.New("the name of the lock is missing")
	case len(rest) == 1 || rest[1] != "--":
		return o, fmt.Errorf(`"--" and the command must follow the name %q; flags come before it`, rest[0])
	case len(rest) == 2 || rest[2] == "":
		return o, errors.New(`no command after "--"`)
	case limited && *noWait:
		return o, errors.New("--wait and --no-wait exclude each other")
	case limited && o.wait < 0:
		return o, fmt.Errorf("--wait %v: want 0 or more", o.wait)
	case o.conflict < 0 || o.conflict > 255:
		return o, fmt.Errorf("--conflict-exit %d: want 0 to 255", o.conflict)
	case o.ttl < minTTL || o.ttl > guard.MaxTTL:
		return o, fmt.Errorf("--ttl %v: want %v to %v", o.ttl, minTTL, guard.MaxTTL)
	}
	if *noWait {
		o.wait = 0
	}
	o.command = rest[2:]
	var err error
	o.parts, err = nameParts(rest[0])
	return o, err
}

// nameParts is the way back from guard.Name.String to what the name was made of.
func nameParts(name string) ([]string, error) {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return nil, fmt.Errorf(`name %q: "%%" is written %%25`, name)
		}
		if plain == "" {
			return nil, fmt.Errorf(`name %q: part %d is empty; a "/" that belongs to a part is written %%2F`, name, i+1)
		}
		parts[i] = plain
	}
	return parts, nil
}

// open returns the lock, and what gives back all that was opened.
func (o options) open() (guard.Name, func(), error) {
	rdb, err := cli.Connect(o.redis)
	if err != nil {
		return guard.Name{}, nil, err
	}
	store, err := redisstore.New(rdb, redisstore.Prefix(o.prefix))
	if err != nil {
		return guard.Name{}, nil, err
	}
	policies := []guard.Option{guard.TTL(o.ttl.Truncate(time.Millisecond))}
	if o.label != "" {
		policies = append(policies, guard.Label(o.label))
	}
	if cli.IsTerminal(os.Stderr) {
		policies = append(policies, guard.Observe(&waiting{}))
	}
	g, err := guard.New(store, policies...)
	if err != nil {
		return guard.Name{}, nil, err
	}
	name := g.Name(o.parts...)
	if o.wait >= 0 {
		name = name.Wait(o.wait)
	}
	return name, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		_ = g.Close(ctx) // what it could not do in time ends by itself
		_ = rdb.Close()
	}, nil
}

// closeWithin is what the lock service is given at the end to forget this process.
const closeWithin = 500 * time.Millisecond

// waiting tells somebody at a terminal why nothing happens.
type waiting struct{ told bool }

func (*waiting) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }
func (*waiting) End(context.Context, guard.Outcome)                      {}
func (w *waiting) Event(_ context.Context, e guard.Event) {
	if e.Kind == guard.Waiting && !w.told {
		w.told = true
		fmt.Fprintf(os.Stderr, "holdfast: waiting for %q, held by %q\n", e.Name, e.Holder.Holder)
	}
}
