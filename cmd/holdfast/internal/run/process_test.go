//go:build unix

package run_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { clitest.Main(m.Run) }

const (
	soon = time.Minute
	tick = 2 * time.Millisecond
)

func held(t *testing.T, rdb *redis.Client, name string) bool {
	t.Helper()
	n, err := rdb.Exists(t.Context(), "lock:{"+name+"}").Result()
	require.NoError(t, err)
	return n == 1
}

// rival holds name as another process would.
func rival(t *testing.T, s *redistest.Server, parts ...string) *guard.Held {
	t.Helper()
	g := guard.Must(guard.New(guard.Must(redisstore.New(s.Client(t))), guard.Label("the rival")))
	h, err := guard.Acquire(t.Context(), g.Name(parts...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Release() })
	return h
}
