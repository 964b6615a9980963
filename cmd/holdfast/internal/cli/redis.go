package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/redis/go-redis/v9"
)

// EnvRedis is the environment variable that stands in for --redis.
const EnvRedis = "HOLDFAST_REDIS"

// RedisHelp describes the URLs that [Connect] takes.
const RedisHelp = `redis://[user:password@]host[:port][/db], rediss:// for TLS, unix:// for a socket;
with ?addr=host:port for a Cluster, with ?master_name=NAME for Sentinel`

// ErrNoRedis says that nobody has said which Redis to use. There is no default:
// a lock on the wrong server excludes nobody.
var ErrNoRedis = errors.New("no Redis given: use --redis redis://host:6379 or set " + EnvRedis)

var errBadURL = errors.New("cannot be read; special characters in a password are written as %XX")

// Connect returns a client for the server behind rawURL, or for the one in
// [EnvRedis] if rawURL is empty. It sends nothing yet, and reports a server that
// refuses connections soon. An error never shows the password.
func Connect(rawURL string) (redis.UniversalClient, error) {
	if rawURL == "" {
		rawURL = os.Getenv(EnvRedis)
	}
	if rawURL == "" {
		return nil, ErrNoRedis
	}
	client, err := connect(rawURL)
	if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
		err = errBadURL // the original quotes what may be the password
	}
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", err)
	}
	redis.SetLogger(silent{}) // what matters is returned, and reported by us
	return client, nil
}

func connect(rawURL string) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	switch q := u.Query(); {
	case q.Has("master_name"):
		o, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		return redis.NewFailoverClient(o), nil
	case q.Has("addr"):
		o, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	return redis.NewClient(o), nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
