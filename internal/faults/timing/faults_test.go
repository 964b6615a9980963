// Package timing_test runs the short share of the fault suite: what clients may wait
// for after the faults is bounded in real time.
package timing_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/suite"
	"github.com/holdfast-go/holdfast/internal/faults/world"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	client.Child()
	os.Exit(m.Run())
}

// TestWhatIsClaimedHoldsUnderFaults prints the seed, and what it saw.
func TestWhatIsClaimedHoldsUnderFaults(t *testing.T) {
	redistest.NodesWithClock(t, 1, 0) // or there is nothing to run with, and it says what
	share := suite.Share{
		Seed: uint64(time.Now().Unix()), Histories: 5, Ops: 100_000, Stale: 50, Limit: 7 * time.Minute,
		Scenes: 20, Control: 20, Paths: 2 * time.Second, Side: max(1, runtime.NumCPU()),
		Save: os.Getenv("HOLDFAST_FAULTS_SAVE"), Say: t.Logf,
	}
	if share.Save == "" {
		var err error
		share.Save, err = os.MkdirTemp("", "faults-") //nolint:usetesting // the pages are for after the test
		require.NoError(t, err)
	}
	total := share.Do()
	t.Log("\n" + total.Page("go test ./timing"))
	for _, what := range total.Failures() {
		t.Error(what)
	}

	sum := total.Sum()
	assert.GreaterOrEqual(t, sum.Histories, 60)
	assert.GreaterOrEqual(t, sum.Ops, 100_000)
	assert.GreaterOrEqual(t, sum.Faults, 300)
	assert.GreaterOrEqual(t, sum.Models, 100)
	assert.GreaterOrEqual(t, sum.Stale, 50, "the storage refused too little to show that it would")
	assert.GreaterOrEqual(t, sum.Kinds[world.ClockBack]+sum.Kinds[world.ClockForward], 30)
	assert.GreaterOrEqual(t, sum.Kinds[world.HolderFrozen], 30)
	assert.GreaterOrEqual(t, sum.Kinds[world.HolderKilled], 30)
	assert.Len(t, total.Control, 5)
	for _, one := range total.Limits {
		if len(one.Wrong[suite.Exclusion]) > 0 {
			return
		}
	}
	t.Error("a lease on a bare majority survived a clock that jumped on it: what is not claimed may be claimed now")
}
