package redisstore

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/guard"
)

// Renewals that are due together are asked for together, the first one too.
func TestRenewalsWaitForOthersThatAreAboutToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := fakeLane(t, func() {})
		l.parked = 1 // a worker that is slow to come
		var done []<-chan outcome
		for range 3 {
			q := releaseScript.fresh()
			q.patient = true
			done = append(done, ask(t.Context(), l, q))
		}
		assert.Len(t, l.loads, 1, "one worker is called for all")
		assert.Equal(t, 3, look(l).queued)
		assert.Equal(t, 1, look(l).flying)
		assert.Empty(t, server.sent)
		go l.work(<-l.loads)
		for _, d := range done {
			assert.Equal(t, outcome{true, nil, 0}, <-d)
		}
		assert.Len(t, server.batches, 1)

		q := releaseScript.fresh()
		q.patient = true
		assert.Equal(t, outcome{true, nil, 0}, <-ask(t.Context(), l, q), "a lone one goes too")
		idle(t, l)
	})
}

// Others need not send what a worker is on its way to: they go with it.
func TestRequestsJoinThoseThatAWorkerWasCalledFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := fakeLane(t, func() {})
		l.parked = 1
		patient, other := releaseScript.fresh(), releaseScript.fresh()
		patient.patient = true
		first, second := ask(t.Context(), l, patient), ask(t.Context(), l, other)
		assert.Equal(t, 2, look(l).queued)
		assert.Equal(t, 1, look(l).flying)
		go l.work(<-l.loads)
		assert.True(t, (<-first).sent)
		assert.True(t, (<-second).sent)
		assert.Equal(t, []int{2}, server.batches)
		assert.Equal(t, []redis.Cmder{patient.cmd, other.cmd}, server.sent)
		idle(t, l)
	})
}

// What a worker was called for may have been taken back.
func TestAWorkerThatIsCalledForNothingParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := fakeLane(t, func() {})
		l.parked = 1
		patient := releaseScript.fresh()
		patient.patient = true
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, l, patient)
		cancel()
		assert.False(t, (<-first).sent)
		go l.work(<-l.loads)
		synctest.Wait()
		assert.Empty(t, server.batches)
		assert.Zero(t, look(l).flying)
		assert.Equal(t, outcome{true, nil, 0}, <-ask(t.Context(), l, releaseScript.fresh()), "the lane goes on")
		idle(t, l)
	})
}

func TestAReleaseIsPatientIfTheNextRequestFollows(t *testing.T) {
	e := &engine{}
	for _, next := range []bool{false, true} {
		assert.Equal(t, next, e.leaveRequest(guard.Lease{Next: next}, false).patient)
	}
}
