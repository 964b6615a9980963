package contest

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func redislocks() []Contestant {
	one := func(name, in, about string, poll time.Duration) Contestant {
		return Contestant{
			Name: name, In: in, About: about,
			Open: func(_ context.Context, env Env) (Session, error) {
				rdb := client(env.Addrs[0])
				return &redislockSession{rdb, redislock.New(rdb), env.TTL, poll}, nil
			},
		}
	}
	return []Contestant{
		one("redislock", "w1 w2 w3 w4 w5", "polls every 100 ms, as in its README; by default it does not wait", 100*time.Millisecond),
		one("redislock-1ms", "w3 w4", "tuned: polls every 1 ms", time.Millisecond),
	}
}

type redislockSession struct {
	rdb  *redis.Client
	c    *redislock.Client
	ttl  time.Duration
	poll time.Duration
}

func (s *redislockSession) Close() error { return s.rdb.Close() }

func (s *redislockSession) Acquire(ctx context.Context, name string) (Lease, error) {
	l, err := s.obtain(ctx, name)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// obtain waits as long as ctx allows; Obtain alone gives up after one TTL.
func (s *redislockSession) obtain(ctx context.Context, name string) (*redislock.Lock, error) {
	for {
		l, err := s.c.Obtain(ctx, name, s.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(s.poll)})
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redislock.ErrNotObtained):
			return nil, err
		}
	}
}

func (s *redislockSession) Hold(ctx context.Context, name string) (Held, error) {
	l, err := s.obtain(ctx, name)
	if err != nil {
		return nil, err
	}
	return keep(l, s.ttl, func(ctx context.Context) error { return l.Refresh(ctx, s.ttl, nil) }), nil
}
