package demo

import (
	"context"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
)

// Pass is a pass with what the verdict looks at.
func Pass(initial, shelf, sold map[string]int, failed int) any {
	p := pass{report: newReport(), initial: initial, shelf: shelf}
	p.Sold, p.Failed, p.Failure = sold, failed, "broken"
	return p
}

// VerdictOf is the verdict on two passes.
func VerdictOf(without, with any) (code int, text string) {
	return verdict(without.(pass), with.(pass))
}

// SetWaits gives p waits to take quantiles of.
func SetWaits(p any, waits ...time.Duration) any {
	q := p.(pass)
	q.Waits = waits
	return q
}

// Wait is the q-quantile of the waits.
func Wait(p any, q float64) time.Duration { return p.(pass).wait(q) }

// Shelf is a shelf for tests outside.
type Shelf struct{ s shelf }

// Read reads.
func (s Shelf) Read(ctx context.Context, sku string) (int, error) { return s.s.read(ctx, sku) }

// Write writes.
func (s Shelf) Write(ctx context.Context, sku string, units int) error {
	return s.s.write(ctx, sku, units)
}

// NewShelf is one in memory.
func NewShelf(fenced bool, units map[string]int) Shelf {
	return Shelf{&memory{fenced: fenced, units: units}}
}

// NewRedisShelf is one in Redis, fenced.
func NewRedisShelf(ctx context.Context, rdb redis.UniversalClient, prefix string, units map[string]int) (Shelf, error) {
	r := &remote{rdb, prefix, true}
	return Shelf{r}, r.fill(ctx, units)
}

// Progress draws a bar of total into out until the returned function is called.
func Progress(out io.Writer, total, done int) (stop func()) {
	b := &bar{out: out, total: total}
	stop = b.start("label")
	b.add(done)
	return stop
}
