package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Proxies and other servers that lack commands.
func TestMissingCommandsAreDoneWithout(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{
		"SCRIPT", "SCRIPT EVALSHA", "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE", "CONFIG INFO CLIENT", "HELLO CLIENT SCRIPT EVALSHA SUBSCRIBE",
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			for command := range strings.FieldsSeq(missing) {
				p.Answer(redistest.Match{Command: command, Times: -1}, "-ERR unknown command `"+strings.ToLower(command)+"`, with args beginning with:")
			}
			works(t, p.Client(t))
		})
	}
}

func TestWithoutEvalItSaysSo(t *testing.T) {
	t.Parallel()
	for how, line := range map[string]string{
		"redis":     "-ERR unknown command 'eval', with args beginning with: 'x'",
		"twemproxy": "-ERR unknown command 'EVAL'",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			p.Answer(redistest.Match{Command: "EVALSHA", Times: -1}, strings.NewReplacer("eval", "evalsha", "EVAL", "EVALSHA").Replace(line))
			f := p.Answer(redistest.Match{Command: "EVAL", Times: -1}, line)
			g := newGuard(t, p.Client(t))
			var err error
			within(t, time.Second, func() { err = guard.Do(t.Context(), g.Name("x"), unreached(t)) })
			require.ErrorIs(t, err, guard.ErrUnsupported)
			require.NotErrorIs(t, err, guard.ErrHeld)
			assert.ErrorContains(t, err, strings.Fields(line)[3][1:5])
			assert.Equal(t, 1, f.Count(), "one try")
			assert.Empty(t, s.Keys(""))
			assert.ErrorIs(t, newStore(t, p.Client(t)).Check(t.Context()), guard.ErrUnsupported)
		})
	}
}

// Servers and proxies that do not know the handshake of the client.
func TestHandshakesThatAreRefused(t *testing.T) {
	t.Parallel()
	answers := func(command, line string) func(*redistest.Proxy) {
		return func(p *redistest.Proxy) { p.Answer(redistest.Match{Command: command, Times: -1}, line) }
	}
	for name, refuse := range map[string]func(*redistest.Proxy){
		"hello unknown":      answers("HELLO", "-ERR unknown command 'HELLO'"),
		"hello not allowed":  answers("HELLO", "-NOPERM this user has no permissions to run the 'hello' command"),
		"hello no protocol":  answers("HELLO", "-NOPROTO unsupported protocol version"),
		"client unknown":     answers("CLIENT", "-ERR unknown command 'CLIENT'"),
		"client not allowed": answers("CLIENT", "-NOPERM this user has no permissions to run the 'client' command"),
	} {
		for protocol, password := range map[int]string{2: "", 3: "secret"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var args []string
				if password != "" {
					args = []string{"--requirepass", password}
				}
				s := redistest.Start(t, args...)
				p := redistest.NewProxy(t, s.Addr())
				refuse(p)
				works(t, p.Client(t, func(o *redis.Options) { o.Protocol, o.Password = protocol, password }))
			})
		}
	}
	t.Run("hello is answered with a closed connection", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		f := p.Cut(redistest.Match{Command: "HELLO", Times: -1})
		g := newGuard(t, p.Client(t))
		t.Cleanup(f.End)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err := guard.Do(ctx, g.Name("x"), unreached(t))
		require.ErrorIs(t, err, guard.ErrUnavailable)
		require.NotErrorIs(t, err, guard.ErrHeld)
		f.End()
		require.NoError(t, guard.Do(t.Context(), g.Name("x"), nothing))
	})
}
