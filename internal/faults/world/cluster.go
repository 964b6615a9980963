package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// shards is how many masters a Cluster has; server i+shards starts as the replica
// of server i.
const shards = 3

// isMaster asks server i what it is.
func (w *World) isMaster(i int) bool {
	role := ""
	_ = w.admin(i, func(ctx context.Context, c *redis.Client) error {
		v, err := c.Do(ctx, "ROLE").Slice()
		if err == nil {
			role, _ = v[0].(string)
		}
		return err
	})
	return role == "master"
}

// shard returns master and replica.
func (w *World) shard(n int) (master, replica int) {
	if w.isMaster(n) {
		return n, n + shards
	}
	return n + shards, n
}

// shardFailOver makes a replica a master. It takes one shard after the other:
// masters vote about one again only after twice the node timeout.
func (w *World) shardFailOver(kill bool) (string, error) {
	w.turn++
	old, next := w.shard(w.turn % shards)
	how := []any{"CLUSTER", "FAILOVER"}
	if kill {
		w.Servers[old].Kill()
		how = append(how, "TAKEOVER")
	}
	var err error
	for range 3 { // Redis gives one up after 5 s
		if err = w.do(next, how...); err == nil {
			err = w.awaitFor(settle/5, next, "ROLE", "master")
		}
		if err == nil {
			break
		}
	}
	if kill {
		w.Servers[old].Restart()
	}
	did := fmt.Sprintf("from server %d to %d", old, next)
	switch {
	case err != nil:
	case kill:
		err = w.await(old, "INFO", follows)
	default:
		var back bool
		if back, err = w.settled(old, next); back {
			did += ", and back"
		}
	}
	return did, err
}

// follows is what a replica says of itself when it is in step.
const follows = "master_link_status:up"

// settled waits until one server of a shard follows the other after a manual
// failover, and tells whether it is the one that was to be the master: a replica
// that won an election some seconds ago takes those votes for the ones of its next
// manual failover (Redis 7.0), is master for a moment, and is put back by the
// others for its old epoch.
func (w *World) settled(old, next int) (back bool, err error) {
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, i := range []int{old, next} {
			if strings.Contains(w.says(i, "INFO"), follows) {
				return i == next, nil
			}
		}
	}
	return false, fmt.Errorf("world: neither server %d nor %d follows the other within %v", old, next, settle)
}

// migrate moves the slot of a name, with all its keys, to another master.
func (w *World) migrate(r *rand.Rand) (string, error) {
	names := append(append([]string{}, Counters...), Brief...)
	name := names[r.IntN(len(names))]
	var masters []int
	for n := range shards {
		m, _ := w.shard(n)
		masters = append(masters, m)
	}
	slot, ids := int64(0), map[int]string{}
	for _, m := range masters {
		err := w.admin(m, func(ctx context.Context, c *redis.Client) (err error) {
			if slot, err = c.ClusterKeySlot(ctx, "lock:{"+name+"}").Result(); err != nil {
				return err
			}
			ids[m], err = c.ClusterMyID(ctx).Result()
			return err
		})
		if err != nil {
			return "", err
		}
	}
	from, err := w.owner(masters, slot)
	if err != nil {
		return "", err
	}
	to := masters[r.IntN(shards)]
	for to == from {
		to = masters[r.IntN(shards)]
	}
	err = w.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	if err == nil {
		err = w.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	}
	if err == nil {
		time.Sleep(between(r, 0, w.TTL/4)) // clients are sent back and forth meanwhile
		err = w.carry(from, to, int(slot))
	}
	for _, m := range []int{to, from, masters[0], masters[1], masters[2]} {
		if err == nil {
			err = w.do(m, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
		}
	}
	return fmt.Sprintf("slot %d from server %d to %d", slot, from, to), err
}

// owner finds the master that a slot belongs to.
func (w *World) owner(masters []int, slot int64) (int, error) {
	found := -1
	err := w.admin(masters[0], func(ctx context.Context, c *redis.Client) error {
		list, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6 has no CLUSTER SHARDS
		for _, part := range list {
			for _, m := range masters {
				if int64(part.Start) <= slot && slot <= int64(part.End) && part.Nodes[0].Addr == w.Servers[m].Addr() {
					found = m
				}
			}
		}
		return err
	})
	if err == nil && found < 0 {
		err = errors.New("world: nobody has the slot")
	}
	return found, err
}

// carry moves all keys of a slot.
func (w *World) carry(from, to, slot int) error {
	return w.admin(from, func(ctx context.Context, c *redis.Client) error {
		for {
			keys, err := c.ClusterGetKeysInSlot(ctx, slot, 100).Result()
			if err != nil || len(keys) == 0 {
				return err
			}
			args := []any{"MIGRATE", "127.0.0.1", w.Servers[to].Port(), "", 0, 5000, "KEYS"}
			for _, k := range keys {
				args = append(args, k)
			}
			if err := c.Do(ctx, args...).Err(); err != nil && !strings.Contains(err.Error(), "NOKEY") {
				return err
			}
		}
	})
}
