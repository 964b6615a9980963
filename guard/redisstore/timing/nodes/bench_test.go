package nodes_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// BenchmarkQuorum locks and unlocks a free name on five servers.
func BenchmarkQuorum(b *testing.B) {
	var lockers []guard.Locker
	for _, s := range redistest.Nodes(b, 5) {
		store, err := redisstore.New(s.Client(b), redisstore.MaxTTL(ttl))
		if err != nil {
			b.Fatal(err)
		}
		lockers = append(lockers, store)
	}
	time.Sleep((grace + 1) * time.Second)
	q, err := guard.Quorum(lockers)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l, err := q.Acquire(b.Context(), request(strconv.Itoa(i)))
		if err != nil {
			b.Fatal(err)
		}
		if err := q.Release(b.Context(), l); err != nil {
			b.Fatal(err)
		}
	}
}
