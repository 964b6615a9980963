package redistest_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSwallowLosesExactlyOneReplyOfTheNamedCommand(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	f := l.proxy.Swallow(redistest.Match{Command: "incr"})
	require.NoError(t, l.behind.Ping(t.Context()).Err())
	require.Zero(t, f.Count())
	silent(t, func(ctx context.Context) error { return l.behind.Incr(ctx, "n").Err() })
	f.Wait(t, 1)
	require.Equal(t, "1", l.direct.Get(t.Context(), "n").Val(), "the server must have executed it")
	require.EqualValues(t, 2, l.behind.Incr(t.Context(), "n").Val())
	require.Equal(t, 1, f.Count())
}

func TestSwallowedConnectionStaysOpenAndMute(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	f := l.proxy.Swallow(redistest.Match{Command: "SET", Contains: "k2"})
	write(t, conn, "SET k1 v\r\nSET k2 v\r\nSET k3 v\r\n")
	reads(t, conn, "+OK\r\n")
	f.Wait(t, 1)
	quiet(t, conn)
	write(t, conn, "SET k4 v\r\n")
	appears(t, l.direct, "k4")
	quiet(t, conn)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { _, open := l.proxy.Connections(); return open == 1 }, soon, tick)
}

func TestSwallowAndCutExecutesAndEndsTheConnection(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	f := l.proxy.SwallowAndCut(redistest.Match{Contains: "k2"})
	write(t, conn, "SET k1 v\r\nSET k2 v\r\nSET k3 v\r\n")
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(got))
	f.Wait(t, 1)
	require.True(t, exists(t, l.direct, "k2"))
}

func TestHeldRequestArrivesAfterEndEvenFromAClientThatIsGone(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	f := l.proxy.HoldRequest(redistest.Match{Command: "SET"})
	silent(t, set(l.behind, "k")) // hangs up
	f.Wait(t, 1)
	require.NoError(t, l.behind.Set(t.Context(), "other", "v", 0).Err(), "one request is held, not all")
	require.False(t, exists(t, l.direct, "k"))
	f.End()
	f.End()
	appears(t, l.direct, "k")
}

func TestHeldReplyArrivesAfterEndAndHoldsWhatFollows(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	f := l.proxy.HoldReply(redistest.Match{Command: "SET"})
	write(t, conn, "SET k v\r\nGET k\r\n")
	f.Wait(t, 1)
	require.True(t, exists(t, l.direct, "k"))
	quiet(t, conn)
	f.End()
	reads(t, conn, "+OK\r\n$1\r\nv\r\n")
}

func TestAnswerKeepsTheRequestFromTheServer(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	f := l.proxy.Answer(redistest.Match{Command: "SET", Contains: "k2"}, "-NOPERM no permission")
	write(t, conn, "SET k1 v\r\nSET k2 v\r\nSET k3 v\r\n")
	reads(t, conn, "+OK\r\n-NOPERM no permission\r\n+OK\r\n")
	f.Wait(t, 1)
	require.False(t, exists(t, l.direct, "k2"))
	require.True(t, exists(t, l.direct, "k3"))
}

func TestCutEndsTheConnectionAfterEarlierReplies(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	f := l.proxy.Cut(redistest.Match{Contains: "k2"})
	write(t, conn, "SET k1 v\r\nSET k2 v\r\nSET k3 v\r\n")
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(got))
	f.Wait(t, 1)
	require.False(t, exists(t, l.direct, "k2"))
	require.False(t, exists(t, l.direct, "k3"))
}

func TestHandshakeCanBeRefusedInEveryWay(t *testing.T) {
	t.Parallel()
	hello := redistest.Match{Command: "HELLO", Times: -1}
	for name, tc := range map[string]struct {
		fault func(*redistest.Proxy)
		ok    bool // go-redis goes on in RESP2
	}{
		"unknown": {func(p *redistest.Proxy) { p.Answer(hello, "-ERR unknown command 'HELLO'") }, true},
		"NOPROTO": {func(p *redistest.Proxy) { p.Answer(hello, "-NOPROTO unsupported protocol version") }, true},
		"EOF":     {func(p *redistest.Proxy) { p.Cut(hello) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			tc.fault(p)
			err := p.Client(t, once).Ping(t.Context()).Err()
			if tc.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, io.EOF)
			}
			require.NotZero(t, p.Commands()["hello"])
			require.NotContains(t, s.CommandStats(), "hello")
		})
	}
}

func TestMatchCountsSkipsAndNamesSubcommands(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	ask := func(command, reply string) {
		t.Helper()
		write(t, conn, command+"\r\n")
		reads(t, conn, reply+"\r\n")
	}
	skipped := l.proxy.Answer(redistest.Match{Command: "ECHO ping", Skip: 1, Times: 2}, "-ERR skipped")
	sub := l.proxy.Answer(redistest.Match{Command: "config|get", Times: -1}, "-ERR sub")
	ask("PING", "+PONG")
	ask("ping", "-ERR skipped")
	ask("ECHO a", "-ERR skipped")
	ask("PING", "+PONG")
	require.Equal(t, 2, skipped.Count())
	ask("CONFIG RESETSTAT", "+OK")
	ask("CONFIG GET save", "-ERR sub")
	ask("CONFIG GET save", "-ERR sub")
	sub.End()
	ask("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n")
}

func TestMessagesCanBeLostAndHeld(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*redis.Options){
		"RESP2": resp2, "RESP3": func(*redis.Options) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLink(t, edit)
			sub := l.behind.Subscribe(t.Context(), "a", "b")
			t.Cleanup(func() { _ = sub.Close() })
			for range 2 {
				_, err := sub.Receive(t.Context())
				require.NoError(t, err)
			}
			lost := l.proxy.Swallow(redistest.Match{Command: "message", Contains: "lost"})
			publish := func(what string) { require.NoError(t, l.direct.Publish(t.Context(), "a", what).Err()) }
			receive := func(want string) {
				t.Helper()
				m, err := sub.ReceiveTimeout(t.Context(), soon)
				require.NoError(t, err)
				require.Equal(t, want, m.(*redis.Message).Payload)
			}
			publish("lost")
			publish("next")
			receive("next")
			lost.Wait(t, 1)

			request := l.proxy.Swallow(redistest.Match{})
			publish("again")
			receive("again")
			require.Zero(t, request.Count(), "a message is no request")
			request.End()

			held := l.proxy.HoldReply(redistest.Match{Command: "message"})
			publish("held")
			held.Wait(t, 1)
			_, err := sub.ReceiveTimeout(t.Context(), silence)
			require.Error(t, err)
			held.End()
			receive("held")
		})
	}
}

func TestSubscriptionCanBeSwallowedOrRefused(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	l.proxy.Answer(redistest.Match{Command: "SUBSCRIBE"}, "-NOPERM no channels")
	f := l.proxy.Swallow(redistest.Match{Command: "SUBSCRIBE"})
	write(t, conn, "SUBSCRIBE ch\r\nPING\r\nSUBSCRIBE a b\r\n")
	reads(t, conn, "-NOPERM no channels\r\n+PONG\r\n")
	f.Wait(t, 1)
	quiet(t, conn)
}

func TestConfirmationsBelongToTheirOwnSubscription(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	f := l.proxy.HoldReply(redistest.Match{Command: "SUBSCRIBE", Contains: "c3"})
	write(t, conn, "SUBSCRIBE c1 c2\r\nSUBSCRIBE c3\r\n")
	reads(t, conn, "*3\r\n$9\r\nsubscribe\r\n$2\r\nc1\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$2\r\nc2\r\n:2\r\n")
	f.Wait(t, 1)
	quiet(t, conn)
	f.End()
	reads(t, conn, "*3\r\n$9\r\nsubscribe\r\n$2\r\nc3\r\n:3\r\n")
}

func TestRefusedSubscriptionGetsOneReply(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	require.NoError(t, l.direct.Do(t.Context(), "ACL", "SETUSER", "default", "resetchannels").Err())
	conn := l.dial(t)
	f := l.proxy.HoldReply(redistest.Match{Command: "PING"})
	write(t, conn, "SUBSCRIBE c1 c2\r\nPING\r\n")
	reads(t, conn, "-NOPERM ")
	f.Wait(t, 1)
}

func TestMonitorPassesAProxy(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	conn := l.dial(t)
	write(t, conn, "MONITOR\r\n")
	reads(t, conn, "+OK\r\n")
	require.NoError(t, l.direct.Set(t.Context(), "k", "v", 0).Err())
	seen := make([]byte, 4096)
	require.Eventually(t, func() bool {
		n, err := conn.Read(seen)
		return err == nil && n > 0 && seen[0] == '+'
	}, soon, tick)
}

func TestWaitReturnsWhenTheFaultHappens(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	f := l.proxy.Swallow(redistest.Match{Command: "GET"})
	began := time.Now()
	time.AfterFunc(silence, func() { _ = l.proxy.Client(t, once).Get(t.Context(), "k") })
	f.Wait(t, 1)
	require.GreaterOrEqual(t, time.Since(began), silence)
}
