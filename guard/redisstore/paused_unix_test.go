//go:build unix

package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const childAddr = "HOLDFAST_TEST_CHILD"

// TestChildProcess is the work of a process started by child, and nothing
// otherwise. It holds "x" until its standard input ends or the lease is lost.
func TestChildProcess(t *testing.T) {
	addr := os.Getenv(childAddr)
	if addr == "" {
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	g, err := guard.New(store, guard.TTL(600*time.Millisecond))
	require.NoError(t, err)
	over := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(over) }()
	err = guard.Do(context.Background(), g.Name("x"), func(ctx context.Context) error {
		fmt.Println("\nentered", fence.From(ctx))
		select {
		case <-ctx.Done():
			fmt.Println("\nended", time.Now().UnixMilli(), guard.Holds(ctx, g.Name("x")))
		case <-over:
		}
		return nil
	})
	fmt.Println("\nreturned", err)
}

// process is a holder or waiter that can be stopped in its tracks.
type process struct {
	*exec.Cmd
	stop  io.Closer
	lines chan string
}

func child(t *testing.T, s *redistest.Server) *process {
	t.Helper()
	return start(t, "TestChildProcess", childAddr+"="+s.Addr())
}

// start runs a test of this binary in a process of its own.
func start(t *testing.T, test, env string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	p := &process{cmd, in, make(chan string, 16)}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			for _, word := range []string{"entered", "ended", "sent", "returned"} {
				if strings.HasPrefix(scan.Text(), word) {
					p.lines <- scan.Text()
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		for range p.lines {
		}
		_ = cmd.Wait()
	})
	return p
}

// pause returns when no thread of the process runs any more.
func (p *process) pause(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
}

func (p *process) resume(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	select {
	case l := <-p.lines:
		return l
	case <-time.After(10 * time.Second):
		require.FailNow(t, "the process says nothing")
		return ""
	}
}

// The waiter stands still while it is granted the name, its window ends and a
// third process takes over. Awake, it reads the grant and must not believe it.
func TestAWaiterStoppedAcrossItsGrantDoesNotEnter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	held, err := guard.Acquire(t.Context(), g.Name("x"))
	require.NoError(t, err)
	p := child(t, s)
	isQueued(t, rdb, "x", 1)
	p.pause(t)
	require.NoError(t, held.Release())
	assert.NotEmpty(t, value(t, rdb, leaseKey("x")), "granted to the waiter")
	third, err := guard.Acquire(t.Context(), g.Name("x"))
	require.NoError(t, err)
	p.resume(t)
	isQueued(t, rdb, "x", 1)
	time.Sleep(300 * time.Millisecond)
	assert.Empty(t, p.lines, "two holders")
	require.NoError(t, third.Context().Err())
	require.NoError(t, third.Release())
	var token int64
	_, err = fmt.Sscanf(p.line(t), "entered %d", &token)
	require.NoError(t, err)
	assert.Greater(t, token, int64(third.Token()))
	require.NoError(t, p.stop.Close())
	assert.Equal(t, "returned <nil>", p.line(t))
	nothingLeft(t, s, "")
}

// A holder stands still beyond its lease while another enters. Awake, it knows.
func TestAHolderStoppedBeyondItsLeaseKnowsWhenAwake(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := child(t, s)
	require.Contains(t, p.line(t), "entered")
	p.pause(t)
	g := newGuard(t, rdb)
	next, err := guard.Acquire(t.Context(), g.Name("x"))
	require.NoError(t, err)
	before := value(t, rdb, leaseKey("x"))
	time.Sleep(100 * time.Millisecond)
	awake := time.Now()
	p.resume(t)
	var at int64
	var holds bool
	_, err = fmt.Sscanf(p.line(t), "ended %d %t", &at, &holds)
	require.NoError(t, err)
	assert.False(t, holds)
	assert.Less(t, time.UnixMilli(at).Sub(awake), time.Second)
	assert.Contains(t, p.line(t), "is over")
	assert.Equal(t, before[1:], value(t, rdb, leaseKey("x"))[1:])
	require.NoError(t, next.Context().Err())
	require.NoError(t, next.Release())
}

// Processes that were killed while they waited cost their windows, not more.
func TestDeadWaitersAreSteppedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	held, err := guard.Acquire(t.Context(), g.Name("x"))
	require.NoError(t, err)
	for i := range 5 {
		p := child(t, s)
		isQueued(t, rdb, "x", int64(i+1))
		p.pause(t) // as good as dead, and sends no FIN
	}
	live := newGuard(t, rdb)
	done := make(chan error, 1)
	var entered time.Time
	go func() {
		done <- guard.Do(t.Context(), live.Name("x"), func(context.Context) error { entered = time.Now(); return nil })
	}()
	isQueued(t, rdb, "x", 6)
	require.NoError(t, held.Release())
	released := time.Now()
	require.NoError(t, <-done)
	assert.Less(t, entered.Sub(released), 5*time.Second, "liveness and one claim window")
}
