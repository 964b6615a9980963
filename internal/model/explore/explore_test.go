package explore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// jugs is the puzzle of a 3 and a 5 litre jug. The rule says that nobody can
// measure litres of water in the large one.
type jugs struct{ small, large uint8 }

func puzzle(litres uint8) explore.Model[jugs] {
	return explore.Model[jugs]{
		Start: []jugs{{}},
		Next: func(s *jugs, emit explore.Emit[jugs]) {
			step := func(small, large uint8, what string) {
				broken := ""
				if large == litres {
					broken = "MEASURED: it can be done"
				}
				emit(&jugs{small, large}, broken, "%s from %d/%d", what, s.small, s.large)
			}
			step(3, s.large, "fill small")
			step(s.small, 5, "fill large")
			step(0, s.large, "empty small")
			step(s.small, 0, "empty large")
			n := min(s.small, 5-s.large)
			step(s.small-n, s.large+n, "pour into large")
			n = min(s.large, 3-s.small)
			step(s.small+n, s.large-n, "pour into small")
		},
		Show: func(s *jugs) string { return string([]byte{'0' + s.small, '/', '0' + s.large}) },
	}
}

var storages = map[string]explore.Options{"exact": {}, "hashed": {Hashed: true}}

func TestShortestWayToABrokenRuleIsFoundAndShown(t *testing.T) {
	for name, o := range storages {
		t.Run(name, func(t *testing.T) {
			r := explore.Run(puzzle(4), o)
			assert.Equal(t, "violates MEASURED", r.Verdict())
			assert.False(t, r.Complete)
			require.Equal(t, []string{
				"start  =>  0/0",
				"fill large from 0/0  =>  0/5",
				"pour into small from 0/5  =>  3/2",
				"empty small from 3/2  =>  0/2",
				"pour into small from 0/2  =>  2/0",
				"fill large from 2/0  =>  2/5",
				"pour into small from 2/5  =>  MEASURED: it can be done  3/4",
			}, r.Trace)
			assert.Equal(t, 5, r.Depth, "the state before the broken rule")
		})
	}
}

func TestRuleThatCannotBeBrokenHoldsAfterEveryStateWasSeenOnce(t *testing.T) {
	for name, o := range storages {
		t.Run(name, func(t *testing.T) {
			r := explore.Run(puzzle(9), o)
			assert.Equal(t, "holds", r.Verdict())
			assert.Equal(t, 16, r.States, "reachable are the states with a full or an empty jug")
			assert.Equal(t, 6*16, r.Steps)
			assert.Empty(t, r.Trace)
		})
	}
}

// grid is large enough that every table and list of the search grows.
type grid struct{ x, y uint16 }

func square(side uint16) explore.Model[grid] {
	return explore.Model[grid]{
		Start: []grid{{}, {x: 1}, {}},
		Next: func(s *grid, emit explore.Emit[grid]) {
			if s.x+1 < side {
				emit(&grid{s.x + 1, s.y}, "", "right")
			}
			if s.y+1 < side {
				emit(&grid{s.x, s.y + 1}, "", "up")
			}
		},
		Show: func(*grid) string { return "" },
	}
}

func TestEveryStateOfALargeModelIsSeenOnce(t *testing.T) {
	const side = 500
	for name, o := range storages {
		t.Run(name, func(t *testing.T) {
			r := explore.Run(square(side), o)
			assert.Equal(t, "holds", r.Verdict())
			assert.Equal(t, side*side, r.States)
			assert.Equal(t, 2*side*(side-1), r.Steps)
			assert.Equal(t, 2*(side-1)-1, r.Depth, "one start state is a step ahead")
		})
	}
}

func TestSearchThatReachesItsLimitIsUnfinished(t *testing.T) {
	r := explore.Run(square(500), explore.Options{MaxStates: 1000})
	assert.Equal(t, "unfinished", r.Verdict())
	assert.InDelta(t, 1000, r.States, 2)
}

func TestTraceBeginsAtTheStartStateItComesFrom(t *testing.T) {
	m := square(10)
	m.Start = []grid{{}, {x: 7, y: 7}}
	next := m.Next
	m.Next = func(s *grid, emit explore.Emit[grid]) {
		next(s, func(to *grid, _, format string, args ...any) {
			broken := ""
			if *to == (grid{9, 8}) {
				broken = "CORNER: reached"
			}
			emit(to, broken, format, args...)
		})
	}
	m.Show = func(s *grid) string { return strings.Repeat("x", int(s.x)) + strings.Repeat("y", int(s.y)) }
	r := explore.Run(m, explore.Options{})
	assert.Equal(t, "violates CORNER", r.Verdict())
	require.Len(t, r.Trace, 4)
	assert.Equal(t, "start  =>  xxxxxxxyyyyyyy", r.Trace[0])
}

func TestExpectedVerdictSpeaksLikeAResult(t *testing.T) {
	holds, breaks := explore.Case{}, explore.Case{Breaks: "ME"}
	assert.Equal(t, holds.Expected(), explore.Result{Complete: true}.Verdict())
	assert.Equal(t, breaks.Expected(), explore.Result{Broken: "ME"}.Verdict())
}
