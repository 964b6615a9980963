package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Something in front of the server does not take keys of several slots, or has no
// right to one of them.
func TestARefusedBunchIsAskedOneByOne(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"-CROSSSLOT Keys in request don't hash to the same slot", "-NOPERM No permissions to access a key", "-ERR no such thing"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			s, p, store, seen := bunches(t)
			p.Answer(redistest.Match{Command: "EVALSHA"}, refusal)
			var got [5]guard.Lease
			together(t, store, len(got), func(i int) {
				var err error
				got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
				assert.NoError(t, err)
			})
			lists, _ := seen.all()
			require.Len(t, lists, 2)
			assert.Len(t, lists[0], 1)
			assert.Len(t, lists[1], len(got))
			together(t, store, len(got), func(i int) { assert.NoError(t, store.Release(t.Context(), got[i])) })
			lists, _ = seen.all()
			require.Len(t, lists, 1)
			assert.Len(t, lists[0], len(got), "it is not tried again so soon")
			nothingLeft(t, s, "n")
		})
	}
}

func TestInABunchANameWithoutRightsHurtsNobody(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t, "")
	for i, r := range rights {
		if strings.HasPrefix(r, "~") {
			rights[i] = "~lock:{our*"
		}
	}
	_, admin, rdb := user(t, rights...)
	load(t, admin)
	store := newStore(t, rdb, redisstore.OneServer())
	acquire(t, store, request("ours"))
	names := []string{"our1", "theirs", "our2"}
	together(t, store, len(names), func(i int) {
		_, err := store.Acquire(t.Context(), request(names[i]))
		if names[i] == "theirs" {
			assert.ErrorIs(t, err, guard.ErrUnavailable)
		} else {
			assert.NoError(t, err)
		}
	})
}

func TestABunchOfWhichTheScriptVanished(t *testing.T) {
	t.Parallel()
	s, _, store, seen := bunches(t)
	require.NoError(t, s.Client(t).ScriptFlush(t.Context()).Err())
	for range 2 {
		var got [5]guard.Lease
		together(t, store, len(got), func(i int) {
			var err error
			got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
			assert.NoError(t, err)
		})
		together(t, store, len(got), func(i int) { assert.NoError(t, store.Release(t.Context(), got[i])) })
		_, flat := seen.all()
		seen.all()
		if len(flat) == 2 { // the second time
			return
		}
		assert.Len(t, flat, 2+2*len(got))
	}
	assert.Fail(t, "no bunches any more")
}

// The connection dies while a bunch is on its way: who was granted a lease gets it,
// with the token it was granted with.
func TestABunchThatBrokeOffIsOneGrantForEachName(t *testing.T) {
	t.Parallel()
	for how, fault := range map[string]func(*redistest.Proxy, redistest.Match) *redistest.Fault{
		"executed":     (*redistest.Proxy).SwallowAndCut,
		"not executed": (*redistest.Proxy).Cut,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, p, store, _ := bunches(t)
			var got [5]guard.Lease
			fault(p, redistest.Match{Command: "EVALSHA"})
			together(t, store, len(got), func(i int) {
				var err error
				got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
				assert.NoError(t, err)
			})
			for i, l := range got {
				name := fmt.Sprint("n", i)
				assert.Equal(t, fmt.Sprint(int64(l.Token)), value(t, s.Client(t), fenceKey(name)))
				assert.Contains(t, value(t, s.Client(t), leaseKey(name)), l.Owner)
			}
			fault(p, redistest.Match{Command: "EVALSHA"})
			together(t, store, len(got), func(i int) { assert.NoError(t, store.Release(t.Context(), got[i])) })
			nothingLeft(t, s, "n")
		})
	}
}

// Who gives up while the bunch is on its way leaves nothing behind, and the others
// get their answers.
func TestABunchGoesOnWithoutOneThatGaveUp(t *testing.T) {
	t.Parallel()
	s, p, store, _ := bunches(t)
	f := p.HoldReply(redistest.Match{Command: "EVALSHA"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		f.Wait(t, 1)
		cancel()
		time.AfterFunc(50*time.Millisecond, f.End)
	}()
	var got [3]guard.Lease
	gone := request("gone")
	together(t, store, len(got), func(i int) {
		var err error
		if i == 1 {
			_, err = store.Acquire(ctx, gone)
			assert.ErrorIs(t, err, context.Canceled)
			return
		}
		got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
		assert.NoError(t, err)
	})
	require.NoError(t, store.Release(t.Context(), guard.Lease{Request: gone}))
	assert.Empty(t, value(t, s.Client(t), leaseKey("gone")))
	for _, i := range []int{0, 2} {
		require.NoError(t, store.Release(t.Context(), got[i]))
	}
	nothingLeft(t, s, "n")
}

// One of two stores shares calls and the other one does not; scripts vanish, and
// connections with calls on their way.
func TestCallsForManyNamesKeepHoldersApart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	var guards []*guard.Guard
	for _, store := range []*redisstore.Store{newStore(t, p.Client(t), redisstore.OneServer()), newStore(t, s.Client(t))} {
		g, err := guard.New(store, guard.TTL(5*time.Second))
		require.NoError(t, err)
		guards = append(guards, g)
	}
	ctx, stop := context.WithCancel(t.Context())
	var mishaps, work sync.WaitGroup
	mishaps.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(10 * time.Millisecond)
			if i%5 == 0 {
				_ = s.Client(t).ScriptFlush(context.Background()).Err()
			} else {
				p.SwallowAndCut(redistest.Match{Command: "EVALSHA EVAL"})
			}
		}
	})
	var oracle redistest.Oracle
	var mu sync.Mutex
	last := map[string]fence.Token{}
	for i := range 64 {
		work.Go(func() {
			for j := range 20 {
				name := fmt.Sprint("n", (i+j)%48)
				err := guard.Do(t.Context(), guards[i%2].Name(name), func(ctx context.Context) error {
					defer oracle.Enter(name)()
					mu.Lock()
					defer mu.Unlock()
					assert.Greater(t, fence.From(ctx), last[name])
					last[name] = fence.From(ctx)
					return nil
				})
				assert.NoError(t, err)
			}
		})
	}
	work.Wait()
	stop()
	mishaps.Wait()
	assert.Equal(t, 1, oracle.Max())
	assert.Equal(t, 64*20, oracle.Total())
	for _, g := range guards {
		require.NoError(t, g.Close(t.Context()))
	}
	nothingLeft(t, s, "n")
}
