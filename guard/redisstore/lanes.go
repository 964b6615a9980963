package redisstore

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// lanes gives each node its lane, so that a node that hangs does not hold up
// batches for others. A Cluster client finds the node of a batch itself, and
// follows MOVED and ASK; the lane only keeps apart what goes to different nodes.
type lanes struct {
	rdb    redis.UniversalClient
	single *lane
	mu     sync.Mutex
	byNode map[string]*lane
	reuse  bool // commands may be used again: no client keeps a Cluster slot in them
}

func (l *lanes) init(rdb redis.UniversalClient, bunches bool) {
	l.rdb = rdb
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		l.byNode = map[string]*lane{}
	case *redis.Client:
		l.reuse = true
	}
	l.single = newLane(rdb, bunches)
}

// of is the lane for a key. A node that cannot be found out has no lane of its
// own.
func (l *lanes) of(q *request) *lane {
	if l.byNode == nil {
		return l.single
	}
	node := l.node(q.texts[0].String())
	if node == "" {
		return l.single
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.byNode[node]
	if lane == nil {
		lane = newLane(l.rdb, false)
		l.byNode[node] = lane
	}
	return lane
}

func (l *lanes) node(key string) string {
	switch rdb := l.rdb.(type) {
	case *redis.ClusterClient:
		if c, err := rdb.MasterForKey(background, key); err == nil {
			return c.Options().Addr
		}
	case *redis.Ring:
		if c, err := rdb.GetShardClientForKey(key); err == nil {
			return c.Options().Addr
		}
	}
	return ""
}
