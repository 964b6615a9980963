package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
)

const (
	progressEvery = 20          // orders
	stopWithin    = time.Second // for a child to report after it was told to stop
)

// assignment is the first thing a child reads; it gets it through a pipe since
// the URL may hold a password. It begins when the next value comes, and stops
// when its input ends.
type assignment struct {
	Redis, Prefix string
	Replica       int
	Guarded       bool
}

// message is what a child writes: Ready once, Handled now and then, and at the
// end Report or Error.
type message struct {
	Ready   bool    `json:",omitempty"`
	Handled int     `json:",omitempty"`
	Report  *report `json:",omitempty"`
	Error   string  `json:",omitempty"`
}

// child is a replica's process as its parent sees it.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	report report
	ended  sync.Once
}

func startChild(a assignment) (*child, error) {
	cmd, err := cli.Self(ReplicaCommand)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, in: in, out: json.NewDecoder(out)}
	if err := json.NewEncoder(in).Encode(a); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

func (c *child) ready() error {
	m, err := c.next()
	if err == nil && !m.Ready {
		err = fmt.Errorf("a replica sent %+v, want ready", m)
	}
	return err
}

// work lets the child begin and waits for its report.
func (c *child) work(handled func(int)) error {
	if _, err := io.WriteString(c.in, "{}\n"); err != nil {
		return err
	}
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		if m.Report != nil {
			c.report = *m.Report
			return nil
		}
		handled(m.Handled)
	}
}

func (c *child) next() (m message, err error) {
	if err = c.out.Decode(&m); err != nil {
		return m, fmt.Errorf("a replica ended early: %w", err)
	}
	if m.Error != "" {
		return m, fmt.Errorf("a replica: %s", m.Error)
	}
	return m, nil
}

// stop asks the child to report what it has, and kills it if it does not.
func (c *child) stop() {
	_ = c.in.Close()
	time.AfterFunc(stopWithin, c.kill)
}

func (c *child) kill() {
	c.ended.Do(func() {
		_ = c.in.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
}

// Replica is the main function of a replica's process.
func Replica() int {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches the parent too, which closes our input
	out := json.NewEncoder(os.Stdout)
	last, code := message{}, cli.OK
	if r, err := serve(json.NewDecoder(os.Stdin), out); err != nil {
		last.Error, code = err.Error(), cli.Unavailable
	} else {
		last.Report = &r
	}
	if err := out.Encode(last); err != nil { // the parent is gone
		return cli.Failed
	}
	return code
}

func serve(in *json.Decoder, out *json.Encoder) (report, error) {
	var a assignment
	if err := in.Decode(&a); err != nil {
		return report{}, err
	}
	data, err := load()
	if err != nil {
		return report{}, err
	}
	rdb, err := cli.Connect(a.Redis)
	if err != nil {
		return report{}, err
	}
	defer rdb.Close()
	var store guard.Locker
	if a.Guarded {
		if store, err = redisstore.New(rdb, redisstore.Prefix(a.Prefix)); err != nil {
			return report{}, err
		}
	}
	r, err := newReplica(&remote{rdb, a.Prefix, a.Guarded}, store)
	if err != nil {
		return report{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return report{}, err
	}
	if err := out.Encode(message{Ready: true}); err != nil {
		return report{}, err
	}
	var begin struct{}
	if err := in.Decode(&begin); err != nil {
		return report{}, err
	}
	go func() {
		_ = in.Decode(&begin) // until the parent closes it, or is gone
		cancel()
	}()
	var n atomic.Int64
	var writing sync.Mutex
	rep := r.work(ctx, data.share(a.Replica, replicas), func() {
		if n.Add(1)%progressEvery == 0 {
			writing.Lock()
			defer writing.Unlock()
			_ = out.Encode(message{Handled: progressEvery})
		}
	})
	r.close()
	return rep, nil
}
