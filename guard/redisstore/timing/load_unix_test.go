//go:build unix

package timing_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// instants is a hook that keeps when scripts were sent.
type instants struct {
	mu   sync.Mutex
	list []time.Time
}

func (*instants) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *instants) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

func (s *instants) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.note(cmds...)
		return next(ctx, cmds)
	}
}

func (s *instants) note(cmds ...redis.Cmder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range cmds {
		if strings.HasPrefix(cmd.Name(), "eval") {
			s.list = append(s.list, time.Now())
		}
	}
}

func (s *instants) since(from time.Time) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.list), func(at time.Time) bool { return at.Before(from) })
}

// cpu is what this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Fifty waiters while another holds for long: each asks about twice a second, not
// all at once, and next to no processor time goes into it. Then the name is passed
// from one to the next.
func TestWaitersAskSeldomAndNotInStep(t *testing.T) {
	const (
		waiters = 50
		hold    = 5 * time.Second
		slot    = 10 * time.Millisecond
	)
	for _, tc := range []struct {
		name      string
		processes int
		ttl       time.Duration // of the holder
	}{
		{"50 processes", waiters, 30 * time.Second},
		{"50 processes, short TTL", waiters, time.Second},
		{"one process", 1, 30 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := redistest.Start(t)
			direct := s.Client(t)
			p := redistest.NewProxy(t, s.Addr())
			holder := newGuard(t, p.Client(t), guard.TTL(tc.ttl))
			require.NoError(t, guard.Do(t.Context(), holder.Name("warm"), nothing))
			held, err := guard.Acquire(t.Context(), holder.Name("x"))
			require.NoError(t, err)
			p.ResetCommands()
			rdb := s.Client(t)
			sent := &instants{}
			rdb.AddHook(sent)
			guards := make([]*guard.Guard, tc.processes)
			for i := range guards {
				store, err := redisstore.New(rdb)
				require.NoError(t, err)
				guards[i], err = guard.New(store.Fair())
				require.NoError(t, err)
			}
			began, used := time.Now(), cpu(t)
			var work sync.WaitGroup
			for i := range waiters {
				work.Go(func() {
					assert.NoError(t, guard.Do(t.Context(), guards[i%len(guards)].Name("x"), func(context.Context) error {
						time.Sleep(time.Millisecond)
						return nil
					}))
				})
			}
			waits(t, direct, "x", int64(tc.processes))
			time.Sleep(time.Until(began.Add(hold)))
			used = cpu(t) - used
			asked := sent.since(began)
			crowd, round := crowded(sent.since(began.Add(time.Second)), slot), tc.processes
			t.Logf("%d commands in %v, at most %d of %d in %v, %v of processor time", len(asked), hold, crowd, round, slot, used)
			assert.LessOrEqual(t, len(asked), 1200*int(hold)/int(10*time.Second))
			assert.LessOrEqual(t, crowd, max(round*3/10, 2), "in step")
			assert.LessOrEqual(t, used, hold/10*time.Duration(1+tc.processes/50)) // many clients cost more
			assert.LessOrEqual(t, p.Commands()["evalsha"]+p.Commands()["eval"], max(5, int64(hold/(tc.ttl*9/10/3))+1), "an idle holder only renews")

			released := time.Now()
			require.NoError(t, held.Release())
			work.Wait()
			took, cost := time.Since(released), len(sent.since(released))
			t.Logf("all done after %v, with %d commands", took, cost)
			assert.LessOrEqual(t, took, 5*time.Second)
			assert.LessOrEqual(t, cost, (3+1)*waiters)
			for _, g := range guards {
				require.NoError(t, g.Close(t.Context()))
			}
			assert.True(t, gone(direct, "x"))
			assert.Zero(t, direct.Exists(t.Context(), leaseKey("x")+":q", leaseKey("x")+":w").Val())
		})
	}
}

// crowded is the most instants within any slot.
func crowded(at []time.Time, slot time.Duration) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	first := 0
	for i := range at {
		for at[i].Sub(at[first]) >= slot {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
