package contest

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// floorPoll is how often the floor asks while the name is taken.
const floorPoll = time.Millisecond

var (
	floorRelease = redis.NewScript(`if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0`)
	floorRenew   = redis.NewScript(`if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0`)
)

func floor() Contestant {
	return Contestant{
		Name: "floor", About: "raw go-redis: SET NX PX, EVALSHA of a compare-and-delete; polls every 1 ms; no tokens",
		In: "w1 w2 w3 w4 w5", Sends: []string{"set", "evalsha"},
		Open: func(ctx context.Context, env Env) (Session, error) {
			s := &floorSession{rdb: client(env.Addrs[0]), ttl: env.TTL, prefix: rand.Text()[:8] + "-"}
			return s, errors.Join(floorRelease.Load(ctx, s.rdb).Err(), floorRenew.Load(ctx, s.rdb).Err())
		},
	}
}

// client is a go-redis client with the settings it has by default.
func client(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

type floorSession struct {
	rdb    *redis.Client
	ttl    time.Duration
	prefix string
	n      atomic.Uint64
}

type floorLease struct {
	s           *floorSession
	name, owner string
}

func (s *floorSession) Close() error { return s.rdb.Close() }

func (s *floorSession) Acquire(ctx context.Context, name string) (Lease, error) {
	return s.acquire(ctx, name)
}

func (s *floorSession) acquire(ctx context.Context, name string) (*floorLease, error) {
	var buf [32]byte
	l := &floorLease{s, name, string(strconv.AppendUint(append(buf[:0], s.prefix...), s.n.Add(1), 36))}
	for {
		ok, err := s.rdb.SetNX(ctx, name, l.owner, s.ttl).Result()
		if err != nil {
			return nil, err
		}
		if ok {
			return l, nil
		}
		if err := sleep(ctx, floorPoll); err != nil {
			return nil, err
		}
	}
}

func (l *floorLease) Release(ctx context.Context) error {
	return floorRelease.EvalSha(ctx, l.s.rdb, []string{l.name}, l.owner).Err()
}

func (s *floorSession) Hold(ctx context.Context, name string) (Held, error) {
	l, err := s.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return keep(l, s.ttl, func(ctx context.Context) error {
		n, err := floorRenew.EvalSha(ctx, s.rdb, []string{name}, l.owner, s.ttl.Milliseconds()).Int()
		if err == nil && n == 0 {
			err = ErrLost
		}
		return err
	}), nil
}
