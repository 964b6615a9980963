package timing_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Many callers come and go while the server stands still. Once it moves it is used
// at once, and what had to be undone is undone.
func TestAServerThatThawsIsUsedAtOnce(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	require.NoError(t, guard.Do(t.Context(), g.Name("warm"), nothing))
	before := runtime.NumGoroutine()
	s.Freeze()
	var callers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 100 {
		callers.Go(func() {
			for ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				assert.Error(t, guard.Do(ctx, g.Name(redistest.Unique(t)), nothing))
				cancel()
			}
		})
	}
	most := 0
	for range 100 {
		time.Sleep(10 * time.Millisecond)
		most = max(most, runtime.NumGoroutine())
	}
	stop()
	callers.Wait()
	start := time.Now()
	s.Thaw()
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
	assert.Less(t, took(start), time.Second)
	t.Logf("used after %v, at most %d goroutines more", time.Since(start), most-before)
	undone := soon(t, func() bool {
		for key := range s.Keys("lock:{") {
			if key[len(key)-1] == '}' {
				return false
			}
		}
		return true
	})
	assert.Less(t, undone, 3*time.Second, "what was granted to nobody is undone")
	soon(t, func() bool { return runtime.NumGoroutine() <= before+5 })
}
