package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What a server says for a while is waited out; what stays the same until
// somebody acts is told at once.
func TestServerConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line      string
		permanent bool
	}{
		{"-LOADING Redis is loading the dataset in memory", false},
		{"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", false},
		{"-CLUSTERDOWN The cluster is down", false},
		{"-TRYAGAIN Multiple keys request during rehashing of slot", false},
		{"-READONLY You can't write against a read only replica.", false},
		{"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", false},
		{"-NOREPLICAS Not enough good replicas to write.", false},
		{"-BUSY Redis is busy running a script.", false},
		{"-OOM command not allowed when used memory > 'maxmemory'.", true},
		{"-NOPERM this user has no permissions to run the 'evalsha' command", true},
		{"-NOAUTH Authentication required.", true},
		{"-WRONGPASS invalid username-password pair or user is disabled.", true},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value", true},
	} {
		t.Run(strings.Fields(tc.line)[0], func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			load(t, s.Client(t))
			p := redistest.NewProxy(t, s.Addr())
			g := newGuard(t, p.Client(t))
			name := redistest.Unique(t)
			f := p.Answer(redistest.Match{Command: "EVALSHA", Times: 2}, tc.line)
			ran := false
			err := guard.Do(t.Context(), g.Name(name), func(context.Context) error { ran = true; return nil })
			if !tc.permanent {
				require.NoError(t, err)
				f.Wait(t, 2)
				return
			}
			require.ErrorIs(t, err, guard.ErrUnavailable)
			require.NotErrorIs(t, err, guard.ErrHeld)
			assert.ErrorContains(t, err, strings.TrimPrefix(tc.line, "-"))
			var server redis.Error
			assert.ErrorAs(t, err, &server, "the original error is reachable")
			f.Wait(t, 1)
			assert.Equal(t, 1, f.Count(), "not tried again")
			assert.False(t, ran)
			f.End()
		})
	}
}

// setting changes the server's configuration.
func setting(t testing.TB, rdb *redis.Client, name, value string) {
	t.Helper()
	require.NoError(t, rdb.ConfigSet(context.Background(), name, value).Err())
}

func TestWithoutMemoryLeasesAreRenewedAndReleasedButNotGranted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	store := newStore(t, rdb)
	ctx := t.Context()
	alone, contended := acquire(t, store, request("alone")), acquire(t, store, request("contended"))
	short := request("short")
	short.MinHold = 5 * time.Second
	minimum := acquire(t, store, short)
	waiter := request("contended")
	held := queued(t, newStore(t, rdb), waiter)
	require.NotNil(t, held)
	setting(t, rdb, "maxmemory", "1")
	_, err := store.Acquire(ctx, request("new"))
	require.ErrorIs(t, err, guard.ErrUnavailable)
	require.NotErrorIs(t, err, guard.ErrHeld)
	require.ErrorContains(t, err, "OOM")
	for _, l := range []guard.Lease{alone, contended, minimum} {
		_, err := store.Renew(ctx, l)
		assert.NoError(t, err, l.Name)
	}
	assert.NoError(t, store.Release(ctx, alone))
	contended.Waiters = true
	assert.NoError(t, store.Release(ctx, contended))
	assert.Contains(t, value(t, rdb, leaseKey("contended")), waiter.Owner, "handed over")
	err = store.Release(ctx, minimum)
	if err != nil {
		assert.ErrorIs(t, err, guard.ErrUnavailable)
	}
	assert.Positive(t, pttl(t, rdb, leaseKey("short")), "a minimum hold is never cut short")
	setting(t, rdb, "maxmemory", "0")
	require.NoError(t, store.Release(ctx, acquire(t, store, request("new"))))
}

func TestWithoutReplicasNothingIsGrantedUntilTheyAreBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	g := newGuard(t, rdb)
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
	err := guard.Do(t.Context(), g.Name("x"), func(context.Context) error {
		setting(t, rdb, "min-replicas-to-write", "1")
		return nil
	})
	require.NoError(t, err, "the work is done")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = guard.Do(ctx, g.Name("y"), nothing)
	require.ErrorIs(t, err, guard.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "NOREPLICAS")
	time.AfterFunc(100*time.Millisecond, func() { setting(t, rdb, "min-replicas-to-write", "0") })
	require.NoError(t, guard.Do(t.Context(), g.Name("y"), nothing))
	eventually(t, "released in the background", func() bool { return value(t, rdb, leaseKey("x")) == "" })
}

func TestWithoutADiskNothingIsGranted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--save", "3600 1000", "--enable-protected-configs", "yes")
	rdb := s.Client(t)
	dir := t.TempDir() + "/gone"
	require.NoError(t, os.Mkdir(dir, 0o700))
	setting(t, rdb, "dir", dir)
	require.NoError(t, os.Remove(dir))
	_ = rdb.BgSave(t.Context())
	eventually(t, "the save fails", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	_, err := newStore(t, rdb).Acquire(t.Context(), request("x"))
	require.ErrorIs(t, err, guard.ErrUnavailable)
	require.ErrorContains(t, err, "MISCONF")
	setting(t, rdb, "dir", t.TempDir())
	setting(t, rdb, "save", "")
}

func TestAReplicaIsUnavailableNotHeld(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Replica(t, primary)
	g := newGuard(t, replica.Client(t))
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	replica.ResetStats()
	err := guard.Do(ctx, g.Name("x"), func(context.Context) error { t.Error("fn ran"); return nil })
	require.ErrorIs(t, err, guard.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, guard.ErrHeld)
	require.ErrorContains(t, err, "READONLY")
	stats := replica.CommandStats()
	assert.LessOrEqual(t, stats["evalsha"]+stats["eval"], int64(15), "attempts are paced")
	ran, err := guard.Try(t.Context(), g.Name("x"), nothing)
	assert.False(t, ran)
	require.ErrorIs(t, err, guard.ErrUnavailable)

	// While waiting: the replica is promoted.
	time.AfterFunc(100*time.Millisecond, func() { _ = replica.Client(t).ReplicaOf(context.Background(), "NO", "ONE").Err() })
	require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
}

func TestAHolderWhoseServerBecomesAReplicaLosesAtItsDeadlineWithTheCause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	g, err := guard.New(newStore(t, rdb), guard.TTL(600*time.Millisecond))
	require.NoError(t, err)
	start := time.Now()
	err = guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
		// Nobody listens on port 1, so it keeps its data.
		assert.NoError(t, rdb.ReplicaOf(context.Background(), "127.0.0.1", "1").Err())
		<-ctx.Done()
		return nil
	})
	took := time.Since(start)
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	assert.ErrorContains(t, lost, "READONLY")
	assert.Equal(t, guard.LostDeadline, lost.Reason)
	assert.Greater(t, took, 400*time.Millisecond, "it is tried again until the deadline")
}

// SCRIPT FLUSH at any moment must not be seen by anybody.
func TestVanishedScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newGuard(t, rdb, guard.TTL(300*time.Millisecond)), newGuard(t, rdb, guard.TTL(300*time.Millisecond))
	ctx, stop := context.WithCancel(t.Context())
	var flusher, work sync.WaitGroup
	flusher.Go(func() {
		for ctx.Err() == nil {
			_ = rdb.ScriptFlush(context.Background()).Err()
			time.Sleep(2 * time.Millisecond)
		}
	})
	var oracle redistest.Oracle
	for i := range 32 {
		g := []*guard.Guard{a, b}[i%2]
		work.Go(func() {
			for j := range 8 {
				name := fmt.Sprint("n", (i/2+j)%6)
				err := guard.Do(t.Context(), g.Name(name), func(ctx context.Context) error {
					defer oracle.Enter(name)()
					time.Sleep(time.Duration(j%3) * time.Millisecond)
					return ctx.Err()
				})
				assert.NoError(t, err)
			}
		})
	}
	work.Go(func() { // renewals
		assert.NoError(t, guard.Do(t.Context(), a.Name("long"), func(ctx context.Context) error {
			time.Sleep(700 * time.Millisecond)
			return ctx.Err()
		}))
	})
	work.Wait()
	stop()
	flusher.Wait()
	assert.Equal(t, 1, oracle.Max())
	nothingLeft(t, s, "")
}

// One flush costs one more command per script, and a grant sent as EVAL is one
// grant.
func TestAVanishedScriptCostsOneMoreCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	store := newStore(t, rdb)
	l := acquire(t, store, request("warm"))
	l, err := store.Renew(t.Context(), l)
	require.NoError(t, err)
	require.NoError(t, store.Release(t.Context(), l))
	flush := func() {
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		s.ResetStats()
	}
	costs := func(what string) {
		t.Helper()
		stats := s.CommandStats()
		assert.EqualValues(t, 1, stats["eval"], what)
		assert.EqualValues(t, 1, stats["evalsha"], what)
	}
	flush()
	l = acquire(t, store, request("x"))
	costs("acquire")
	assert.Equal(t, fmt.Sprint(int64(l.Token)), value(t, rdb, fenceKey("x")))
	flush()
	l, err = store.Renew(t.Context(), l)
	require.NoError(t, err)
	costs("renew")
	flush()
	require.NoError(t, store.Release(t.Context(), l))
	costs("release")
	s.ResetStats()
	require.NoError(t, store.Release(t.Context(), acquire(t, store, request("y"))))
	assert.EqualValues(t, 1, s.CommandStats()["eval"], "acquire only: release is known again")
}

// Many callers share a pipeline; some of its scripts are known, some are not.
func TestVanishedScriptsInAPipeline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	p := redistest.NewProxy(t, s.Addr())
	slow := newStore(t, p.Client(t))
	p.Delay(5*time.Millisecond, 5*time.Millisecond)
	for range 3 {
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		require.NoError(t, rdb.ScriptLoad(t.Context(), source(t, "acquire")).Err())
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				l, err := slow.Acquire(t.Context(), request(fmt.Sprint("p", i)))
				if !assert.NoError(t, err) {
					return
				}
				l, err = slow.Renew(t.Context(), l)
				assert.NoError(t, err)
				assert.NoError(t, slow.Release(t.Context(), l))
			})
		}
		wg.Wait()
	}
	nothingLeft(t, s, "p")
}

func TestARestartThatKeepsTheDataIsNoticedByNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := s.Client(t)
	g := newGuard(t, rdb, guard.TTL(1500*time.Millisecond))
	var last atomic.Int64
	err := guard.Do(t.Context(), g.Name("x"), func(ctx context.Context) error {
		before := value(t, rdb, leaseKey("x"))
		s.Restart()
		assert.Equal(t, before, value(t, rdb, leaseKey("x")))
		select {
		case <-ctx.Done():
		case <-time.After(1600 * time.Millisecond):
		}
		last.Store(int64(pttl(t, rdb, leaseKey("x"))))
		return ctx.Err()
	})
	require.NoError(t, err)
	assert.Positive(t, last.Load())
	assert.Empty(t, value(t, rdb, leaseKey("x")), "released")
}

func TestTokensRiseOverLossOfAllDataAndRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := s.Client(t)
	store := newStore(t, rdb)
	var last guard.Lease
	next := func(what string) {
		t.Helper()
		var l guard.Lease
		eventually(t, what, func() (ok bool) {
			var err error
			l, err = store.Acquire(t.Context(), request("x"))
			return err == nil
		})
		assert.Greater(t, l.Token, last.Token, what)
		last = l
		if err := store.Release(t.Context(), l); err != nil && !errors.Is(err, guard.ErrLost) {
			require.NoError(t, err)
		}
	}
	next("first")
	next("release")
	require.NoError(t, rdb.Del(t.Context(), fenceKey("x")).Err())
	next("loss of the mark")
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	next("FLUSHALL")
	s.Restart()
	next("restart")
	s.Kill()
	s.Restart()
	next("crash")
}
