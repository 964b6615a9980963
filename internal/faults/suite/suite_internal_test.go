package suite

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/world"
)

func TestMain(m *testing.M) {
	client.Child()
	os.Exit(m.Run())
}

// TestHistoryIsPlayedAndJudged is a history as package timing plays many of.
func TestHistoryIsPlayedAndJudged(t *testing.T) {
	s := world.Settings[0]
	s.Lasts = time.Second
	r := Play(t, s, 1, Options{Pace: 5 * time.Millisecond, Save: t.TempDir()})
	delete(r.Wrong, Liveness) // package timing sees to that
	assert.Empty(t, r.Violations())
	assert.NotZero(t, r.Ops)
	assert.NotEmpty(t, r.Log)
	assert.Len(t, r.Log, sum(r.Faults))
}

func TestSceneIsPlayedAndJudged(t *testing.T) {
	r := Scenes[1].Play(t, 1, Options{})
	require.Empty(t, r.Short, "what should have happened and did not")
	assert.Empty(t, r.Violations())
	assert.Equal(t, 6, r.Ops)

	var found []string
	for seed := uint64(1); seed < 10 && len(found) == 0; seed++ { // one that is slow comes too late to see it
		r = BareMajority.Play(t, seed, Options{Save: t.TempDir()})
		found = r.Wrong[Exclusion]
	}
	require.NotEmpty(t, found)
	assert.NotEmpty(t, r.Wrong[Lock])
	assert.NotEmpty(t, r.Saved)
}

// passing is a Total that has nothing to complain of.
func passing() *Total {
	r := &Run{Setting: world.Settings[0], Faults: map[world.Fault]int{}, Wrong: map[Property][]string{}, Final: 100}
	t := &Total{Share: Share{Topology: r.Setting.String()}, Runs: []*Run{r}, Control: []Caught{{"x", 1, "found"}}, Paths: []Path{{1, 100, 1}}}
	for _, kind := range t.Share.Kinds() {
		r.Faults[kind] = 1
	}
	return t
}

func TestWhatMakesARunFail(t *testing.T) {
	require.Empty(t, passing().Failures())
	for name, spoil := range map[string]func(t *Total, r *Run){
		"a violation":                     func(_ *Total, r *Run) { r.wrong(Exclusion, "two") },
		"a fault that never happened":     func(_ *Total, r *Run) { delete(r.Faults, world.Freeze) },
		"a variant that was not found":    func(t *Total, _ *Run) { t.Control[0].How = "" },
		"waiters that came late":          func(_ *Total, r *Run) { r.Late = 6 },
		"grants that took a second trip":  func(t *Total, _ *Run) { t.Paths[0].Slow = 2 },
		"a path that was never taken":     func(t *Total, _ *Run) { t.Paths[0] = Path{8, 0, 0} },
		"servers that gave trouble":       func(t *Total, _ *Run) { t.Trouble = []string{"no server"} },
		"a scene that did not come about": func(t *Total, r *Run) { s := *r; s.Short = []string{"x"}; s.Faults = nil; t.Scenes = []*Run{&s} },
		"a violation in a scene":          func(t *Total, r *Run) { s := *r; s.Wrong = map[Property][]string{Order: {"x"}}; t.Scenes = []*Run{&s} },
	} {
		total := passing()
		spoil(total, total.Runs[0])
		assert.Len(t, total.Failures(), 1, name)
	}
	total := passing()
	total.Runs[0].Setting.Excludes = false
	total.Runs[0].wrong(Exclusion, "two")
	assert.Empty(t, total.Failures(), "what is not claimed does not fail")
	assert.Contains(t, total.Page("x"), "not claimed (1)", "and is told")
}
