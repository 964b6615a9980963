//go:build unix

package timing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const demoWithin = 15 * time.Second

func TestDemoHandlesAllOrdersWithin15Seconds(t *testing.T) {
	for _, args := range [][]string{{"demo"}, {"demo", "--redis", "redis://" + redistest.Shared(t).Addr()}} {
		began := time.Now()
		out, err := clitest.Command(args...).CombinedOutput()
		assert.Less(t, time.Since(began), demoWithin)
		require.NoError(t, err, string(out))
		assert.Equal(t, []string{"orders", "handled", "2400", "2400"}, fieldsOf(string(out), "orders handled"))
	}
}

func fieldsOf(out, row string) []string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, row) {
			return strings.Fields(line)
		}
	}
	return nil
}

func TestDemoOnAFrozenServerEndsWithin15Seconds(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	cmd := clitest.Command("demo", "--redis", "redis://"+s.Addr())
	began := time.Now()
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { // the second pass
		n, err := rdb.Keys(t.Context(), "*lock:*").Result()
		return err == nil && len(n) > 20
	}, demoWithin, time.Millisecond)
	s.Freeze()
	_ = cmd.Wait()
	assert.Less(t, time.Since(began), demoWithin)
	assert.Equal(t, cli.Unavailable, cmd.ProcessState.ExitCode())
}
