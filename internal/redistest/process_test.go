package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// child selects what TestChild does in the test binary that parent runs.
const child = "REDISTEST_CHILD"

// parent returns a command that runs TestChild in a process of its own.
func parent(t *testing.T, what string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), append(env, child+"="+what, "TMPDIR="+t.TempDir())...)
	return cmd
}

// TestChild is the process other tests look at; on its own it does nothing.
func TestChild(t *testing.T) {
	switch os.Getenv(child) {
	case "start":
		redistest.Start(t)
	case "start twice":
		t.Run("a", func(t *testing.T) { redistest.Start(t) })
		t.Run("b", func(t *testing.T) { redistest.Start(t) })
	case "shared":
		fmt.Println("addr", redistest.Shared(t).Addr())
	case "paused":
		began := time.Now()
		redistest.Paused(began)
		fmt.Println("go")
		_, _ = os.Stdin.Read(make([]byte, 1))
		fmt.Println(redistest.Paused(began).Milliseconds())
		fmt.Println(redistest.Paused(time.Now()).Milliseconds())
	case "wait":
		own, frozen := redistest.Start(t), redistest.Start(t)
		frozen.Freeze()
		asleep := exec.Command("sleep", "600")
		asleep.Stdout = os.Stdout
		require.NoError(t, asleep.Start())
		_, err := redistest.Reap(asleep.Process)
		require.NoError(t, err)
		fmt.Println("addr", own.Addr())
		fmt.Println("addr", frozen.Addr())
		fmt.Println("addr", redistest.Shared(t).Addr())
		select {}
	}
}

func TestMissingServerSkipsWithOneLoudLine(t *testing.T) {
	t.Parallel()
	cmd := parent(t, "start twice", redistest.EnvServer+"=/nowhere/redis-server", "CI=")
	var loud strings.Builder
	cmd.Stderr = &loud
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "--- SKIP: TestChild/b")
	require.Equal(t, 1, strings.Count(loud.String(), "SKIPPING EVERY TEST THAT NEEDS A SERVER"), loud.String())
	require.Contains(t, loud.String(), "apt-get install redis-server")
}

func TestMissingServerFailsInCI(t *testing.T) {
	t.Parallel()
	out, err := parent(t, "start", redistest.EnvServer+"=/nowhere/redis-server", "CI=true").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--- FAIL: TestChild")
	require.Contains(t, string(out), "apt-get install redis-server")
}

func TestServersEndWithAKilledTestBinary(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	cmd := parent(t, "wait")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var addrs []string
	for lines := bufio.NewScanner(out); len(addrs) < 3 && lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "addr "); ok {
			addrs = append(addrs, addr)
		}
	}
	require.NoError(t, cmd.Process.Kill())
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case <-closed:
	case <-time.After(soon):
		t.Fatal("the process that was to be reaped has our output open")
	}
	require.Error(t, cmd.Wait())
	require.Len(t, addrs, 3)
	requireGone(t, cmd, addrs...)
}

func TestSharedServerEndsWithTheTestBinary(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	cmd := parent(t, "shared")
	out, err := cmd.Output()
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(out), "addr ")
	require.True(t, ok)
	addr, _, _ := strings.Cut(rest, "\n")
	requireGone(t, cmd, addr)
}

// requireGone requires that cmd's servers and files go away.
func requireGone(t *testing.T, cmd *exec.Cmd, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		}, soon, tick, "server %s lives on", addr)
	}
	dir, ok := strings.CutPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	require.True(t, ok)
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	}, soon, tick, "files are left in %s", dir)
}

func TestBrokenArgumentsFailWithTheServersOwnWords(t *testing.T) {
	t.Parallel()
	r := &fatal{recorder: recorder{TB: t}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		redistest.Start(r, "--no-such-option", "1")
	}()
	<-done
	require.Len(t, r.said, 1)
	require.Contains(t, r.said[0], "no-such-option")
}
