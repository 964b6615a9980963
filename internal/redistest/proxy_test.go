package redistest_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// link is a server, a proxy before it, and clients on both sides of the proxy.
type link struct {
	server *redistest.Server
	proxy  *redistest.Proxy
	behind *redis.Client // connected through the proxy
	direct *redis.Client
}

func newLink(t *testing.T, edit ...func(*redis.Options)) link {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	l := link{s, p, p.Client(t, append(edit, once)...), s.Client(t)}
	require.NoError(t, l.behind.Ping(t.Context()).Err())
	return l
}

// fakeServer is a listener behind a proxy, where the test plays the server.
func fakeServer(t *testing.T) (link, net.Listener) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return link{proxy: redistest.NewProxy(t, server.Addr().String())}, server
}

// dial opens a connection to the proxy without any client library.
func (l link) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", l.proxy.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	return conn.(*net.TCPConn)
}

func write(t *testing.T, w io.Writer, s string) {
	t.Helper()
	_, err := io.WriteString(w, s)
	require.NoError(t, err)
}

// reads requires that exactly want comes next.
func reads(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(r, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// quiet requires that nothing comes for a while.
func quiet(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(silence)))
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "%d bytes came", n)
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
}

func TestProxyPassesEverythingUnchanged(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*redis.Options){
		"RESP2": resp2, "RESP3": func(*redis.Options) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLink(t, edit)
			big := strings.Repeat("\r\n$", 100_000)
			require.NoError(t, l.behind.Set(t.Context(), "big", big, 0).Err())
			require.Equal(t, big, l.behind.Get(t.Context(), "big").Val())
			require.NoError(t, l.behind.HSet(t.Context(), "h", "f", "v").Err())
			require.Equal(t, map[string]string{"f": "v"}, l.behind.HGetAll(t.Context(), "h").Val())
			cmds, err := l.behind.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for range 1000 {
					p.Incr(t.Context(), "n")
				}
				return nil
			})
			require.NoError(t, err)
			require.EqualValues(t, 1000, cmds[999].(*redis.IntCmd).Val())
		})
	}
}

func TestDelayIsPerDirectionAndDoesNotAddUp(t *testing.T) {
	t.Parallel()
	const d = 80 * time.Millisecond
	l := newLink(t)
	conn := l.dial(t)
	for _, tc := range []struct{ request, reply, min time.Duration }{
		{d, 0, d},
		{0, d, d},
		{d, d, 2 * d},
	} {
		l.proxy.Delay(tc.request, tc.reply)
		began := time.Now()
		write(t, conn, strings.Repeat("PING\r\n", 50))
		reads(t, conn, strings.Repeat("+PONG\r\n", 50))
		took := time.Since(began)
		require.GreaterOrEqual(t, took, tc.min)
		require.Less(t, took, tc.min+25*d, "50 commands must not wait one after the other")
	}
	l.proxy.Delay(time.Hour, 0)
	write(t, conn, "PING\r\n")
	quiet(t, conn)
	l.proxy.Pass()
	reads(t, conn, "+PONG\r\n")
}

func TestThrottledLinkCarriesItsRateAndNoMore(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	c := l.proxy.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	l.proxy.Throttle(10_000)
	began := time.Now()
	require.NoError(t, c.Set(t.Context(), "k", strings.Repeat("x", 2000), 0).Err())
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	l.proxy.Pass()
	began = time.Now()
	require.NoError(t, c.Set(t.Context(), "k", strings.Repeat("x", 1_000_000), 0).Err())
	require.Less(t, time.Since(began), 50*time.Second, "100 s at the old rate")
}

func TestRefusedConnectionsFailAndPresentOnesLive(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	for range 3 {
		l.proxy.Refuse()
		_, err := net.Dial("tcp", l.proxy.Addr())
		require.ErrorContains(t, err, "refused")
		require.NoError(t, l.behind.Ping(t.Context()).Err())
		l.proxy.Pass()
		l.dial(t)
	}
}

func TestResetEndsPresentConnections(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	l.proxy.Stall()
	write(t, conn, "SET k v\r\n")
	quiet(t, conn)
	l.proxy.Reset()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	l.proxy.Pass()
	require.NoError(t, l.proxy.Client(t).Ping(t.Context()).Err())
	require.False(t, exists(t, l.direct, "k"), "held bytes must be lost")
}

func TestProxyEndsItsConnectionsWithItsTest(t *testing.T) {
	t.Parallel()
	var conn *net.TCPConn
	t.Run("inner", func(inner *testing.T) {
		l := newLink(inner)
		conn = l.dial(t)
		write(t, conn, "PING\r\n")
		reads(t, conn, "+PONG\r\n")
		l.proxy.Stall()
	})
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestErrorBeforeAnyRequestPasses(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	require.NoError(t, l.direct.ConfigSet(t.Context(), "maxclients", "2").Err())
	got, err := io.ReadAll(l.dial(t))
	require.NoError(t, err)
	require.Equal(t, "-ERR max number of clients reached\r\n", string(got))
}

func TestEveryKindOfReplyIsOneReply(t *testing.T) {
	t.Parallel()
	kinds := []string{
		"+OK\r\n", "-ERR\r\n", ":1\r\n", "$-1\r\n", "$0\r\n\r\n", "$3\r\n\r\n+\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n*1\r\n:1\r\n$1\r\na\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n", "!3\r\nERR\r\n",
		"=5\r\ntxt:a\r\n", "%1\r\n+k\r\n*1\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n", "|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n", "\n",
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		lines := bufio.NewScanner(conn)
		for i := 0; i < len(kinds) && lines.Scan(); i++ {
			_, _ = io.WriteString(conn, kinds[i]) // the client notices what is missing
		}
	}()
	l := link{proxy: redistest.NewProxy(t, server.Addr().String())}
	l.proxy.Answer(redistest.Match{Command: "END"}, "+END")
	conn := l.dial(t)
	write(t, conn, strings.Repeat("NEXT\r\n", len(kinds))+"END\r\n")
	reads(t, conn, strings.Join(kinds, "")+"+END\r\n")
}

func TestRetargetLeadsNewConnectionsElsewhere(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	other := redistest.Start(t)
	require.NoError(t, other.Client(t).Set(t.Context(), "k", "v", 0).Err())
	l.proxy.Retarget(other.Addr())
	require.False(t, exists(t, l.behind, "k"))
	require.True(t, exists(t, l.proxy.Client(t), "k"))
}

func TestProxyWithoutServerResets(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	l.server.Kill()
	conn, err := net.Dial("tcp", l.proxy.Addr())
	if err == nil { // the RST may come as early as this
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, conn.Close())
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestProxyCountsConnectionsAndRequests(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	l.proxy.ResetCommands()
	require.NoError(t, l.behind.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"n"}).Err())
	require.Equal(t, map[string]int64{"eval": 1}, l.proxy.Commands())

	conn := l.dial(t)
	write(t, conn, "PING\r\n")
	reads(t, conn, "+PONG\r\n")
	accepted, open := l.proxy.Connections()
	require.Equal(t, []int{2, 2}, []int{accepted, open})
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool {
		accepted, open := l.proxy.Connections()
		return accepted == 2 && open == 1
	}, soon, tick)
}

func TestReplicationPassesAProxy(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	replica := redistest.Start(t)
	host, port, err := net.SplitHostPort(l.proxy.Addr())
	require.NoError(t, err)
	require.NoError(t, l.direct.Set(t.Context(), "k", "v", 0).Err())
	require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), host, port).Err())
	appears(t, replica.Client(t), "k")
	l.proxy.Stall()
	require.NoError(t, l.direct.Set(t.Context(), "late", "v", 0).Err())
	time.Sleep(silence) // nothing may happen
	require.False(t, exists(t, replica.Client(t), "late"))
	l.proxy.Pass()
	appears(t, replica.Client(t), "late")
}

func TestModesMayChangeUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	c := l.proxy.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries = true, -1 })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					ctx, cancel := context.WithTimeout(context.Background(), silence)
					_ = c.Incr(ctx, "n").Err() // fails under most modes
					cancel()
				}
			}
		})
	}
	for range 20 {
		for _, mode := range []func(){
			l.proxy.Stall, l.proxy.StallReplies, l.proxy.Pass, l.proxy.Refuse, l.proxy.Reset, l.proxy.Pass,
			func() { l.proxy.Delay(time.Millisecond, time.Millisecond) },
			func() { l.proxy.Swallow(redistest.Match{Command: "INCR"}) },
			func() { l.proxy.Cut(redistest.Match{Command: "INCR"}) },
		} {
			mode()
			time.Sleep(time.Millisecond) // let some traffic meet the mode
		}
	}
	close(stop)
	wg.Wait()
	l.proxy.Pass()
	require.NoError(t, l.proxy.Client(t).Ping(t.Context()).Err())
}
