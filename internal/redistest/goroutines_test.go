package redistest_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func leak(stop chan struct{}) { <-stop }

func TestGoroutinesReportsLeftovers(t *testing.T) {
	r := &recorder{TB: t}
	check := redistest.Goroutines(r)
	stop := make(chan struct{})
	go leak(stop)
	check()
	require.Len(t, r.said, 1)
	require.Contains(t, r.said[0], "1 goroutines are left")
	require.Contains(t, r.said[0], "redistest_test.leak")
	require.Len(t, r.cleanups, 1)
	r.cleanups[0]()
	require.Len(t, r.said, 2, "it must look at the end of the test too")
	close(stop)
	check()
	require.Len(t, r.said, 2)
}

func TestGoroutinesGivesTimeToSettle(t *testing.T) {
	r := &recorder{TB: t}
	check := redistest.Goroutines(r)
	stop := make(chan struct{})
	go leak(stop)
	time.AfterFunc(500*time.Millisecond, func() { close(stop) })
	check()
	require.Empty(t, r.said)
}

func TestGoroutinesIgnoresThisPackageAndSeesClientsClosed(t *testing.T) {
	check := redistest.Goroutines(t)
	s := redistest.Shared(t)
	p := redistest.NewProxy(t, redistest.Start(t).Addr())
	c := p.Client(t)
	require.NoError(t, c.Ping(t.Context()).Err())
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	check()
}

func TestOracleKeepsTheLargestOccupancyOfOneName(t *testing.T) {
	t.Parallel()
	var o redistest.Oracle
	a, b := o.Enter("x"), o.Enter("y")
	require.Equal(t, 1, o.Max())
	c := o.Enter("x")
	require.Equal(t, 2, o.Max())
	a()
	b()
	c()
	var wg sync.WaitGroup
	for name := range strings.FieldsSeq(strings.Repeat("p q ", 50)) {
		wg.Go(func() { o.Enter(name)() })
	}
	wg.Wait()
	require.Equal(t, 103, o.Total())
	o.Enter("x")
	require.GreaterOrEqual(t, o.Max(), 2)
}
