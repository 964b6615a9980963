package contest

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
)

func holdfasts() []Contestant {
	return []Contestant{
		{
			Name: "holdfast", About: "defaults: exclusive, with tokens; a context that cannot end in W1 and W2",
			In: "w1 w2 w3 w4 w5", Open: openHoldfast,
		},
		{
			Name: "holdfast-ctx", About: "the same, with a context that can end",
			In: "w1 w2", Open: openHoldfast, Cancel: true,
		},
		{
			Name: "holdfast-fair", About: "redisstore's Fair: no hand-off inside a process",
			In: "w3 w4", Open: openFair,
		},
		{
			Name: "holdfast-one", About: "redisstore's OneServer: requests made at once share script calls",
			In: "w2", Open: openOneServer,
		},
		{
			Name: "holdfast-quorum", About: "guard.Quorum of five servers, with restart grace",
			In: "w6", Open: openQuorum, Nodes: 5,
		},
	}
}

// Grace is how long a server must be up until a quorum with this TTL gets grants
// from it: the ceiling of TTLs and 1 %, two seconds, and one for rounding.
func Grace(ttl time.Duration) time.Duration { return ttl + ttl/100 + 4*time.Second }

func openHoldfast(_ context.Context, env Env) (Session, error) { return open(env) }

func openOneServer(_ context.Context, env Env) (Session, error) {
	return open(env, redisstore.OneServer())
}

func open(env Env, opts ...redisstore.Option) (Session, error) {
	rdb := client(env.Addrs[0])
	store, err := redisstore.New(rdb, opts...)
	if err != nil {
		return nil, err
	}
	return guarded(store, env, rdb)
}

func openFair(_ context.Context, env Env) (Session, error) {
	rdb := client(env.Addrs[0])
	store, err := redisstore.New(rdb)
	if err != nil {
		return nil, err
	}
	return guarded(store.Fair(), env, rdb)
}

func openQuorum(_ context.Context, env Env) (Session, error) {
	var clients []*redis.Client
	var nodes []guard.Locker
	for _, addr := range env.Addrs[:5] {
		rdb := client(addr)
		store, err := redisstore.New(rdb, redisstore.MaxTTL(env.TTL))
		if err != nil {
			return nil, err
		}
		clients, nodes = append(clients, rdb), append(nodes, store)
	}
	quorum, err := guard.Quorum(nodes)
	if err != nil {
		return nil, err
	}
	return guarded(quorum, env, clients...)
}

func guarded(l guard.Locker, env Env, clients ...*redis.Client) (Session, error) {
	locks, err := guard.New(l, guard.TTL(env.TTL))
	if err != nil {
		return nil, err
	}
	return &holdfastSession{locks, clients}, nil
}

type holdfastSession struct {
	locks   *guard.Guard
	clients []*redis.Client
}

type holdfastHeld struct{ h *guard.Held }

func (l holdfastHeld) Release(context.Context) error { return l.h.Release() }
func (l holdfastHeld) Lost() bool                    { return l.h.Context().Err() != nil }

func (s *holdfastSession) Acquire(ctx context.Context, name string) (Lease, error) {
	return s.Hold(ctx, name)
}

func (s *holdfastSession) Hold(ctx context.Context, name string) (Held, error) {
	h, err := guard.Acquire(ctx, s.locks.Name(name))
	if err != nil {
		return nil, err
	}
	return holdfastHeld{h}, nil
}

// Close waits for what is still being released.
func (s *holdfastSession) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.locks.Close(ctx)
	for _, rdb := range s.clients {
		_ = rdb.Close()
	}
	return err
}
