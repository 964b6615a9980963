package contest

import (
	"context"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

func redsyncs() []Contestant {
	fast := []redsync.Option{redsync.WithRetryDelay(time.Millisecond), redsync.WithTries(1 << 30)}
	return []Contestant{
		redsyncOf("redsync", "w1 w2 w3 w4 w5", "defaults: polls after 50 to 250 ms", 1, goRedisPool),
		redsyncOf("redsync-1ms", "w3 w4", "tuned: polls every 1 ms", 1, goRedisPool, fast...),
		redsyncOf("redsync-rueidis", "w1 w2 w3 w4", "tuned: on rueidis instead of go-redis, polls every 1 ms", 1, rueidisPool, fast...),
		redsyncOf("redsync-5", "w6", "defaults, on five servers", 5, goRedisPool),
		redsyncOf("redsync-5-failfast", "w6", "tuned: WithFailFast, on five servers", 5, goRedisPool, redsync.WithFailFast(true)),
	}
}

type openPool func(addr string) (redis.Pool, func(), error)

func goRedisPool(addr string) (redis.Pool, func(), error) {
	rdb := client(addr)
	return goredis.NewPool(rdb), func() { _ = rdb.Close() }, nil
}

func rueidisPool(addr string) (redis.Pool, func(), error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return nil, nil, err
	}
	return rueidispool.NewPool(rueidiscompat.NewAdapter(c)), c.Close, nil
}

func redsyncOf(name, in, about string, nodes int, pool openPool, opts ...redsync.Option) Contestant {
	return Contestant{
		Name: name, In: in, About: about, Nodes: nodes, Sends: []string{"set", "evalsha", "eval"},
		Open: func(_ context.Context, env Env) (Session, error) {
			s := &redsyncSession{ttl: env.TTL, opts: append(slices.Clip(opts), redsync.WithExpiry(env.TTL))}
			var pools []redis.Pool
			for _, addr := range env.Addrs[:nodes] {
				p, end, err := pool(addr)
				if err != nil {
					return nil, err
				}
				pools, s.ends = append(pools, p), append(s.ends, end)
			}
			s.rs = redsync.New(pools...)
			return s, nil
		},
	}
}

type redsyncSession struct {
	rs   *redsync.Redsync
	opts []redsync.Option
	ttl  time.Duration
	ends []func()
}

type redsyncLease struct{ m *redsync.Mutex }

func (l redsyncLease) Release(ctx context.Context) error {
	_, err := l.m.UnlockContext(ctx)
	return err
}

func (s *redsyncSession) Close() error {
	for _, end := range s.ends {
		end()
	}
	return nil
}

// Acquire waits as long as ctx allows; LockContext gives up after 32 tries.
func (s *redsyncSession) Acquire(ctx context.Context, name string) (Lease, error) {
	m := s.rs.NewMutex(name, s.opts...)
	for {
		if err := m.LockContext(ctx); err == nil {
			return redsyncLease{m}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *redsyncSession) Hold(ctx context.Context, name string) (Held, error) {
	l, err := s.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return keep(l, s.ttl, func(ctx context.Context) error {
		ok, err := l.(redsyncLease).m.ExtendContext(ctx)
		if err == nil && !ok {
			err = ErrLost
		}
		return err
	}), nil
}
