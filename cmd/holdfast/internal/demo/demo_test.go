package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { clitest.Main(m.Run) }

const (
	soon = time.Minute
	tick = 5 * time.Millisecond
)

// play runs the demo and returns what it printed.
func play(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := clitest.Command(append([]string{"demo"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return stdout.String() + stderr.String(), cmd.ProcessState.ExitCode()
}

// cell is the number in a row of the table, column 0 or 1.
func cell(t *testing.T, out, row string, column int) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if cells, ok := strings.CutPrefix(line, row); ok {
			return strings.Fields(cells)[column]
		}
	}
	require.Fail(t, "no such row", "%s in\n%s", row, out)
	return ""
}

func checkProof(t *testing.T, out string, code int) {
	t.Helper()
	require.Equal(t, cli.OK, code, out)
	assert.NotEqual(t, "0", cell(t, out, "units OVERSOLD", 0))
	assert.Equal(t, "0", cell(t, out, "units OVERSOLD", 1))
	assert.Equal(t, "0", cell(t, out, "products with a wrong stock", 1))
	assert.Contains(t, out, "product/", "the most contended names")
	assert.NotContains(t, out, "\r", "a progress bar where nobody watches")
}

func TestEmbeddedDemoOversellsWithoutALockOnly(t *testing.T) {
	out, code := play(t)
	checkProof(t, out, code)
}

func TestDemoOnRedisOversellsWithoutALockOnlyAndRemovesItsKeys(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "somebody-elses", "v", 0).Err())
	out, code := play(t, "--redis", "redis://"+s.Addr())
	checkProof(t, out, code)
	assert.Equal(t, []string{"somebody-elses"}, keys(t, rdb))
}

func TestDemoThatIsInterruptedRemovesItsKeysAndProcesses(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	cmd := clitest.Command("demo", "--redis", "redis://"+s.Addr())
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { // in the midst of the second pass
		n, err := rdb.Keys(t.Context(), "holdfast-demo:*lock:*").Result()
		return err == nil && len(n) > 20
	}, soon, tick)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	assert.Equal(t, cli.Signalled+int(syscall.SIGINT), cmd.ProcessState.ExitCode())
	assert.Empty(t, keys(t, rdb))
	assert.Eventually(t, func() bool {
		clients, err := rdb.ClientList(t.Context()).Result()
		return err == nil && strings.Count(clients, "\n") == 1
	}, soon, tick, "replicas are still connected")
}

func TestReplicasEndWhenTheDemoIsKilled(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	cmd := clitest.Command("demo", "--redis", "redis://"+s.Addr())
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(keys(t, rdb)) > 0 }, soon, tick)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	assert.Eventually(t, func() bool {
		clients, err := rdb.ClientList(t.Context()).Result()
		return err == nil && strings.Count(clients, "\n") == 1
	}, soon, tick, "replicas are still connected")
	for _, k := range keys(t, rdb) {
		ttl, err := rdb.PTTL(t.Context(), k).Result()
		require.NoError(t, err)
		assert.NotEqual(t, time.Duration(-1), ttl, "%s stays for ever", k)
	}
}

func TestReplicaStopsWhenItsInputEnds(t *testing.T) {
	cmd := clitest.Command(demo.ReplicaCommand)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	addr := redistest.Shared(t).Addr()
	_, err = fmt.Fprintf(in, `{"Redis": "redis://%s", "Prefix": "%s:", "Guarded": true} {}`+"\n", addr, redistest.Unique(t))
	require.NoError(t, err)
	type message struct {
		Handled int
		Report  *struct{ Handled int }
	}
	for d, m := json.NewDecoder(out), (message{}); ; {
		require.NoError(t, d.Decode(&m))
		if m.Report != nil {
			assert.Less(t, m.Report.Handled, 2400/4, "of its share")
			break
		}
		if m.Handled > 0 {
			_ = in.Close()
		}
	}
	require.NoError(t, cmd.Wait())
}

func TestDemoSaysThatRedisCannotBeAsked(t *testing.T) {
	s := redistest.Start(t)
	s.Stop()
	out, code := play(t, "--redis", "redis://"+s.Addr())
	assert.Equal(t, cli.Unavailable, code)
	assert.Contains(t, out, "refused")
}

func TestDemoRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, args := range [][]string{{"now"}, {"--rounds", "2"}, {"--redis", "http://localhost"}} {
		out, code := play(t, args...)
		assert.Equal(t, cli.Usage, code, "%v: %s", args, out)
	}
	out, code := play(t, "--help")
	assert.Equal(t, cli.OK, code)
	assert.Contains(t, out, "2400 orders for 60 products")
}

func keys(t *testing.T, rdb *redis.Client) []string {
	t.Helper()
	k, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	return k
}

func TestVerdictFollowsWhatWasSold(t *testing.T) {
	type m = map[string]int
	stock := m{"a": 10, "b": 5}
	honest := demo.Pass(stock, m{"a": 0, "b": 1}, m{"a": 10, "b": 4}, 0)
	oversold := demo.Pass(stock, m{"a": 2, "b": 1}, m{"a": 11, "b": 4}, 0)
	miscounted := demo.Pass(stock, m{"a": 3, "b": 5}, m{"a": 8, "b": 0}, 0)
	failing := demo.Pass(stock, m{"a": 3, "b": 5}, m{"a": 8, "b": 0}, 1)
	for _, tc := range []struct {
		name          string
		without, with any
		code          int
	}{
		{"oversold without a lock only", oversold, honest, cli.OK},
		{"nothing oversold without a lock", honest, honest, cli.Failed},
		{"a wrong stock is not an oversold one", miscounted, honest, cli.Failed},
		{"oversold under the lock", oversold, oversold, cli.Failed},
		{"a wrong stock under the lock", oversold, miscounted, cli.Failed},
		{"orders failed under the lock", oversold, failing, cli.Unavailable},
		{"orders failed without a lock", failing, honest, cli.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := demo.VerdictOf(tc.without, tc.with)
			assert.Equal(t, tc.code, code, text)
		})
	}
}

func TestWaitsAreSummedUpByQuantiles(t *testing.T) {
	p := demo.Pass(nil, nil, nil, 0)
	assert.Zero(t, demo.Wait(p, 0.5))
	var waits []time.Duration
	for i := 100; i >= 1; i-- {
		waits = append(waits, time.Duration(i)*time.Millisecond)
	}
	p = demo.SetWaits(p, waits...)
	assert.Equal(t, 50*time.Millisecond, demo.Wait(p, 0.50))
	assert.Equal(t, 99*time.Millisecond, demo.Wait(p, 0.99))
}

func TestShelfRefusesAStaleToken(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		checkFenced(t, demo.NewShelf(true, map[string]int{"a": 7}))
	})
	t.Run("in Redis", func(t *testing.T) {
		rdb := redistest.Shared(t).Client(t)
		s, err := demo.NewRedisShelf(t.Context(), rdb, redistest.Unique(t), map[string]int{"a": 7})
		require.NoError(t, err)
		checkFenced(t, s)
	})
}

func checkFenced(t *testing.T, s demo.Shelf) {
	t.Helper()
	refused := 0
	as := func(token fence.Token, owner string) context.Context {
		g := fence.Grant{Name: "product/a", Token: token, Owner: owner}
		return fence.NewContext(t.Context(), g, func(*fence.StaleError) { refused++ })
	}
	first, second := as(64, "first"), as(128, "second")
	units, err := s.Read(first, "a")
	require.NoError(t, err)
	require.Equal(t, 7, units)
	units, err = s.Read(second, "a") // the mark rises with the read already
	require.NoError(t, err)
	require.Equal(t, 7, units)
	require.ErrorIs(t, s.Write(first, "a", 6), fence.ErrStale)
	require.ErrorIs(t, s.Write(as(128, "impostor"), "a", 6), fence.ErrStale)
	require.ErrorIs(t, s.Write(t.Context(), "a", 6), fence.ErrMissing)
	require.NoError(t, s.Write(second, "a", 5))
	units, err = s.Read(second, "a")
	require.NoError(t, err)
	assert.Equal(t, 5, units)
	assert.Equal(t, 2, refused, "the lock hears of what was refused")
}

func TestBarShowsHowFarAPassIsAndGoesAway(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stop := demo.Progress(w, 10, 5)
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), "[####################....................]    5/10") {
		n, err := r.Read(buf)
		require.NoError(t, err)
		seen.Write(buf[:n])
	}
	stop()
	require.NoError(t, w.Close())
	for err = nil; err == nil; {
		var n int
		n, err = r.Read(buf)
		seen.Write(buf[:n])
	}
	lines := strings.Split(seen.String(), "\r")
	assert.Empty(t, strings.TrimSpace(lines[len(lines)-2]), "the bar is overwritten")
}
