package timing_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// history is the tokens of one name, in the order in which they were shown.
type history struct {
	mu    sync.Mutex
	last  fence.Token
	n     int
	wrong []string
}

// note takes a token in if its lease still stands: one that was lost on the way
// to here may come after its successor.
func (h *history) note(l guard.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(l.Until) {
		return
	}
	h.n++
	if h.n > 1 && l.Token < h.last+guard.TokensPerGrant {
		h.wrong = append(h.wrong, fmt.Sprintf("%d after %d", l.Token, h.last))
	}
	h.last = l.Token
}

// 10,000 acquisitions by 8 clients: released, run out, abandoned in mid-flight,
// with broken connections.
func TestTokensRiseWhateverHappensToTheirHolders(t *testing.T) {
	s := redistest.Start(t)
	names := make([]history, 20)
	const each = 1250
	var work sync.WaitGroup
	for range 8 {
		p := redistest.NewProxy(t, s.Addr())
		store, err := redisstore.New(p.Client(t, func(o *redis.Options) { o.MaxRetries = -1 }))
		require.NoError(t, err)
		work.Go(func() {
			for granted := 0; granted < each; {
				i := mathrand.IntN(len(names))
				var b [16]byte
				rand.Read(b[:])
				r := guard.Request{
					Name: fmt.Sprint("n", i), Owner: base64.RawURLEncoding.EncodeToString(b[:]), TTL: time.Duration(5+mathrand.IntN(30)) * time.Millisecond,
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(200+mathrand.IntN(5000))*time.Microsecond)
				if mathrand.IntN(200) == 0 {
					p.Reset()
				}
				l, err := store.Acquire(ctx, r)
				cancel()
				if err != nil {
					if !errors.Is(err, guard.ErrHeld) && mathrand.IntN(2) == 0 {
						_ = store.Release(t.Context(), guard.Lease{Request: r}) // the other half dies silently
					}
					continue
				}
				names[i].note(l)
				granted++
				switch mathrand.IntN(10) {
				case 0: // runs out
				case 1:
					time.Sleep(r.TTL / 2)
					if next, err := store.Renew(t.Context(), l); err == nil {
						assert.Equal(t, l.Token, next.Token)
					}
				default:
					_ = store.Release(t.Context(), l) // may have run out
				}
			}
		})
	}
	work.Wait()
	total := 0
	for i := range names {
		assert.Empty(t, names[i].wrong, "n%d", i)
		total += names[i].n
	}
	assert.Greater(t, total, 9000)
	t.Logf("%d tokens of %d grants", total, 8*each)
}
