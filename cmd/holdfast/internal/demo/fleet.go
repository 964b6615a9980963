package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// fleet is replicas in processes of their own that share a Redis.
type fleet struct {
	in     input
	url    string
	prefix string // of all keys of this run
	rdb    redis.UniversalClient
	stock  *remote
}

func newFleet(in input, url string) (*fleet, error) {
	rdb, err := cli.Connect(url)
	if err != nil {
		return nil, err
	}
	prefix := "holdfast-demo:" + strings.ToLower(rand.Text()[:8]) + ":"
	return &fleet{in, url, prefix, rdb, &remote{rdb: rdb, prefix: prefix}}, nil
}

func (*fleet) String() string {
	return fmt.Sprintf("%d replicas with %d workers each in processes of their own, on Redis", replicas, workers)
}

func (f *fleet) pass(ctx context.Context, guarded bool, handled func(int)) (pass, error) {
	if err := f.setUp(ctx); err != nil {
		return pass{}, err
	}
	var team []*child
	defer func() {
		for _, c := range team {
			c.kill()
		}
	}()
	for i := range replicas {
		c, err := startChild(assignment{Redis: f.url, Prefix: f.prefix, Replica: i, Guarded: guarded})
		if err != nil {
			return pass{}, err
		}
		team = append(team, c)
	}
	if err := each(team, (*child).ready); err != nil {
		return pass{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit(guarded))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		for _, c := range team {
			c.stop()
		}
	})()
	p := pass{report: newReport(), initial: f.in.units()}
	began := time.Now()
	err := each(team, func(c *child) error { return c.work(handled) })
	p.took, p.cutOff = time.Since(began), ctx.Err() != nil
	switch {
	case err != nil && p.cutOff:
		return pass{}, fmt.Errorf("no answer from Redis, or a very slow one: gave up after %v", p.took.Round(time.Second/10))
	case err != nil:
		return pass{}, err
	}
	for _, c := range team {
		p.add(c.report)
	}
	read, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpWithin)
	defer cancel()
	p.shelf, err = f.stock.all(read, f.in.products)
	return p, err
}

func (f *fleet) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpWithin)
	defer cancel()
	return f.stock.fill(ctx, f.in.units())
}

func (f *fleet) close(ctx context.Context) error {
	defer f.rdb.Close()
	return f.stock.clean(ctx)
}

// each calls do for all children at the same time and returns the first error.
func each(team []*child, do func(*child) error) error {
	results := make(chan error, len(team))
	for _, c := range team {
		go func() { results <- do(c) }()
	}
	var first error
	for range team {
		if err := <-results; first == nil {
			first = err
		}
	}
	return first
}
