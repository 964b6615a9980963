package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	soon    = 20 * time.Second      // generous: a condition that will come true
	tick    = 2 * time.Millisecond  // how often it is looked at
	silence = 60 * time.Millisecond // how long nothing may happen
)

// once makes a client do nothing on its own: one connection, no retry.
func once(o *redis.Options) {
	o.MaxRetries, o.PoolSize = -1, 1
	o.ContextTimeoutEnabled = true
}

func resp2(o *redis.Options) { o.Protocol = 2 }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// silent requires that do gets no answer for a while.
func silent(t *testing.T, do func(ctx context.Context) error) {
	t.Helper()
	err := do(within(t, silence))
	var timeout net.Error // go-redis passes either this or the error of the context on
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "want no answer, got %v", err)
}

func set(c *redis.Client, key string) func(context.Context) error {
	return func(ctx context.Context) error { return c.Set(ctx, key, "v", 0).Err() }
}

func exists(t *testing.T, c *redis.Client, key string) bool {
	t.Helper()
	n, err := c.Exists(t.Context(), key).Result()
	require.NoError(t, err)
	return n == 1
}

func appears(t *testing.T, c *redis.Client, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return exists(t, c, key) }, soon, tick)
}

// recorder is a test that only notes what it is told.
type recorder struct {
	testing.TB
	said     []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, a ...any) {
	r.said = append(r.said, fmt.Sprintf(format, a...))
}

// fatal is a recorder that ends the calling goroutine as a test would.
type fatal struct{ recorder }

func (f *fatal) Fatal(a ...any) {
	f.said = append(f.said, fmt.Sprint(a...))
	runtime.Goexit()
}
