package redisstore_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// documentedRights reads what the package comment says a user needs.
func documentedRights(t *testing.T, prefix string) []string {
	t.Helper()
	text, err := os.ReadFile("redisstore.go")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "// An ACL user needs\n")
	require.True(t, ok)
	block, _, ok := strings.Cut(after, "// with the prefix")
	require.True(t, ok)
	rights := strings.Fields(strings.ReplaceAll(block, "//", ""))
	require.Greater(t, len(rights), 20)
	for i, r := range rights {
		if strings.HasSuffix(r, "lock:*") {
			rights[i] = r[:1] + prefix + r[1:]
		}
	}
	return rights
}

// user makes a user with rights and returns a client and the server's own.
func user(t *testing.T, rights ...string) (s *redistest.Server, admin, rdb *redis.Client) {
	t.Helper()
	s = redistest.Start(t)
	admin = s.Client(t)
	args := []any{"ACL", "SETUSER", "app", "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	require.NoError(t, admin.Do(t.Context(), args...).Err())
	rdb = s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "app", "secret", true })
	return s, admin, rdb
}

// works uses everything a lock does: free, contended, renewed, minimum hold, abandoned.
func works(t *testing.T, rdb *redis.Client, opts ...redisstore.Option) {
	t.Helper()
	a, err := guard.New(newStore(t, rdb, opts...), guard.TTL(1500*time.Millisecond))
	require.NoError(t, err)
	b, err := guard.New(newStore(t, rdb, opts...), guard.TTL(1500*time.Millisecond), guard.MinHold(20*time.Millisecond))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	held, err := guard.Acquire(ctx, a.Name("x"))
	require.NoError(t, err)
	waiter, leaver := make(chan error, 1), make(chan error, 1)
	var entered time.Time
	go func() {
		waiter <- guard.Do(ctx, b.Name("x"), func(context.Context) error { entered = time.Now(); return nil })
	}()
	go func() {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		leaver <- guard.Do(short, b.Name("y"), untilDone)
	}()
	time.Sleep(1600 * time.Millisecond) // longer than the TTL
	require.NoError(t, held.Extend(ctx))
	require.NoError(t, held.Release())
	released := time.Now()
	require.NoError(t, <-waiter)
	assert.Less(t, entered.Sub(released), time.Second)
	require.ErrorIs(t, <-leaver, context.DeadlineExceeded)
	require.NoError(t, a.Close(ctx))
	require.NoError(t, b.Close(ctx))
}

func denials(t *testing.T, admin *redis.Client) []any {
	t.Helper()
	log, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
	require.NoError(t, err)
	return log
}

func TestTheDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "app:"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			_, admin, rdb := user(t, documentedRights(t, prefix)...)
			works(t, rdb, redisstore.Prefix(prefix))
			assert.Empty(t, denials(t, admin))
			store := newStore(t, rdb, redisstore.Prefix(prefix))
			require.NoError(t, store.Check(t.Context()), "CONFIG is denied, which is no failure")
		})
	}
}

func TestEachDocumentedRightIsNeeded(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t, "")
	for i, right := range rights {
		switch right {
		case "-@all", "resetchannels", "+ping", "+hello", "+info", "+lastsave", "&lock:*", "+publish", "+subscribe", "+unsubscribe", "+eval", "+evalsha":
			continue // without them it goes on otherwise, or cannot start at all
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			fewer := append(append([]string{}, rights[:i]...), rights[i+1:]...)
			_, admin, rdb := user(t, fewer...)
			a, b := newStore(t, rdb), newStore(t, rdb)
			// The same paths as in works, without waiting for anything.
			l, err := a.Acquire(t.Context(), request("x"))
			if err == nil {
				l, _ = a.Renew(t.Context(), l)
				for range 2 {
					r := request("x")
					r.Queue = true
					_, _ = b.Acquire(t.Context(), r)
					_, _ = b.Acquire(t.Context(), r)
				}
				l.MinHold = time.Millisecond
				_ = a.Release(t.Context(), l)
				_, _ = b.Acquire(t.Context(), request("x"))
				if l, err = a.Acquire(t.Context(), request("y")); err == nil {
					_ = a.Release(t.Context(), l)
				}
			}
			assert.NotEmpty(t, denials(t, admin), "nobody missed it")
		})
	}
}

func TestWithoutChannelsWaitersPoll(t *testing.T) {
	t.Parallel()
	_, _, rdb := user(t, append(documentedRights(t, ""), "resetchannels")...)
	works(t, rdb)
	// Without SUBSCRIBE too.
	_, _, rdb = user(t, append(documentedRights(t, ""), "-subscribe", "-publish", "-info")...)
	works(t, rdb)
}

// A release that deletes and then may not publish has deleted.
func TestARefusedPublishIsNoRefusedRelease(t *testing.T) {
	t.Parallel()
	s, admin, rdb := user(t, append(documentedRights(t, ""), "resetchannels")...)
	mute, fine := newStore(t, rdb), newStore(t, s.Client(t))
	l := acquire(t, mute, request("x"))
	r := request("x")
	queued(t, fine, r)
	l.Waiters = true
	require.NoError(t, mute.Release(t.Context(), l))
	r.Queue = true
	next := acquire(t, fine, r)
	assert.Greater(t, next.Token, l.Token)
	require.NoError(t, fine.Release(t.Context(), next))
	assert.NotEmpty(t, denials(t, admin))
}

func TestMissingRightsAreToldAtOnceAndChangeNothing(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string][]string{
		"no key":           {"~other:*", "&*", "+@all"},
		"no evalsha":       {"~*", "&*", "+@all", "-evalsha", "-eval"},
		"no set in script": {"~*", "&*", "+@all", "-set"},
		"no time":          {"~*", "&*", "+@all", "-time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, admin, rdb := user(t, rights...)
			g := newGuard(t, rdb)
			var err error
			within(t, 2*time.Second, func() { err = guard.Do(t.Context(), g.Name("x"), unreached(t)) })
			require.ErrorIs(t, err, guard.ErrUnavailable)
			require.NotErrorIs(t, err, guard.ErrHeld)
			var server redis.Error
			require.ErrorAs(t, err, &server)
			assert.Empty(t, s.Keys("lock:{"))
			assert.Len(t, denials(t, admin), 1, "it is not tried again")
			assert.ErrorIs(t, newStore(t, rdb).Check(t.Context()), guard.ErrUnavailable)
		})
	}
}
