package history_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/history"
)

// hold is one of name "a" that was asked for one tick before it was granted.
func hold(token, from, until, release int64) history.Hold {
	return history.Hold{Name: "a", Token: token, Called: from - 1, Asked: from - 1, Returned: from, Until: until, Release: release}
}

func of(holds ...history.Hold) *history.History { return &history.History{Holds: holds} }

func results(verdicts []history.Verdict) (list []porcupine.CheckResult) {
	for _, v := range verdicts {
		list = append(list, v.Result)
	}
	return list
}

func TestHoldsOfOneNameMustNotOverlap(t *testing.T) {
	other := hold(20, 15, 100, 40)
	other.Name = "b"
	for _, tc := range []struct {
		name  string
		holds []history.Hold
		wrong int
	}{
		{"one after the other", []history.Hold{hold(1, 10, 100, 20), hold(2, 20, 100, 30)}, 0},
		{"another name", []history.Hold{hold(1, 10, 100, 20), other}, 0},
		{"overlap", []history.Hold{hold(1, 10, 100, 20), hold(2, 19, 100, 30)}, 1},
		{"released late, after its lease", []history.Hold{hold(1, 10, 20, 50), hold(2, 20, 100, 30)}, 0},
		{"never released, lease over", []history.Hold{hold(1, 10, 20, history.Never), hold(2, 20, 100, 30)}, 0},
		{"never released, lease stands", []history.Hold{hold(1, 10, 20, history.Never), hold(2, 19, 100, 30)}, 1},
		{"the long one is not the last one", []history.Hold{hold(1, 10, 100, 50), hold(2, 20, 100, 21), hold(3, 30, 100, 31)}, 2},
		{"granted, but over when it was known", []history.Hold{hold(1, 10, 100, 50), hold(2, 30, 25, 60)}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Len(t, of(tc.holds...).Exclusion(), tc.wrong)
			want := porcupine.Ok
			if tc.wrong > 0 {
				want = porcupine.Illegal
			}
			for _, r := range results(of(tc.holds...).Locks(true)) {
				assert.Equal(t, want, r)
			}
		})
	}
}

func TestTokensRiseFromGrantToGrant(t *testing.T) {
	overlapping := hold(1, 30, 100, 40)
	overlapping.Called, overlapping.Asked = 5, 5
	for _, tc := range []struct {
		name  string
		holds []history.Hold
		wrong int
	}{
		{"rise", []history.Hold{hold(1, 10, 100, 20), hold(2, 20, 100, 30)}, 0},
		{"fall", []history.Hold{hold(2, 10, 100, 20), hold(1, 30, 100, 40)}, 1},
		{"asked for at the same time", []history.Hold{hold(2, 10, 100, 20), overlapping}, 0},
		{"the highest counts, not the last", []history.Hold{hold(5, 10, 100, 11), hold(6, 20, 100, 21), hold(4, 30, 100, 31), hold(5, 40, 100, 41)}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Len(t, of(tc.holds...).Order(true), tc.wrong)
			assert.Len(t, of(tc.holds...).Order(false), tc.wrong)
			want := porcupine.Ok
			if tc.wrong > 0 {
				want = porcupine.Illegal
			}
			assert.Equal(t, []porcupine.CheckResult{want}, results(of(tc.holds...).Locks(false)))
		})
	}
	twice := of(hold(1, 10, 100, 20), hold(1, 12, 100, 20))
	twice.Holds[1].Called, twice.Holds[1].Asked = 5, 5
	assert.Len(t, twice.Order(true), 1)
	assert.Equal(t, []porcupine.CheckResult{porcupine.Illegal}, results(twice.Locks(false)))
}

// A lease that ended early at the server may still be passed on.
func TestWithoutExclusionTokensRiseFromWhatWasAskedFor(t *testing.T) {
	passed := hold(1, 30, 100, 40)
	passed.Asked = 5
	h := of(hold(2, 10, 100, 20), passed)
	assert.Empty(t, h.Order(false))
	assert.Equal(t, []porcupine.CheckResult{porcupine.Ok}, results(h.Locks(false)))
	assert.Len(t, h.Order(true), 1)
	assert.Equal(t, []porcupine.CheckResult{porcupine.Illegal}, results(h.Locks(true)))

	h.Holds[1].Asked = 11
	assert.Len(t, h.Order(false), 1)
	assert.Equal(t, []porcupine.CheckResult{porcupine.Illegal}, results(h.Locks(false)))
}

// Calls that wait at the same time may be granted in any order, and a search that
// tried them all would not end.
func TestManyWhoWaitAtATimeAreJudgedAtOnce(t *testing.T) {
	const waiters, rounds = 64, 20
	for _, excludes := range []bool{true, false} {
		h := &history.History{}
		for round := range int64(rounds) {
			start := 1000 * round
			for n := range int64(waiters) {
				one := hold(start+n+1, start+100+10*n, start+1000, start+105+10*n)
				one.Called, one.Asked = start+waiters-n, start+waiters-n // the last to call is the first to be granted
				h.Holds = append(h.Holds, one)
			}
		}
		assert.Equal(t, []porcupine.CheckResult{porcupine.Ok}, results(h.Locks(excludes)))

		end := len(h.Holds) - 1
		h.Holds[end].Token, h.Holds[0].Token = h.Holds[0].Token, h.Holds[end].Token
		assert.Equal(t, []porcupine.CheckResult{porcupine.Illegal}, results(h.Locks(excludes)))
	}
}

func access(token, called int64, write bool, value, expects int64) history.Access {
	return history.Access{Name: "a", Token: token, Called: called, Done: called + 1, Write: write, Value: value, Expects: expects}
}

func TestRegisterRefusesOldTokensAndLosesNoWrite(t *testing.T) {
	stale := func(a history.Access) history.Access { a.Stale = true; return a }
	unknown := func(a history.Access) history.Access { a.Unknown, a.Done = true, history.Never; return a }
	first := []history.Access{access(1, 10, false, 0, 0), access(2, 20, false, 0, 0), access(2, 30, true, 1, 0)}
	for _, tc := range []struct {
		name string
		last history.Access
		want porcupine.CheckResult
		lost int
	}{
		{"old token refused", stale(access(1, 40, true, 1, 0)), porcupine.Ok, 0},
		{"old token let in", access(1, 40, true, 1, 0), porcupine.Illegal, 1},
		{"old token not answered", unknown(access(1, 40, true, 1, 0)), porcupine.Ok, 0},
		{"new token refused", stale(access(3, 40, true, 2, 1)), porcupine.Illegal, 0},
		{"a read of what is not there", access(3, 40, false, 7, 0), porcupine.Illegal, 0},
		{"a write over what its holder has not read", access(3, 40, true, 1, 0), porcupine.Illegal, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &history.History{Accesses: append(slices.Clip(first), tc.last)}
			assert.Equal(t, []porcupine.CheckResult{tc.want}, results(h.Registers()))
			assert.Len(t, h.Lost(map[string]int64{"a": 1}), tc.lost)
		})
	}
}

func TestIncrementWithoutAnAnswerMayCountOrNot(t *testing.T) {
	h := &history.History{Accesses: []history.Access{
		access(1, 10, true, 1, 0), {Name: "a", Token: 2, Called: 20, Done: history.Never, Write: true, Value: 2, Expects: 1, Unknown: true},
	}}
	assert.Empty(t, h.Lost(map[string]int64{"a": 1}))
	assert.Empty(t, h.Lost(map[string]int64{"a": 2}))
	assert.Len(t, h.Lost(map[string]int64{"a": 3}), 1)
	assert.Len(t, h.Lost(map[string]int64{"a": 0}), 1)
}

func TestWhatAKilledClientHadInHandsIsKnownOnlyWhileItUsedIt(t *testing.T) {
	granted := client.Event{Kind: client.Counting, Name: "a", Token: 1, Called: 9, Done: 10, Until: 100}
	read := client.Event{Kind: client.Read, Name: "a", Token: 1, Called: 11, Done: 12, Value: 4}
	written := client.Event{Kind: client.Written, Name: "a", Token: 1, Called: 20, Done: 21, Value: 5}
	brief := granted
	brief.Kind = client.Granted
	refused := read
	refused.Stale = true
	for _, tc := range []struct {
		name   string
		events []client.Event
		end    int64
		writes int
	}{
		{"granted", []client.Event{brief}, 10, 0},
		{"granted for a use of the register", []client.Event{granted}, 10, 0},
		{"between read and write", []client.Event{granted, read}, 50, 1},
		{"after the write", []client.Event{granted, read, written}, 20, 1},
		{"after a read that was refused", []client.Event{granted, refused}, 11, 0},
		{"released", []client.Event{brief, {Kind: client.Ended, Name: "a", Called: 30, Done: 31, Until: 130}}, 30, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &history.History{}
			h.Add(7, tc.events, 50)
			require.Len(t, h.Holds, 1)
			assert.Equal(t, tc.end, h.Holds[0].End())
			writes := 0
			for _, a := range h.Accesses {
				if a.Write {
					writes++
					assert.EqualValues(t, 4, a.Expects)
					assert.EqualValues(t, 5, a.Value)
				}
			}
			assert.Equal(t, tc.writes, writes)
		})
	}
	h := &history.History{}
	h.Add(7, []client.Event{granted, read}, history.Never)
	assert.EqualValues(t, 100, h.Holds[0].End(), "who was not killed held until its lease ended")
}

func TestStaleWritesAreCountedAndReadsAreNot(t *testing.T) {
	h := &history.History{}
	stale := client.Event{Name: "a", Token: 1, Stale: true}
	granted, read := stale, stale
	granted.Kind, read.Kind, read.Stale = client.Counting, client.Read, false
	written := stale
	written.Kind = client.Written
	h.Add(0, []client.Event{granted, read, written}, history.Never)
	read.Stale = true
	h.Add(1, []client.Event{granted, read}, history.Never)
	assert.Equal(t, 1, h.Stale())
}

func TestFailedHistoryIsSavedAsAPage(t *testing.T) {
	verdicts := of(hold(1, 10, 100, 20), hold(2, 19, 100, 30)).Locks(true)
	require.Len(t, verdicts, 1)
	page := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, verdicts[0].Save(page))
	assert.FileExists(t, page)
}
