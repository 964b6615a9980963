package guard_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// promises are the lines of doc.go and of the README's table, and what shows that
// they are true: a test function below a directory, or a case of a model with its
// verdict.
var promises = map[string][]string{
	"one server that keeps its data": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"guard/redisstore/timing TestNeverTwoLiveContextsWhateverTheLinkDoes",
		"guard/redisstore/timing TestTokensRiseWhateverHappensToTheirHolders",
		"guard/redisstore TestARestartThatKeepsTheDataIsNoticedByNobody",
		"model handoff | as built: holds",
		"model mark | mark expires a while after its token: holds",
	},
	"one server with restart grace": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"guard/redisstore TestRestartGrace",
		"guard/redisstore/timing/nodes TestANodeRestartedEmptyGivesNoLeaseAwayTwice",
		"guard/redisstore/timing/nodes TestALeaseThatSurvivesARestartIsRenewedInGrace",
		"guard/redisstore/timing/nodes TestWithoutINFOTheLossOfGraceIsReportedOnce",
		"guard/redisstore TestTokensRiseOverLossOfAllDataAndRestart",
		"guard/redisstore TestAMarkIsAtMostAMinuteAheadOfTheClockByProposals",
		"model redlock | 3 wipes, grace as long as the TTL: holds",
		"model redlock | 1 wipe, grace shorter than the TTL: violates ME",
	},
	"one server that loses data, without grace": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"guard/redisstore TestAnEvictedLeaseIsNoticedAtTheNextRenewal",
		"guard/redisstore/timing/nodes TestWithoutGraceANodeRestartedEmptyGivesALeaseAway",
		"guard/redisstore TestTokensRiseOverLossOfAllDataAndRestart",
		"model redlock | 1 wipe, no grace: violates ME",
	},
	"primary and replica (Sentinel, Cluster)": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"guard/redisstore TestAPromotedReplicaWithoutTheLeaseIsNoticedAtTheNextRenewal",
		"model failover | no grace: violates ME",
		"model failover | no grace, fail-over takes a tick: holds",
		"model failover | no grace, fail-over takes a tick, promoted clock as far behind: violates ORDER",
		"model failover | no grace, old primary takes writes: violates ORDER",
	},
	"guard.Quorum of 3 or 5": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"guard TestQuorumKeepsTheContract",
		"guard/redisstore/timing/nodes TestContract",
		"guard/redisstore/timing/nodes TestANodeRestartedEmptyGivesNoLeaseAwayTwice",
		"guard/redisstore/timing/nodes TestMissedNodesAreRepairedAndNeverTwoHold",
		"guard/redisstore/timing/nodes TestARestartedNodeGetsTheLeaseBackAfterItsGrace",
		"guard/redisstore/timing/nodes TestARenewalPutsNothingOnANodeThatARivalCounts",
		"guard/redisstore/timing/nodes TestTokensRiseWhileEveryNodeLosesItsData",
		"guard/redisstore/timing/nodes TestTokensOfAWrittenBackGrantAreItsOwn",
		"guard/redisstore/timing TestAFrozenNodeOfAQuorumCostsNobodyAnything",
		"guard/redisstore/timing TestBlackHolesOfAQuorum",
		"guard/redisstore/timing TestTokensRiseOver100000GrantsOfAQuorum",
		"model tokens | agreed base or write-back: holds",
		"model redlock | renewal, leases end early, margin: holds",
		"model redlock | 1 wipe, grace, three attempts: holds",
		"model redlock | 1 wipe, proposals as far ahead as grace is long: violates ORDER",
		"model redlock | 1 wipe, grace longer than clocks of nodes are apart: holds",
	},
	"a client paused beyond its lease": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"guard/redisstore TestAHolderStoppedBeyondItsLeaseKnowsWhenAwake",
		"guard/redisstore TestAWaiterStoppedAcrossItsGrantDoesNotEnter",
		"fence TestPausedHolderLosesNoUpdateIfMarksAreRaisedBeforeTheRead",
	},
	"a machine that was suspended": {
		"guard TestSleepBeyondTheLeaseIsALossEvenIfTheKeyIsStillOurs",
		"guard TestSleepIsNoticedByTheTick",
		"guard TestGrantAcrossASleepIsConfirmedByARenewal",
		"model line | as built, the machine sleeps: holds",
	},
	"a clock that is set": {
		"internal/faults/timing TestWhatIsClaimedHoldsUnderFaults",
		"model mark | clock steps back less than marks are kept: holds",
		"model mark | clock steps back as far as marks are kept: violates ORDER",
		"model redlock | leases end early, no margin: violates ME",
	},
}

func TestEveryPromiseIsBackedByATestOrAModel(t *testing.T) {
	verdicts, err := os.ReadFile("../internal/model/RESULTS.md")
	require.NoError(t, err)
	for promise, evidence := range promises {
		assert.NotEmpty(t, evidence, promise)
		for _, e := range evidence {
			where, what, _ := strings.Cut(e, " ")
			if where != "model" {
				assert.True(t, hasTest(t, filepath.Join("..", where), what), "%s: no %s in %s", promise, what, where)
				continue
			}
			name, verdict, _ := strings.Cut(what, ": ")
			row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(name) + ` \| [^|]* \| ` + verdict + ` \| ` + verdict + ` \|`)
			assert.Regexp(t, row, string(verdicts), "%s: no such verdict", promise)
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// The README and the package say the same, line by line.
func TestEveryPromiseIsToldTwiceAndAlike(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(readme), "| deployment | mutual exclusion | token order |\n|---|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(row, "`", ""), "| \n"), " | ")
		require.Len(t, cells, 3, row)
		assert.Contains(t, promises, cells[0], "a line without evidence")
		want = append(want, cells[0]+": exclusion "+cells[1]+"; order "+cells[2]+".")
	}
	assert.Len(t, want, len(promises), "evidence for a line that is gone")

	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	text := regexp.MustCompile(`\n//     +`).ReplaceAllString(strings.ReplaceAll(string(doc), "[Quorum]", "guard.Quorum"), " ")
	var got []string
	for line := range strings.Lines(text) {
		if item, ok := strings.CutPrefix(line, "//   - "); ok {
			got = append(got, strings.TrimSpace(item))
		}
	}
	assert.Equal(t, want, got)
}
