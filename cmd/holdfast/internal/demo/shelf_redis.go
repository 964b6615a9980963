package demo

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
)

//go:embed fenced.lua
var fencedSource string

var fencedScript = redis.NewScript(fencedSource)

// keepFor is how long the demo's stock survives a demo that was killed.
const keepFor = 10 * time.Minute

// remote is a shelf in Redis, one hash for each product.
type remote struct {
	rdb    redis.UniversalClient
	prefix string
	fenced bool
}

func (r *remote) key(sku string) string { return r.prefix + "stock:{" + sku + "}" }

func (r *remote) read(ctx context.Context, sku string) (int, error) {
	if r.fenced {
		return r.admit(ctx, sku, "")
	}
	return r.rdb.HGet(ctx, r.key(sku), "units").Int()
}

func (r *remote) write(ctx context.Context, sku string, units int) error {
	if r.fenced {
		_, err := r.admit(ctx, sku, strconv.Itoa(units))
		return err
	}
	return r.rdb.HSet(ctx, r.key(sku), "units", units).Err()
}

// admit presents the token of ctx and reads, or writes, in the same step.
func (r *remote) admit(ctx context.Context, sku, units string) (int, error) {
	grant, err := fence.Require(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := fencedScript.Run(ctx, r.rdb, []string{r.key(sku)}, int64(grant.Token), grant.Owner, units).Slice()
	if err != nil {
		return 0, err
	}
	admitted, _ := answer[0].(int64)
	n, err := strconv.ParseInt(fmt.Sprint(answer[1]), 10, 64)
	if err == nil && admitted == 0 {
		err = fence.Report(ctx, &fence.StaleError{Name: grant.Name, Presented: grant.Token, Seen: fence.Token(n)})
	}
	return int(n), err
}

// fill puts the stock on the shelf, without a mark of earlier tokens.
func (r *remote) fill(ctx context.Context, units map[string]int) error {
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for sku, n := range units {
			p.Del(ctx, r.key(sku))
			p.HSet(ctx, r.key(sku), "units", n)
			p.PExpire(ctx, r.key(sku), keepFor)
		}
		return nil
	})
	return err
}

// all reads the whole stock.
func (r *remote) all(ctx context.Context, products []product) (map[string]int, error) {
	units := map[string]int{}
	for _, p := range products {
		n, err := r.rdb.HGet(ctx, r.key(p.sku), "units").Int()
		if err != nil {
			return nil, err
		}
		units[p.sku] = n
	}
	return units, nil
}

// clean removes every key under the prefix: stock, leases, marks, tombstones.
func (r *remote) clean(ctx context.Context) error {
	var mu sync.Mutex
	var keys []string
	scan := func(ctx context.Context, c redis.Cmdable) error {
		i := c.Scan(ctx, 0, r.prefix+"*", 1000).Iterator()
		for i.Next(ctx) {
			mu.Lock()
			keys = append(keys, i.Val())
			mu.Unlock()
		}
		return i.Err()
	}
	var err error
	if cluster, ok := r.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, r.rdb)
	}
	if err != nil || len(keys) == 0 {
		return err
	}
	_, err = r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			p.Unlink(ctx, k)
		}
		return nil
	})
	return err
}
