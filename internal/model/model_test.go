package model_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/model"
	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// quickStates is how far the race detector and -short look at each case.
const quickStates = 30_000

func TestEveryModelHasTheVerdictThatTheTableSays(t *testing.T) {
	quick := testing.Short() || raceDetector
	table, err := model.ReadTable("RESULTS.md")
	require.NoError(t, err)
	for _, c := range model.Cases() {
		if c.Big {
			continue
		}
		t.Run(c.Key(), func(t *testing.T) {
			t.Parallel()
			var o explore.Options
			if quick {
				o.MaxStates = quickStates
			}
			r := c.Run(o)
			debug.FreeOSMemory() // each case may need some hundred megabytes
			if quick && r.Verdict() == "unfinished" {
				return
			}
			if !assert.Equal(t, c.Expected(), r.Verdict()) {
				t.Log(strings.Join(r.Trace, "\n"))
			}
			assert.Equal(t, withoutTime(model.Row(c, r)), withoutTime(table[c.Key()]),
				"RESULTS.md is of other models; go run ./internal/model/run writes it")
		})
	}
}

// withoutTime cuts off the last two cells, which differ from run to run.
func withoutTime(row string) string {
	cells := strings.Split(row, " | ")
	return strings.Join(cells[:max(0, len(cells)-2)], " | ")
}

func TestTableHasEveryCaseOnceWithItsExpectedVerdict(t *testing.T) {
	table, err := model.ReadTable("RESULTS.md")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, c := range model.Cases() {
		assert.False(t, seen[c.Key()], "two cases are called %q", c.Key())
		seen[c.Key()] = true
		assert.Contains(t, table[c.Key()], "| "+c.Expected()+" | "+c.Expected()+" |", "row of %q", c.Key())
	}
	assert.Len(t, table, len(seen), "rows of cases that are gone")
}

func TestEveryModelHoldsAndIsBrokenWhenARuleIsLeftOut(t *testing.T) {
	holds, breaks := map[string]int{}, map[string]int{}
	for _, c := range model.Cases() {
		if c.Breaks == "" {
			holds[c.Model]++
		} else {
			breaks[c.Model]++
		}
	}
	for name := range holds {
		assert.Positive(t, breaks[name], "nothing shows that %s would notice a broken rule", name)
	}
	for name := range breaks {
		assert.Positive(t, holds[name], "nothing holds in %s", name)
	}
}

func TestHashedSearchFindsWhatTheExactOneFinds(t *testing.T) {
	for _, c := range model.Cases() {
		if c.Big || c.Model != "reigns" && c.Model != "mark" {
			continue
		}
		exact, hashed := c.Run(explore.Options{}), c.Run(explore.Options{Hashed: true})
		exact.Took, hashed.Took = 0, 0
		assert.Equal(t, exact, hashed, c.Key())
	}
}

func TestTableKeepsRowsOfOtherRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.md")
	cases := model.Cases()
	old, err := model.ReadTable(file)
	require.NoError(t, err)
	require.Empty(t, old, "a file that does not exist has no rows")
	first := model.Row(cases[0], explore.Result{Complete: true, States: 7})
	require.NoError(t, model.WriteTable(file, model.Table{cases[0].Key(): first, "gone | for | ever": "| gone | for | ever | x |"}))

	kept, err := model.ReadTable(file)
	require.NoError(t, err)
	assert.Equal(t, first, kept[cases[0].Key()])
	assert.NotContains(t, kept, "gone | for | ever")
	assert.Contains(t, first, "**holds**", "a verdict that is not the expected one is marked")

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(text), "# "))
	assert.NoError(t, model.WriteTable("", kept), "no file: nothing is written")
}
