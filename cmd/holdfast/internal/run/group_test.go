//go:build unix

package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/run"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSignalEndsTheWait(t *testing.T) {
	s := redistest.Shared(t)
	rdb, name := s.Client(t), redistest.Unique(t)
	rival(t, s, name)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := clitest.Begin(t, clitest.On(s, name, []string{"--", "echo", "ran"})...)
		queue := func() int64 { return rdb.ZCard(t.Context(), "lock:{"+name+"}:q").Val() }
		require.Eventually(t, func() bool { return queue() == 1 }, soon, tick)
		p.Signal(sig)
		assert.Equal(t, cli.Signalled+int(sig), p.End(), p.Err.String())
		assert.Empty(t, p.Out.String())
		assert.Zero(t, queue(), "the place in the queue is given up")
	}
}

func TestSignalsReachTheWholeGroup(t *testing.T) {
	s := redistest.Shared(t)
	for _, sig := range []string{"INT", "TERM", "HUP", "QUIT"} {
		name, l := redistest.Unique(t), clitest.Listen(t)
		inner := fmt.Sprintf(`trap "echo grandchild >&9; exit" %s; echo up >&9; while :; do sleep 0.01; done`, sig)
		p := clitest.Begin(t, clitest.On(s, name, l.Shell(fmt.Sprintf(`trap : %s; sh -c '%s'; exit 4`, sig, inner)))...)
		require.Equal(t, "up", l.Next())
		p.Signal(map[string]syscall.Signal{
			"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		}[sig])
		assert.Equal(t, "grandchild", l.Next(), sig)
		assert.Equal(t, 4, p.End(), sig)
		assert.False(t, held(t, s.Client(t), name), "the lock is given back")
	}
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	s := redistest.Shared(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	cmd := clitest.Command(append([]string{"run"}, clitest.On(s, name, l.Shell("echo up >&9; sleep 0.2; exit 6"))...)...)
	sh := exec.Command("sh", append([]string{"-c", `trap '' HUP; exec "$0" "$@"`}, cmd.Args...)...)
	sh.Args[3] = cmd.Path
	sh.Env = cmd.Env
	require.NoError(t, sh.Start())
	require.Equal(t, "up", l.Next())
	require.NoError(t, sh.Process.Signal(syscall.SIGHUP))
	_ = sh.Wait()
	assert.Equal(t, 6, sh.ProcessState.ExitCode())
}

func TestLockCoversWhatTheCommandLeftRunning(t *testing.T) {
	s := redistest.Shared(t)
	rdb, name, l := s.Client(t), redistest.Unique(t), clitest.Listen(t)
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	p := clitest.Begin(t, clitest.On(s, name, l.Shell("(read go <'"+gate+"') & echo $$ >&9; exit 3"))...)
	leader, err := strconv.Atoi(l.Next())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(leader, 0) == syscall.ESRCH }, soon, tick)
	assert.True(t, held(t, rdb, name))
	require.NoError(t, os.WriteFile(gate, []byte("go\n"), 0o600))
	assert.Equal(t, 3, p.End())
	l.Over()
	assert.False(t, held(t, rdb, name))
}

func TestLostLockEndsTheGroup(t *testing.T) {
	s := redistest.Shared(t)
	rdb := s.Client(t)
	for _, tc := range []struct{ name, script, said string }{
		{"that listens", `trap 'echo told >&9; exit 0' TERM; echo up >&9; while :; do sleep 0.01; done`, "told"},
		{"that does not", `trap '' TERM; sleep 1000 & echo up >&9; wait`, ""},
		{"whose parent has gone", `(trap '' TERM; exec sleep 1000) & echo up >&9`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name, l := redistest.Unique(t), clitest.Listen(t)
			p := clitest.Begin(t, clitest.On(s, name, l.Shell(tc.script), "--ttl=1s")...)
			require.Equal(t, "up", l.Next())
			require.NoError(t, rdb.Del(t.Context(), "lock:{"+name+"}").Err())
			if tc.said != "" {
				assert.Equal(t, tc.said, l.Next())
			}
			l.Over()
			assert.Equal(t, cli.Lost, p.End(), p.Err.String())
			assert.Contains(t, p.Err.String(), "lost")
		})
	}
}

func TestRivalsLockIsLeftAloneAfterALoss(t *testing.T) {
	s := redistest.Shared(t)
	rdb, name, l := s.Client(t), redistest.Unique(t), clitest.Listen(t)
	p := clitest.Begin(t, clitest.On(s, name, l.Shell("echo up >&9; exec sleep 1000"), "--ttl=1s")...)
	require.Equal(t, "up", l.Next())
	require.NoError(t, rdb.Del(t.Context(), "lock:{"+name+"}").Err())
	r := rival(t, s, name)
	assert.Equal(t, cli.Lost, p.End())
	require.NoError(t, r.Release(), "the rival still held it")
}

func TestGroupEndsWhenHoldfastIsKilled(t *testing.T) {
	s := redistest.Shared(t)
	for _, tc := range []struct{ name, script, said string }{
		{"and listens", `trap 'echo told >&9; exit 0' TERM; echo up >&9; while :; do sleep 0.01; done`, "told"},
		{"and does not listen", `trap '' TERM; sleep 1000 & echo up >&9; wait`, ""},
		{"and is stopped", `echo up >&9; kill -STOP $$`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name, l := redistest.Unique(t), clitest.Listen(t)
			p := clitest.Begin(t, clitest.On(s, name, l.Shell(tc.script), "--ttl=1s")...)
			require.Equal(t, "up", l.Next())
			p.Signal(syscall.SIGKILL)
			if tc.said != "" {
				assert.Equal(t, tc.said, l.Next())
			}
			l.Over()
		})
	}
}

func TestGroupEndsThoughNobodyReadsWhatHoldfastSays(t *testing.T) {
	s := redistest.Shared(t)
	for _, tc := range []struct {
		name string
		end  func(p *clitest.Process, name string)
		code int
	}{
		{"after a loss", func(_ *clitest.Process, name string) {
			require.NoError(t, s.Client(t).Del(t.Context(), "lock:{"+name+"}").Err())
		}, cli.Lost},
		{"after a kill", func(p *clitest.Process, _ string) { p.Signal(syscall.SIGKILL) }, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name, l := redistest.Unique(t), clitest.Listen(t)
			p := clitest.Prepare(t, clitest.On(s, name, l.Shell(`trap 'echo told >&9; exit 0' TERM; sleep 1000 & echo up >&9; wait`), "--ttl=1s")...)
			r, w, err := os.Pipe()
			require.NoError(t, err)
			p.Stderr = w
			p.Start()
			require.NoError(t, w.Close())
			require.NoError(t, r.Close())
			require.Equal(t, "up", l.Next())
			tc.end(p, name)
			assert.Equal(t, "told", l.Next())
			l.Over()
			assert.Equal(t, tc.code, p.End())
		})
	}
}

func TestCommandDoesNotRunIfHoldfastDiesWhileStartingIt(t *testing.T) {
	gate, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, w.Close())
	cmd := clitest.Command(run.LauncherCommand, "/bin/sh", "sh", "-c", "echo ran")
	cmd.ExtraFiles = []*os.File{gate}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Empty(t, string(out))
}

func TestWatchdogGoesWithTheCommand(t *testing.T) {
	s := redistest.Shared(t)
	r, w, err := os.Pipe() // the watchdog has our stderr, so it is the last to close this
	require.NoError(t, err)
	cmd := clitest.Command(append([]string{"run"}, clitest.On(s, redistest.Unique(t), []string{"--", "true"})...)...)
	cmd.Stderr = w
	require.NoError(t, cmd.Run())
	require.NoError(t, w.Close())
	require.NoError(t, r.SetReadDeadline(time.Now().Add(soon)))
	n, _ := r.Read(make([]byte, 1))
	assert.Zero(t, n)
}
