package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// sends keeps what a client was asked to send: one list for each pipeline.
type sends struct {
	mu    sync.Mutex
	lists [][]string
}

func (*sends) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

func (s *sends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.note(cmds...)
		return next(ctx, cmds)
	}
}

func (s *sends) note(cmds ...redis.Cmder) {
	var list []string
	for _, cmd := range cmds {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			continue
		}
		args := []string{cmd.Name()}
		for _, arg := range cmd.Args()[2:] { // without the script
			args = append(args, fmt.Sprint(arg))
		}
		list = append(list, strings.Join(args, " "))
	}
	if len(list) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists = append(s.lists, list)
	}
}

// all is what was sent since the last call.
func (s *sends) all() (lists [][]string, flat []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, s.lists = s.lists, nil
	for _, list := range lists {
		flat = append(flat, list...)
	}
	return lists, flat
}

// batches is a store that sends everything in batches, behind a proxy, and what
// it sends.
func batches(t *testing.T) (*redistest.Server, *redistest.Proxy, *redisstore.Store, *sends) {
	t.Helper()
	return watched(t, func(rdb *redis.Client) *redisstore.Store {
		return newStore(t, struct{ redis.UniversalClient }{rdb}) // so that nobody sends on his own
	})
}

func watched(t *testing.T, open func(*redis.Client) *redisstore.Store) (*redistest.Server, *redistest.Proxy, *redisstore.Store, *sends) {
	t.Helper()
	s := redistest.Start(t)
	load(t, s.Client(t))
	p := redistest.NewProxy(t, s.Addr())
	p.Delay(3*time.Millisecond, 3*time.Millisecond) // too slow for quick attempts, which are sent again when a busy machine keeps them waiting
	rdb := p.Client(t)
	seen := &sends{}
	rdb.AddHook(seen)
	return s, p, open(rdb), seen
}

// together makes the calls f(0) … f(n-1) go in one batch.
func together(t *testing.T, s *redisstore.Store, n int, f func(i int)) {
	t.Helper()
	waiting, send := redisstore.Gather(s)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { f(i) })
		eventually(t, "gathered", func() bool { return waiting() == i+1 })
	}
	send()
	calls.Wait()
}

func leases(t *testing.T, s guard.Locker, prefix string, n int) []guard.Lease {
	t.Helper()
	list := make([]guard.Lease, n)
	for i := range list {
		list[i] = acquire(t, s, request(fmt.Sprint(prefix, i)))
	}
	return list
}

// A server knows some scripts of a pipeline and not others: exactly those it
// does not know are sent again.
func TestInOneBatchOnlyVanishedScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	s, _, store, seen := batches(t)
	rdb := s.Client(t)
	renewed, released := leases(t, store, "renewed", 4), leases(t, store, "released", 4)
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	for _, known := range []string{"acquire", "renew"} {
		require.NoError(t, rdb.ScriptLoad(t.Context(), source(t, known)).Err())
	}
	seen.all()
	together(t, store, 12, func(i int) {
		var err error
		switch j := i / 3; i % 3 {
		case 0:
			_, err = store.Acquire(t.Context(), request(fmt.Sprint("acquired", j)))
		case 1:
			_, err = store.Renew(t.Context(), renewed[j])
		case 2:
			err = store.Release(t.Context(), released[j])
		}
		assert.NoError(t, err)
	})
	lists, flat := seen.all()
	assert.Len(t, lists[0], 12)
	assert.Len(t, flat, 12+4)
	var again []string
	for _, call := range flat[12:] {
		args, found := strings.CutPrefix(call, "eval ")
		assert.True(t, found, call)
		again = append(again, args)
	}
	var unknown []string
	for i, call := range lists[0] {
		if i%3 == 2 {
			unknown = append(unknown, strings.TrimPrefix(call, "evalsha "))
		}
	}
	assert.ElementsMatch(t, unknown, again)
	for i := range 4 {
		assert.NotEmpty(t, value(t, rdb, leaseKey(fmt.Sprint("acquired", i))))
		assert.NotEmpty(t, value(t, rdb, leaseKey(fmt.Sprint("renewed", i))))
		assert.Empty(t, value(t, rdb, leaseKey(fmt.Sprint("released", i))))
	}
}

// A connection dies in the middle of a batch. Answers that were read count; the
// rest is asked again with the same owner, and is one grant with one token.
func TestInABatchThatBrokeOffOnlyTheUnansweredIsAskedAgain(t *testing.T) {
	t.Parallel()
	const n, answered = 10, 4
	for how, fault := range map[string]func(*redistest.Proxy, redistest.Match) *redistest.Fault{
		"executed":     (*redistest.Proxy).SwallowAndCut,
		"not executed": (*redistest.Proxy).Cut,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, p, store, seen := batches(t)
			rdb := s.Client(t)
			var got [n]guard.Lease
			// asked checks in which batch each was, and who was in another one.
			asked := func() {
				t.Helper()
				lists, flat := seen.all()
				require.Len(t, lists[0], n)
				for i, l := range got {
					assert.Contains(t, lists[0][i], l.Owner)
					times := len(slices.DeleteFunc(slices.Clone(flat), func(call string) bool { return !strings.Contains(call, l.Owner) }))
					if i < answered {
						assert.Equal(t, 1, times, "it was answered")
					} else {
						assert.Greater(t, times, 1, "it was not")
					}
				}
			}
			acquire(t, store, request("warm")) // there is a connection
			seen.all()
			f := fault(p, redistest.Match{Command: "EVALSHA", Skip: answered})
			together(t, store, n, func(i int) {
				var err error
				got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
				assert.NoError(t, err)
			})
			f.End()
			asked()
			for i, l := range got {
				assert.Equal(t, fmt.Sprint(int64(l.Token)), value(t, rdb, fenceKey(fmt.Sprint("n", i))), "one grant, one token")
				assert.Contains(t, value(t, rdb, leaseKey(fmt.Sprint("n", i))), l.Owner)
			}
			fault(p, redistest.Match{Command: "EVALSHA", Skip: answered})
			together(t, store, n, func(i int) {
				assert.NoError(t, store.Release(t.Context(), got[i]), "a copy of which the answer is lost did it")
			})
			asked()
			nothingLeft(t, s, "n")
		})
	}
}

// Who leaves before his request was sent takes it along: nothing is sent, and
// what becomes of the owner is known.
func TestARequestCancelledBeforeItWasSentIsNeverSent(t *testing.T) {
	t.Parallel()
	s, _, store, seen := batches(t)
	held := acquire(t, store, request("held"))
	seen.all()
	r := request("x")
	waiting, send := redisstore.Gather(store)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := store.Acquire(ctx, r)
		assert.ErrorIs(t, err, context.Canceled)
	})
	calls.Go(func() {
		_, err := store.Renew(ctx, held)
		assert.ErrorIs(t, err, context.Canceled)
	})
	calls.Go(func() { assert.ErrorIs(t, store.Release(ctx, held), context.Canceled) })
	eventually(t, "gathered", func() bool { return waiting() == 3 })
	cancel()
	calls.Wait()
	assert.Zero(t, waiting())
	send()
	_, flat := seen.all()
	assert.Empty(t, flat)
	// Neither owner has to be told apart from late copies.
	require.NoError(t, store.Release(t.Context(), acquire(t, store, r)))
	require.NoError(t, store.Release(t.Context(), held))
	_, flat = seen.all()
	assert.Len(t, flat, 3)
	for key := range s.Keys("") {
		assert.True(t, strings.HasSuffix(key, "}:fence"), "left behind: "+key)
	}
}
