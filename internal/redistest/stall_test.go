package redistest_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
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
	l, server := fakeServer(t)
	client := l.dial(t)
	conn, err := server.Accept()
	require.NoError(t, err)
	write(t, conn, "+READY\r\n")
	reads(t, client, "+READY\r\n")
	l.proxy.StallReplies()
	require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
	require.NoError(t, conn.Close())
	quiet(t, client)
	l.proxy.Pass()
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestStalledRepliesHideThatRequestsFindNobody(t *testing.T) {
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
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A request that is being delivered arrives whole, and before Stall returns.
func TestStallWaitsForWhatIsBeingDelivered(t *testing.T) {
	t.Parallel()
	l, server := fakeServer(t)
	client := l.dial(t)
	conn, err := server.Accept()
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	t.Cleanup(func() { _ = conn.Close() })

	const size = 16 << 20 // more than sockets take unread
	request := fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	write(t, client, request)
	require.Eventually(t, func() bool { return l.proxy.Commands()["get"] == 1 }, soon, tick)
	reads(t, conn, "*2\r\n") // delivery has begun

	stalled := make(chan struct{})
	go func() {
		l.proxy.Stall()
		close(stalled)
	}()
	select {
	case <-stalled:
		t.Fatal("Stall returned while bytes were on their way")
	case <-time.After(silence):
	}
	_, err = io.CopyN(io.Discard, conn, int64(len(request)-len("*2\r\n")))
	require.NoError(t, err)
	<-stalled
	write(t, client, "PING\r\n")
	quiet(t, conn)
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
