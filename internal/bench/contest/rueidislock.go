package contest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func rueidislocks() []Contestant {
	return []Contestant{
		rueidislockOf("rueidislock", "w1 w2 w3 w4 w5", "defaults: 2 of 3 keys, woken by client-side caching", 1, rueidislock.LockerOption{}),
		rueidislockOf("rueidislock-1key", "w1 w2 w3 w4 w5", "tuned: 1 key, NoLoopTracking", 1,
			rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true}),
		rueidislockOf("rueidislock-poll", "w2 w3 w4", "tuned: 1 key, no client-side caching, polls every 1 ms", 1,
			rueidislock.LockerOption{KeyMajority: 1, TryNextAfter: time.Millisecond, ClientOption: rueidis.ClientOption{DisableCache: true}}),
		rueidislockOf("rueidislock-5", "w6", "NoLoopTracking, 3 of 5 keys, which a client of ours spreads over five servers", 5,
			rueidislock.LockerOption{KeyMajority: 3, NoLoopTracking: true}),
	}
}

func rueidislockOf(name, in, about string, nodes int, o rueidislock.LockerOption) Contestant {
	return Contestant{
		Name: name, In: in, About: about, Nodes: nodes, Cancel: true,
		Open: func(_ context.Context, env Env) (Session, error) {
			o := o
			o.KeyValidity = env.TTL
			o.ClientOption.InitAddress = env.Addrs[:1]
			o.ClientOption.ForceSingleClient = true
			if nodes > 1 {
				o.ClientBuilder = func(co rueidis.ClientOption) (rueidis.Client, error) { return spreadOver(co, env.Addrs[:nodes]) }
			}
			l, err := rueidislock.NewLocker(o)
			if err != nil {
				return nil, err
			}
			return &rueidislockSession{l}, nil
		},
	}
}

type rueidislockSession struct{ l rueidislock.Locker }

type rueidislockHeld struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (h rueidislockHeld) Lost() bool { return h.ctx.Err() != nil }

// Release returns when the keys are gone.
func (h rueidislockHeld) Release(context.Context) error {
	h.cancel()
	return nil
}

func (s *rueidislockSession) Close() error {
	s.l.Close()
	return nil
}

func (s *rueidislockSession) Acquire(ctx context.Context, name string) (Lease, error) {
	return s.Hold(ctx, name)
}

func (s *rueidislockSession) Hold(ctx context.Context, name string) (Held, error) {
	ctx, cancel, err := s.l.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return rueidislockHeld{ctx, cancel}, nil
}

// spread sends key number i of a lock to server i, so that the keys of a lock
// live on independent servers.
type spread struct {
	rueidis.Client
	all []rueidis.Client
}

func spreadOver(o rueidis.ClientOption, addrs []string) (rueidis.Client, error) {
	s := &spread{}
	for _, a := range addrs {
		o.InitAddress = []string{a}
		c, err := rueidis.NewClient(o)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, c)
	}
	s.Client = s.all[0]
	return s, nil
}

// Do looks at the key of a script call, "prefix:number:name".
func (s *spread) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c := s.all[0]
	if args := cmd.Commands(); len(args) > 3 && strings.HasPrefix(args[0], "EVAL") {
		if parts := strings.SplitN(args[3], ":", 3); len(parts) == 3 {
			if i, err := strconv.Atoi(parts[1]); err == nil {
				c = s.all[i%len(s.all)]
			}
		}
	}
	return c.Do(ctx, cmd)
}

func (s *spread) Close() {
	for _, c := range s.all {
		c.Close()
	}
}
