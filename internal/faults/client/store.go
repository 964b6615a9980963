package client

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
)

const (
	dialLimit   = 300 * time.Millisecond
	readLimit   = time.Second
	reloadEvery = 300 * time.Millisecond // a Cluster's slots, since nobody tells a client of a dead node
)

// open makes the lock service that s describes.
func (s Store) open(wrap guard.Layer) (guard.Locker, error) {
	var nodes []guard.Locker
	for _, rdb := range s.clients() {
		var opts []redisstore.Option
		if s.MaxTTL > 0 {
			opts = append(opts, redisstore.MaxTTL(s.MaxTTL))
		}
		if s.Grace {
			opts = append(opts, redisstore.RestartGrace())
		}
		if s.OneServer {
			opts = append(opts, redisstore.OneServer())
		}
		store, err := redisstore.New(rdb, opts...)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, guard.Stack(store, wrap))
	}
	if s.Kind != Quorum {
		return nodes[0], nil
	}
	var opts []guard.QuorumOption
	if s.NodeLimit > 0 {
		opts = append(opts, guard.NodeLimit(s.NodeLimit))
	}
	return guard.Quorum(nodes, opts...)
}

func (s Store) clients() (list []redis.UniversalClient) {
	switch s.Kind {
	case Sentinel:
		return append(list, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "holdfast", SentinelAddrs: s.Addrs, Dialer: s.dial,
			DialTimeout: dialLimit, ReadTimeout: readLimit, WriteTimeout: readLimit, DialerRetries: 1,
		}))
	case Cluster:
		return append(list, redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: s.Addrs, Dialer: s.dial, ClusterStateReloadInterval: reloadEvery,
			DialTimeout: dialLimit, ReadTimeout: readLimit, WriteTimeout: readLimit, DialerRetries: 1,
		}))
	case Single, Quorum:
	}
	limit := max(readLimit, s.NodeLimit)
	for _, addr := range s.Addrs {
		list = append(list, redis.NewClient(&redis.Options{
			Addr: addr, Dialer: s.dial, DialTimeout: dialLimit, ReadTimeout: limit, WriteTimeout: limit, DialerRetries: 1,
		}))
	}
	return list
}

// dial takes the link to a server where there is one. A client of a Sentinel or a
// Cluster learns the servers' own addresses.
func (s Store) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if via, ok := s.Via[addr]; ok {
		addr = via
	}
	d := net.Dialer{Timeout: dialLimit}
	return d.DialContext(ctx, network, addr)
}

// register is a value in the storage, which refuses tokens below the highest one
// it has seen, also for a read.
type register struct {
	rdb      *redis.Client
	unfenced bool
}

// access reads the register, or writes to it what is not negative.
var access = redis.NewScript(`
local mark = tonumber(redis.call('HGET', KEYS[1], 'mark') or '0')
local token = tonumber(ARGV[1])
if ARGV[3] == 'fenced' then
  if token < mark then return {1, 0} end
  redis.call('HSET', KEYS[1], 'mark', ARGV[1])
end
if tonumber(ARGV[2]) >= 0 then redis.call('HSET', KEYS[1], 'value', ARGV[2]) end
return {0, tonumber(redis.call('HGET', KEYS[1], 'value') or '0')}
`)

func (r register) access(ctx context.Context, name string, token, value int64) (now int64, stale bool, err error) {
	how := "fenced"
	if r.unfenced {
		how = "open"
	}
	got, err := access.Run(ctx, r.rdb, []string{"register:" + name}, token, value, how).Int64Slice()
	if err != nil {
		return 0, false, fmt.Errorf("storage: %w", err)
	}
	return got[1], got[0] == 1, nil
}
