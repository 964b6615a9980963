package redisstore

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
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

// What a worker was called for may have been taken along by another one.
func TestAWorkerThatIsCalledForNothingParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := fakeLane(t, func() {})
		l.parked = 1
		patient := releaseScript.fresh()
		patient.patient = true
		first := ask(t.Context(), l, patient)
		second := ask(t.Context(), l, releaseScript.fresh()) // takes the queue along
		assert.True(t, (<-first).sent)
		assert.True(t, (<-second).sent)
		assert.Len(t, server.batches, 1)
		synctest.Wait() // the worker of that batch has found the call, and nothing to do
		assert.Empty(t, l.loads)
		assert.Zero(t, look(l).flying)
		assert.Equal(t, outcome{true, nil, 0}, <-ask(t.Context(), l, releaseScript.fresh()), "the lane goes on")
		idle(t, l)
	})
}
