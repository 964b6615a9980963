//go:build unix

package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestExitCodeIsTheCommandsOwn(t *testing.T) {
	s := redistest.Shared(t)
	notExecutable := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(notExecutable, []byte("#!/bin/sh\n"), 0o600))
	wrongFormat := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(wrongFormat, []byte("\x7fELF nothing"), 0o700))
	for _, tc := range []struct {
		code    int
		command []string
	}{
		{0, []string{"true"}},
		{1, []string{"false"}},
		{75, []string{"sh", "-c", "exit 75"}},
		{255, []string{"sh", "-c", "exit 255"}},
		{cli.Signalled + 9, []string{"sh", "-c", "kill -KILL $$"}},
		{cli.Signalled + 15, []string{"sh", "-c", "kill -TERM $$"}},
		{cli.NotFound, []string{"no-such-command-anywhere"}},
		{cli.CannotRun, []string{notExecutable}},
		{cli.CannotRun, []string{wrongFormat}},
	} {
		name := redistest.Unique(t)
		p := clitest.Begin(t, clitest.On(s, name, append([]string{"--"}, tc.command...))...)
		assert.Equal(t, tc.code, p.End(), "%v: %s", tc.command, p.Err.String())
		assert.False(t, held(t, s.Client(t), name), "%v: the lock stays behind", tc.command)
	}
}

func TestUsageIsExplained(t *testing.T) {
	for _, tc := range []struct{ says, args string }{
		{"name of the lock is missing", ""},
		{`"--" and the command must follow`, "x"},
		{`"--" and the command must follow`, "x true"},
		{"flags come before", "x --no-wait -- true"},
		{"no command", "x --"},
		{"not defined: -fast", "--fast x -- true"},
		{"exclude each other", "--wait 1s --no-wait x -- true"},
		{"want 0 or more", "--wait -1s x -- true"},
		{"want 1s to 24h", "--ttl 999ms x -- true"},
		{"want 1s to 24h", "--ttl 24h1s x -- true"},
		{"want 0 to 255", "--conflict-exit 256 x -- true"},
		{"part 2 is empty", "a/ -- true"},
		{"HOLDFAST_REDIS", "x -- true"},
		{"invalid URL scheme", "--redis http://localhost x -- true"},
		{"Prefix", "--redis redis://localhost --prefix {} x -- true"},
		{"Label", "--redis redis://localhost --label \x01 x -- true"},
	} {
		p := clitest.Begin(t, strings.Fields(tc.args)...)
		assert.Equal(t, cli.Usage, p.End(), tc.args)
		assert.Contains(t, p.Err.String(), tc.says, tc.args)
	}
	p := clitest.Begin(t, "--redis", "redis://user:se%cret@localhost", "x", "--", "true")
	assert.Equal(t, cli.Usage, p.End())
	assert.NotContains(t, p.Err.String(), "cret", "the password")

	p = clitest.Begin(t, "--help")
	assert.Equal(t, 0, p.End())
	assert.Contains(t, p.Out.String(), "usage: holdfast run")
	assert.NotContains(t, p.Out.String(), "%!", "a broken format")
}

func TestServerIsTakenFromTheEnvironment(t *testing.T) {
	cmd := clitest.Command("run", redistest.Unique(t), "--", "true")
	cmd.Env = append(cmd.Env, cli.EnvRedis+"=redis://"+redistest.Shared(t).Addr())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestDeadServerIsNoConflict(t *testing.T) {
	s := redistest.Start(t)
	s.Stop()
	for _, flag := range []string{"--no-wait", "--wait=300ms"} {
		p := clitest.Begin(t, clitest.On(s, "x", []string{"--", "echo", "ran"}, flag)...)
		assert.Equal(t, cli.Unavailable, p.End())
		assert.Contains(t, p.Err.String(), "unavailable")
		assert.Empty(t, p.Out.String())
	}
}

func TestCommandKnowsItsLock(t *testing.T) {
	s := redistest.Shared(t)
	rdb, name := s.Client(t), redistest.Unique(t)+"/42"
	before := time.Now()
	p := clitest.Begin(t, clitest.On(s, name, []string{"--", "sh", "-c", "env; cat >&2"}, "--ttl", "20s", "--prefix", "my-", "--label", "me")...)
	require.Equal(t, 0, p.End(), p.Err.String())
	after := time.Now()
	env := map[string]string{}
	for line := range strings.Lines(p.Out.String()) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[k] = v
	}
	assert.Equal(t, name, env["HOLDFAST_NAME"])
	mark, err := rdb.Get(t.Context(), "my-lock:{"+name+"}:fence").Result()
	require.NoError(t, err)
	mark, _, _ = strings.Cut(mark, "|")
	assert.Equal(t, mark, env["HOLDFAST_TOKEN"])
	until, err := time.Parse(time.RFC3339, env["HOLDFAST_UNTIL"])
	require.NoError(t, err)
	assert.WithinRange(t, until, before.Add(19*time.Second), after.Add(20*time.Second))
	assert.Contains(t, p.Out.String(), "PATH=", "the rest of the environment")
}

func TestLockIsHeldWhileTheCommandRuns(t *testing.T) {
	s := redistest.Shared(t)
	rdb, name, l := s.Client(t), redistest.Unique(t), clitest.Listen(t)
	p := clitest.Prepare(t, clitest.On(s, name, l.Shell("echo up >&9; read line; echo got $line; echo bad $line >&2"))...)
	keyboard, err := p.StdinPipe()
	require.NoError(t, err)
	p.Start()
	require.Equal(t, "up", l.Next())
	assert.True(t, held(t, rdb, name))
	_, err = keyboard.Write([]byte("news\n"))
	require.NoError(t, err)
	assert.Equal(t, 0, p.End())
	assert.Equal(t, "got news\n", p.Out.String())
	assert.Equal(t, "bad news\n", p.Err.String())
	assert.False(t, held(t, rdb, name))
}

func TestHeldLockIsAConflict(t *testing.T) {
	s := redistest.Shared(t)
	name := redistest.Unique(t)
	rival(t, s, name, "a/b")
	command := []string{"--", "echo", "ran"}
	for _, tc := range []struct {
		code  int
		flags []string
	}{
		{cli.Conflict, []string{"--no-wait"}},
		{cli.Conflict, []string{"--wait=0s"}},
		{cli.Conflict, []string{"--wait=200ms"}},
		{7, []string{"--no-wait", "--conflict-exit=7"}},
		{0, []string{"--no-wait", "--conflict-exit=0"}},
	} {
		began := time.Now()
		p := clitest.Begin(t, clitest.On(s, name+"/a%2Fb", command, tc.flags...)...)
		assert.Equal(t, tc.code, p.End(), "%v: %s", tc.flags, p.Err.String())
		assert.Contains(t, p.Err.String(), "the rival")
		assert.Empty(t, p.Out.String(), "%v: the command ran", tc.flags)
		if tc.flags[0] == "--wait=200ms" {
			assert.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
		}
	}
}

func TestCommandWaitsForItsTurn(t *testing.T) {
	s := redistest.Shared(t)
	rdb, name := s.Client(t), redistest.Unique(t)
	r := rival(t, s, name)
	p := clitest.Begin(t, clitest.On(s, name, []string{"--", "sh", "-c", "echo $HOLDFAST_TOKEN $HOLDFAST_UNTIL"})...)
	queued := func() bool {
		n, err := rdb.ZCard(t.Context(), "lock:{"+name+"}:q").Result()
		return err == nil && n == 1
	}
	require.Eventually(t, queued, soon, tick)
	token := r.Token()
	require.NoError(t, r.Release())
	require.Equal(t, 0, p.End(), p.Err.String())
	var got int64
	var at string
	_, err := fmt.Sscan(p.Out.String(), &got, &at)
	require.NoError(t, err)
	assert.Greater(t, got, int64(token))
	until, err := time.Parse(time.RFC3339, at)
	require.NoError(t, err)
	assert.Greater(t, time.Until(until), 20*time.Second, "the lease was renewed before the command began")
}
