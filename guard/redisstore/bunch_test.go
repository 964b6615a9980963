package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
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

// bunches is a store that sends what it is given together as bunches, and what
// it sends.
func bunches(t *testing.T) (*redistest.Server, *redistest.Proxy, *redisstore.Store, *sends) {
	t.Helper()
	s := redistest.Start(t)
	load(t, s.Client(t))
	p := redistest.NewProxy(t, s.Addr())
	rdb := p.Client(t)
	seen := &sends{}
	rdb.AddHook(seen)
	store := newStore(t, rdb, redisstore.OneServer())
	acquire(t, store, request("warm")) // there is a connection
	seen.all()
	return s, p, store, seen
}

var micros = regexp.MustCompile(`\d{16}`)

// undated replaces the server's time in a reply or a value.
func undated(s string, now int64) string {
	if reply := strings.Fields(s); len(reply) == 4 && reply[0] == "G" {
		s = reply[0] + reply[1] // and the time of the grant
	}
	return micros.ReplaceAllStringFunc(s, func(d string) string {
		n, err := strconv.ParseInt(d, 10, 64)
		if ahead := n - now; err != nil || ahead < -10_000_000 || ahead > 10_000_000 {
			return fmt.Sprintf("now%+d", ahead)
		}
		return "now"
	})
}

// Each script is called once for each name in some state, and once for all names
// in these states: the answers are the same, and so is what is stored.
func TestABunchIsItsCallsOneAfterAnother(t *testing.T) {
	t.Parallel()
	owner, other := strings.Repeat("x", 22), strings.Repeat("y", 22)
	states := []struct{ lease, mark string }{
		{"", ""},
		{"-" + other + "|5|t|l", "5"},
		{"-" + owner + "|NOW+0|t|l", "NOW+0"},
		{"-" + owner + "|NOW+20|t|l", "NOW+20"},
		{"+" + owner + "|7|t|l", "7"},
		{"~foreign", ""},
		{"", "NOW+20"},
		{"", "NOW+3000"},
		{"", "7|8"},
		{"", "NOW+20|8"},
		{"list", ""},
		{"", "list"},
		{"-" + owner + "|7|t|l", "list"},
		{"", ""},
	}
	for _, tc := range []struct {
		script string
		keys   int
		args   []string
	}{
		{"release", 1, []string{"-" + owner + "|"}},
		{"renew", 2, []string{owner, "20000", "NOW+30"}},
		{"renew", 2, []string{owner, "20000", "NOW+9000"}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l"}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "NOW+30", "", ""}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "NOW+9000", "", ""}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "", "NOW+40", "0"}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "1", "NOW+90", "100000000"}},
	} {
		t.Run(tc.script+strings.Join(tc.args[1:], " "), func(t *testing.T) {
			t.Parallel()
			l := newLua(t)
			at := func(s string) string { // NOW+20 is 20 s ahead
				before, seconds, found := strings.Cut(s, "NOW+")
				if !found {
					return s
				}
				seconds, after, _ := strings.Cut(seconds, "|")
				n, err := strconv.ParseInt(seconds, 10, 64)
				require.NoError(t, err)
				return strings.TrimSuffix(before+strconv.FormatInt(l.now+n*1_000_000, 10)+"|"+after, "|")
			}
			put := func(key, v string) {
				switch v {
				case "":
				case "list":
					require.NoError(t, l.rdb.RPush(t.Context(), key, "theirs").Err())
				default:
					l.set(key, at(v), time.Minute)
				}
			}
			name := func(kind string, i int) []string {
				k := leaseKey(fmt.Sprint(l.name, kind, i))
				return []string{k, k + ":fence"}[:tc.keys]
			}
			var args []any
			for _, a := range tc.args {
				args = append(args, at(a))
			}
			var keys []string
			var all []any
			for i, state := range states {
				for _, kind := range []string{"one", "many"} {
					k := leaseKey(fmt.Sprint(l.name, kind, i))
					put(k, state.lease)
					put(k+":fence", state.mark)
				}
				keys, all = append(keys, name("many", i)...), append(all, args...)
			}
			lines := strings.Split(l.run(tc.script, keys, all...), "\n")
			require.Len(t, lines, len(states))
			for i := range states {
				one, err := l.rdb.Eval(t.Context(), source(t, tc.script), name("one", i), args...).Text()
				if err != nil {
					one = "S"
				}
				assert.Equal(t, undated(one, l.now), undated(lines[i], l.now), "state %d", i)
				for j, key := range name("one", i) {
					twin := name("many", i)[j]
					require.Equal(t, l.rdb.Type(t.Context(), key).Val(), l.rdb.Type(t.Context(), twin).Val(), "state %d", i)
					if l.rdb.Type(t.Context(), key).Val() != "list" {
						assert.Equal(t, undated(value(t, l.rdb, key), l.now), undated(value(t, l.rdb, twin), l.now), "state %d", i)
						assert.InDelta(t, pttl(t, l.rdb, key).Seconds(), pttl(t, l.rdb, twin).Seconds(), 2, "state %d", i)
					}
				}
			}
		})
	}
}

func TestOneServerIsNotForClientsOfMany(t *testing.T) {
	t.Parallel()
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "x", SentinelAddrs: []string{"127.0.0.1:1"}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	for _, c := range []redis.UniversalClient{sentinel, cluster, ring} {
		s, err := redisstore.New(c, redisstore.OneServer())
		if c == sentinel {
			assert.NoError(t, err)
		} else {
			assert.Nil(t, s)
			require.ErrorIs(t, err, guard.ErrInvalid)
			require.ErrorContains(t, err, "OneServer")
		}
		assert.NoError(t, c.Close())
	}
}

// Without the option nothing is assumed about where keys are.
func TestByDefaultEachCallNamesTheKeysOfOneName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	seen := &sends{}
	rdb.AddHook(seen)
	store := newStore(t, rdb)
	together(t, store, 5, func(i int) {
		_, err := store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
		assert.NoError(t, err)
	})
	lists, _ := seen.all()
	assert.Len(t, lists[0], 5)
}

func TestManyNamesShareACall(t *testing.T) {
	t.Parallel()
	s, _, store, seen := bunches(t)
	const n = 40
	var got [n]guard.Lease
	together(t, store, n, func(i int) {
		var err error
		got[i], err = store.Acquire(t.Context(), request(fmt.Sprint("n", i)))
		assert.NoError(t, err)
	})
	lists, flat := seen.all()
	assert.Len(t, lists, 1)
	assert.Len(t, flat, 2, "32 in one, and the rest in another")
	for i, l := range got {
		assert.Contains(t, value(t, s.Client(t), leaseKey(fmt.Sprint("n", i))), fmt.Sprintf("-%s|%d|", l.Owner, l.Token))
	}
	together(t, store, n, func(i int) {
		if i%2 == 0 {
			l, err := store.Renew(t.Context(), got[i])
			assert.NoError(t, err)
			assert.Equal(t, got[i].Token, l.Token)
		} else {
			assert.NoError(t, store.Release(t.Context(), got[i]))
		}
	})
	_, flat = seen.all()
	assert.Len(t, flat, 2, "one for each script")
	together(t, store, n/2, func(i int) { assert.NoError(t, store.Release(t.Context(), got[2*i])) })
	_, flat = seen.all()
	assert.Len(t, flat, 1)
	require.NoError(t, store.Release(t.Context(), acquire(t, store, request("n"))))
	nothingLeft(t, s, "n")
}

// In a bunch, one name is of a wrong type, one has a mark of a wrong type, one is
// held by another, and the rest are free.
func TestAFailureInABunchIsItsOwn(t *testing.T) {
	t.Parallel()
	s, _, store, seen := bunches(t)
	rdb := s.Client(t)
	held := leases(t, store, "renewed", 3)
	held = append(held, leases(t, store, "released", 3)...)
	acquire(t, store, request("taken"))
	for _, key := range []string{leaseKey("list"), fenceKey("mark"), leaseKey("renewed1"), leaseKey("released1")} {
		rdb.Del(t.Context(), key)
		require.NoError(t, rdb.RPush(t.Context(), key, "theirs").Err())
	}
	names := []string{"free1", "list", "taken", "mark", "free2"}
	var errs [11]error
	seen.all()
	together(t, store, len(errs), func(i int) {
		switch {
		case i < 5:
			_, errs[i] = store.Acquire(t.Context(), request(names[i]))
		case i < 8:
			_, errs[i] = store.Renew(t.Context(), held[i-5])
		default:
			errs[i] = store.Release(t.Context(), held[i-5])
		}
	})
	lists, _ := seen.all()
	assert.Len(t, lists[0], 3, "they went together")
	for i, err := range errs {
		switch i {
		case 1, 3, 6, 9:
			require.ErrorIs(t, err, guard.ErrUnavailable, "%d", i)
			require.ErrorContains(t, err, "WRONGTYPE", "%d", i)
		case 2:
			require.ErrorIs(t, err, guard.ErrHeld)
		default:
			require.NoError(t, err, "%d", i)
		}
	}
	assert.Empty(t, value(t, rdb, leaseKey("mark")))
	assert.NotEmpty(t, value(t, rdb, leaseKey("free2")))
	assert.Empty(t, value(t, rdb, leaseKey("released2")))
}

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
