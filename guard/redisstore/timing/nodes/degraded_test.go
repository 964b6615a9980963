package nodes_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
)

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A server that does not say how long it has been up gets no grace. Each store
// says so once, and locks.
func TestWithoutINFOTheLossOfGraceIsReportedOnce(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var out logged
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	ns := start(t, 3)
	var lockers []guard.Locker
	for i, s := range ns {
		rdb := s.Client(t)
		if i > 0 {
			require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-info").Err())
			rdb = s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "pw" })
		}
		store, err := redisstore.New(rdb, redisstore.MaxTTL(ttl))
		require.NoError(t, err)
		lockers = append(lockers, store)
	}
	q, err := guard.Quorum(lockers)
	require.NoError(t, err)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 5 {
				l, err := q.Acquire(t.Context(), request(newOwner()))
				if assert.NoError(t, err, "two nodes without grace grant") {
					assert.NoError(t, q.Release(t.Context(), l))
				}
			}
		})
	}
	work.Wait()
	assert.Equal(t, 2, out.count("no restart grace"), "once per store")
	assert.Equal(t, 2, out.count("level=WARN"))
}

// The last save is a cheap proof of how long a server has been up, if it is long
// ago. If it is not, INFO tells.
func TestASaveDoesNotStartTheGraceAgain(t *testing.T) {
	t.Parallel()
	ns := start(t, 3)
	ns.inService(t)
	p := ns.process(t, nil)
	lock := func() (infos int64) {
		ns[0].ResetStats()
		l := acquire(t, p, request(newOwner()))
		require.NoError(t, p.Release(t.Context(), l))
		eventually(t, "asked", func() bool { return ns[0].CommandStats()["lastsave"] > 0 })
		return ns[0].CommandStats()["info"]
	}
	time.Sleep(time.Second) // the last save is in whole seconds, too
	assert.Zero(t, lock())
	for _, n := range ns {
		require.NoError(t, n.rdb.Save(t.Context()).Err())
	}
	assert.EqualValues(t, 1, lock())
}
