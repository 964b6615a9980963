package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
)

const minVersion = "6.2"

// Check asks whether the server is fit for locks, for a readiness probe: it
// answers, runs the scripts with the rights this user has, is new enough, does
// not evict keys, is writable, and has no restart grace left. It takes and
// releases one lock of its own and leaves nothing behind. What cannot be asked,
// since CONFIG or INFO is denied, is no failure. The error joins all that is
// wrong; it matches [guard.ErrUnavailable] or [guard.ErrUnsupported]. On Cluster
// and Ring it asks every primary for its settings.
func (s *Store) Check(ctx context.Context) error {
	e := s.engine
	errs := []error{e.tryLock(ctx)}
	one := func(ctx context.Context, rdb redis.UniversalClient, name string) {
		errs = append(errs, e.checkServer(ctx, rdb, name)...)
	}
	switch rdb := e.rdb.(type) {
	case *redis.ClusterClient:
		errs = append(errs, eachNode(ctx, rdb.ForEachMaster, one))
	case *redis.Ring:
		errs = append(errs, eachNode(ctx, rdb.ForEachShard, one))
	default:
		one(ctx, e.rdb, "server")
	}
	return errors.Join(errs...)
}

// eachNode asks one node after the other; go-redis asks all at once.
func eachNode(ctx context.Context, each func(context.Context, func(context.Context, *redis.Client) error) error,
	one func(context.Context, redis.UniversalClient, string)) error {
	turn := make(chan struct{}, 1)
	return each(ctx, func(ctx context.Context, c *redis.Client) error {
		turn <- struct{}{}
		one(ctx, c, c.Options().Addr)
		<-turn
		return nil
	})
}

// tryLock runs the scripts as a lock does.
func (e *engine) tryLock(ctx context.Context) error {
	r := guard.Request{Name: "holdfast%check/" + e.wakes.id, Owner: newOwner(), TTL: time.Second, Label: "check"}
	l := &locker{e, 0}
	lease, err := l.Acquire(ctx, r)
	if err != nil {
		return err
	}
	if lease, err = l.Renew(ctx, lease); err == nil {
		err = l.Release(ctx, lease)
	}
	e.wakes.drop(r.Owner)
	return err
}

func (e *engine) checkServer(ctx context.Context, rdb redis.UniversalClient, node string) (errs []error) {
	wrong := func(format string, args ...any) {
		errs = append(errs, &serverError{node, fmt.Errorf(format, args...), true})
	}
	if info, err := rdb.Info(ctx, "server").Result(); err == nil {
		if v := field(info, "redis_version"); v != "" && older(v, minVersion) {
			wrong("Redis %s, want %s or newer", v, minVersion)
		}
		up, err := strconv.Atoi(field(info, "uptime_in_seconds"))
		if left := int(e.graceSeconds(guard.Request{})) - up; err == nil && left > 0 {
			errs = append(errs, &serverError{node, &graceError{time.Duration(left) * time.Second}, false})
		}
	}
	if policy, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result(); err == nil {
		if p := policy["maxmemory-policy"]; p != "" && p != "noeviction" {
			wrong("maxmemory-policy is %s: an evicted lease is a lost lease; use noeviction", p)
		}
	}
	return errs
}

// field finds a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// older compares versions by major and minor.
func older(version, than string) bool {
	var a, b [2]int
	_, _ = fmt.Sscanf(version, "%d.%d", &a[0], &a[1])
	_, _ = fmt.Sscanf(than, "%d.%d", &b[0], &b[1])
	return a[0] < b[0] || (a[0] == b[0] && a[1] < b[1])
}
