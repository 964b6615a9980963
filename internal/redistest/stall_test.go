package redistest_test

import (
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStalledLinkHoldsBytesUntilPass(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	for range 10 {
		require.NoError(t, l.behind.Ping(t.Context()).Err()) // connect
		l.proxy.Stall()
		silent(t, set(l.behind, "old connection")) // the client hangs up
		silent(t, set(l.behind, "new connection"))
		require.False(t, exists(t, l.direct, "old connection"))
		l.proxy.Pass()
		appears(t, l.direct, "old connection")
		require.NoError(t, l.direct.FlushAll(t.Context()).Err())
	}
}

func TestStalledLinkDeliversInOrderBothWays(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	l.proxy.Stall()
	write(t, conn, "SET k 1\r\n")
	write(t, conn, "APPEND k 2\r\n")
	write(t, conn, "GET k\r\n")
	quiet(t, conn)
	l.proxy.Pass()
	reads(t, conn, "+OK\r\n:2\r\n$2\r\n12\r\n")
}

func TestStalledLinkHidesTheEndOfTheServer(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	write(t, conn, "PING\r\n")
	reads(t, conn, "+PONG\r\n")
	l.proxy.Stall()
	l.server.Kill()
	quiet(t, conn)
	l.proxy.Pass()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestStalledRepliesHideTheResetOfTheServer(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	write(t, conn, "PING\r\n")
	reads(t, conn, "+PONG\r\n")
	l.proxy.StallReplies()
	l.server.Freeze()
	write(t, conn, "PING\r\n")
	quiet(t, conn)
	l.server.Kill() // with a request unread, so by RST
	for range 3 {
		write(t, conn, "PING\r\n") // nobody is there to take it
		quiet(t, conn)
	}
	l.proxy.Pass()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestStalledRepliesHideARequestThatFoundNobody(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	write(t, conn, "PING\r\n")
	reads(t, conn, "+PONG\r\n")
	l.proxy.StallReplies()
	l.server.Kill()
	for range 3 {
		write(t, conn, "PING\r\n")
		quiet(t, conn)
	}
	l.proxy.Pass()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestNothingSlipsThroughAfterStall(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = io.WriteString(conn, "INCR n\r\n") // ends with the test
			}
		}
	})
	wg.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // until the test closes it
	count := func() string { return l.direct.Get(t.Context(), "n").Val() }
	for range 100 {
		l.proxy.Stall()
		count() // the server reads what had arrived no later than this
		before := count()
		for range 5 {
			require.Equal(t, before, count())
		}
		l.proxy.Pass()
		require.Eventually(t, func() bool { return count() != before }, soon, time.Millisecond)
	}
	close(stop)
	require.NoError(t, conn.Close())
	wg.Wait()
}

func TestStalledRepliesAreExecuted(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	l.proxy.StallReplies()
	write(t, conn, "SET k v\r\n")
	appears(t, l.direct, "k")
	quiet(t, conn)
	l.proxy.Pass()
	reads(t, conn, "+OK\r\n")
}

func TestStalledRequestsLetMessagesThrough(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	write(t, conn, "SUBSCRIBE ch\r\n")
	reads(t, conn, "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	l.proxy.StallRequests()
	write(t, conn, "PING\r\n")
	require.NoError(t, l.direct.Publish(t.Context(), "ch", "hi").Err())
	reads(t, conn, "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$2\r\nhi\r\n")
	quiet(t, conn)
	l.proxy.Pass()
	reads(t, conn, "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
}
