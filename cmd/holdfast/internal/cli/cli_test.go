package cli_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

func TestConnectChoosesTheClientByTheURL(t *testing.T) {
	for url, want := range map[string]redis.UniversalClient{
		"redis://u:p@localhost:6380/3":                         &redis.Client{},
		"rediss://localhost":                                   &redis.Client{},
		"unix:///run/redis.sock":                               &redis.Client{},
		"redis://localhost:6379?addr=localhost:6380":           &redis.ClusterClient{},
		"redis://localhost:26379?master_name=m&addr=other:263": &redis.Client{},
		"redis://localhost:26379?master_name=m":                &redis.Client{},
	} {
		c, err := cli.Connect(url)
		require.NoError(t, err, url)
		assert.IsType(t, want, c, url)
		require.NoError(t, c.Close())
	}
}

func TestConnectTakesTheURLFromTheEnvironment(t *testing.T) {
	t.Setenv(cli.EnvRedis, "")
	_, err := cli.Connect("")
	require.ErrorIs(t, err, cli.ErrNoRedis)

	t.Setenv(cli.EnvRedis, "redis://localhost:7777")
	c, err := cli.Connect("")
	require.NoError(t, err)
	assert.Equal(t, "localhost:7777", c.(*redis.Client).Options().Addr)
	require.NoError(t, c.Close())

	c, err = cli.Connect("redis://localhost:8888")
	require.NoError(t, err)
	assert.Equal(t, "localhost:8888", c.(*redis.Client).Options().Addr)
	require.NoError(t, c.Close())
}

func TestConnectNeverShowsThePassword(t *testing.T) {
	for _, url := range []string{
		"redis://user:hush/hush@localhost:6379",
		"redis://user:hu%sh@localhost",
		"redis://:hush hush@localhost:x",
		"user:hush@localhost:6379",
		"http://user:hush@localhost",
		"redis://user:hush@localhost/zero",
		"redis://user:hush@localhost?ttl=3",
	} {
		_, err := cli.Connect(url)
		require.Error(t, err, url)
		assert.NotContains(t, err.Error(), "hu", url)
	}
}

func TestSignalEndsAnInterruptibleContext(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, stop := cli.Interruptible(t.Context())
		_, ok := cli.Interrupted(ctx)
		assert.False(t, ok)
		raise(t, s)
		<-ctx.Done()
		code, ok := cli.Interrupted(ctx)
		assert.True(t, ok)
		assert.Equal(t, 128+int(s), code)
		stop()
	}
	ctx, stop := cli.Interruptible(t.Context())
	stop()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	_, ok := cli.Interrupted(ctx)
	assert.False(t, ok, "stop is no signal")
}

func TestOutputToAFileIsNotWatched(t *testing.T) {
	for _, name := range []string{os.DevNull, t.TempDir()} {
		f, err := os.Open(name)
		require.NoError(t, err)
		assert.False(t, cli.IsTerminal(f), name)
		require.NoError(t, f.Close())
	}
}
