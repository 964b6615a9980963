// Package model collects the models of what holdfast promises: small transition
// systems whose reachable states are searched completely for a step that breaks
// a rule. Each is explored with the rules that the code follows, and with each
// rule left out in turn, which the search must notice.
//
//	tokens    tokens of a quorum, without time: order and uniqueness
//	redlock   a quorum with time, data loss, restart grace, renewal, re-planting
//	mark      the key that remembers the last token, and when it may expire
//	handoff   one Redis: queue, claim window, published grants, tombstones
//	line      the calls of one process that want one name, and local hand-off
//	failover  a primary and replicas, for what is not promised there
//	reigns    fail-over back and forth
//
// The models are written by hand, next to the code and not from it. A change of
// the protocol starts here. What a model leaves out is said in its package.
package model

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/model/explore"
	"github.com/holdfast-go/holdfast/internal/model/failover"
	"github.com/holdfast-go/holdfast/internal/model/handoff"
	"github.com/holdfast-go/holdfast/internal/model/line"
	"github.com/holdfast-go/holdfast/internal/model/mark"
	"github.com/holdfast-go/holdfast/internal/model/redlock"
	"github.com/holdfast-go/holdfast/internal/model/reigns"
	"github.com/holdfast-go/holdfast/internal/model/tokens"
)

// Cases are all configurations with the verdicts they must have.
func Cases() []explore.Case {
	return slices.Concat(
		tokens.Cases(),
		redlock.Cases(),
		mark.Cases(),
		handoff.Cases(),
		line.Cases(),
		failover.Cases(),
		reigns.Cases(),
	)
}
