package redisstore_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// BenchmarkDo is an uncontended call: two round trips.
func BenchmarkDo(b *testing.B) {
	rdb := redistest.Start(b).Client(b)
	g, err := guard.New(newStore(b, rdb))
	require.NoError(b, err)
	n := g.Name("a")
	for name, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": b.Context()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := guard.Do(ctx, n, func(context.Context) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDoDistinct is many goroutines, each with a name of its own: their
// requests share round trips.
func BenchmarkDoDistinct(b *testing.B) {
	rdb := redistest.Start(b).Client(b)
	g, err := guard.New(newStore(b, rdb))
	require.NoError(b, err)
	var next atomic.Int64
	b.SetParallelism(32) // for each processor
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		n := g.Name(strconv.FormatInt(next.Add(1), 10))
		for pb.Next() {
			if err := guard.Do(context.Background(), n, func(context.Context) error { return nil }); err != nil {
				b.Error(err)
			}
		}
	})
}
