package redisstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// refusal is what a server says that has read the command.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func TestBunchesAreTriedAgainAMinuteAfterOneWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := fakeLane(t, func() {})
		l.bunches = true
		sent := func() int { // for three requests
			before := len(server.sent)
			l.sendAll(t.Context(), []*request{releaseScript.fresh(), releaseScript.fresh(), releaseScript.fresh()})
			return len(server.sent) - before
		}
		assert.Equal(t, 1, sent())
		server.refuses = refusal("CROSSSLOT")
		assert.Equal(t, 1+3, sent())
		server.refuses = nil
		time.Sleep(bunchless - time.Nanosecond)
		assert.Equal(t, 3, sent())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, 1, sent())
	})
}

// A bunch must not turn an unknown outcome, or an answer that is not ours, into a
// known one.
func TestABunchWithoutALineForEachIsNoAnswer(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tc := range []struct {
		text string
		err  error
		want string
	}{
		{"", broken, "broken"},
		{"D", nil, "not one line for each name"},
		{"D\nD\nD", nil, "not one line for each name"},
	} {
		b := bunch{members: []*request{releaseScript.fresh(), releaseScript.fresh()}, cmd: &once{StringCmd: &redis.StringCmd{}}}
		b.cmd.SetVal(tc.text)
		b.cmd.SetErr(tc.err)
		b.share()
		for _, q := range b.members {
			assert.Empty(t, q.cmd.Val())
			assert.ErrorContains(t, q.cmd.Err(), tc.want)
			assert.False(t, isServerError(q.cmd.Err()))
		}
	}
}
