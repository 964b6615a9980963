package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

// How code that takes locks is unit-tested: with the embedded store and fake time.
func TestReportStopsWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := guard.Must(guard.New(memstore.New(), guard.TTL(time.Minute), guard.MaxHold(time.Hour)))
		start := time.Now()
		err := guard.Do(t.Context(), locks.Name("nightly-report"), func(ctx context.Context) error {
			<-ctx.Done() // the work under test
			return context.Cause(ctx)
		})
		if time.Since(start) != time.Hour {
			t.Errorf("stopped after %v: %v", time.Since(start), err)
		}
	})
}
