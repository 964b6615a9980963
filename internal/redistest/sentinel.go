package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Watched is the name under which Sentinels watch the primary of a [Watch].
const Watched = "holdfast"

const (
	sentinels = 3
	quorum    = 2
)

// Watch is a primary with replicas that three Sentinels watch. They promote a
// replica once the primary has been silent for a while. Who is what after that,
// [Watch.Current] tells.
type Watch struct {
	Servers   []*Server // the first one starts as the primary
	Sentinels []*Server
}

// Sentinel starts a primary, replicas of it, and Sentinels that promote one of
// them when the primary does not answer for downAfter milliseconds. It returns
// once all know each other, which takes 2 s.
func Sentinel(t testing.TB, replicas, downAfter int, args ...string) *Watch {
	t.Helper()
	w := &Watch{Servers: []*Server{Start(t, args...)}}
	primary := w.Servers[0]
	for range replicas {
		w.Servers = append(w.Servers, Replica(t, primary, args...))
	}
	conf := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d\n"+
		"sentinel down-after-milliseconds %[1]s %[4]d\n"+
		"sentinel failover-timeout %[1]s %[5]d\n", Watched, primary.Port(), quorum, downAfter, 4*downAfter)
	if pass := primary.password(); pass != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %s\n", Watched, pass)
	}
	w.Sentinels = startAll(t, sentinels, setup{watch: conf})
	for _, s := range w.Sentinels {
		s.await(fmt.Sprintf("num-other-sentinels\r\n$1\r\n%d", sentinels-1), "SENTINEL", "MASTER", Watched)
		s.await(fmt.Sprintf("num-slaves\r\n$1\r\n%d", replicas), "SENTINEL", "MASTER", Watched)
		s.await("+OK", "SENTINEL", "SET", Watched, "parallel-syncs", "1")
	}
	return w
}

// Options returns new client options that find the primary by the Sentinels.
func (w *Watch) Options() *redis.FailoverOptions {
	o := &redis.FailoverOptions{MasterName: Watched, Password: w.Servers[0].password()}
	for _, s := range w.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, s.Addr())
	}
	return o
}

// Client returns a new client that finds the primary by the Sentinels, closed at
// the end of t.
func (w *Watch) Client(t testing.TB) *redis.Client {
	c := redis.NewFailoverClient(w.Options())
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// Current is the primary that Sentinel i tells clients of, nil if it is none of
// the Servers.
func (w *Watch) Current(i int) *Server {
	s := w.Sentinels[i]
	s.t.Helper()
	told := s.must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", Watched)
	for _, server := range w.Servers {
		if told == fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%d\r\n", server.Port()) {
			return server
		}
	}
	return nil
}
