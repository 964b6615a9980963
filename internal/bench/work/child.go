package work

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
)

// childEnv carries a job to a process of this very program.
const childEnv = "HOLDFAST_BENCH_JOB"

// job is what a child does: wait for a lock again and again, or hold many.
type job struct {
	Contestant string
	Env        contest.Env
	Shape      Shape
	Dur        time.Duration
}

// report is what a child says: an empty one once it is ready, and one at its end.
type report struct {
	Err     string
	Metrics Metrics
	Turns   [][]turnOf // by goroutine
}

// turnOf is one acquisition, in ns of the machine's monotonic clock, which all
// processes share.
type turnOf struct{ Asked, In, Out int64 }

// Child does the work of a child process and ends it. In any other process it
// returns at once: call it first in main.
func Child() {
	text, is := os.LookupEnv(childEnv)
	if !is {
		return
	}
	var j job
	say := gob.NewEncoder(os.Stdout)
	heard := bufio.NewReader(os.Stdin)
	err := json.Unmarshal([]byte(text), &j)
	begin := func() error {
		if err := say.Encode(report{}); err != nil {
			return err
		}
		// The parent says go; an error means that it is gone.
		_, err := heard.ReadString('\n')
		return err
	}
	var out report
	if err == nil {
		out, err = j.do(begin)
	}
	if err != nil {
		out.Err = err.Error()
	}
	if say.Encode(out) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func (j job) do(begin func() error) (report, error) {
	c, ok := contest.Find(j.Contestant)
	if !ok {
		return report{}, fmt.Errorf("no contestant %q", j.Contestant)
	}
	s, err := start(c, j.Env)
	if err != nil {
		return report{}, err
	}
	if j.Shape.Leases > 0 {
		return j.hold(s, begin)
	}
	return j.contend(s, begin)
}

// child is the parent's side.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *gob.Decoder
}

// spawn starts a child and returns once it is ready.
func spawn(j job, within time.Duration) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.out = gob.NewDecoder(out)
	var r report
	err = c.hear(&r, within)
	if err == nil && r.Err != "" {
		err = errors.New(r.Err)
	}
	if err != nil {
		c.end()
		return nil, fmt.Errorf("not ready: %w", err)
	}
	return c, nil
}

// hear reads what the child says next. A child that says nothing is ended.
func (c *child) hear(what any, within time.Duration) error {
	defer time.AfterFunc(within, func() { _ = c.cmd.Process.Kill() }).Stop()
	return c.out.Decode(what)
}

func (c *child) begin() { _, _ = fmt.Fprintln(c.in, "go") }

// result is what the child reports.
func (c *child) result(within time.Duration) (report, error) {
	var out report
	defer c.end()
	if err := c.hear(&out, within); err != nil {
		return out, err
	}
	if out.Err != "" {
		return out, fmt.Errorf("child: %s", out.Err)
	}
	return out, nil
}

func (c *child) end() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
