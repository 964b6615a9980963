package client

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// asked is a layer that remembers when each owner was first asked for. A grant is
// handed on from call to call, and a request goes on for the next call when the
// one that sent it leaves.
type asked struct {
	mu sync.Mutex
	at map[string]int64 // by owner
}

func (a *asked) layer(next guard.Locker) guard.Locker { return &asking{next, a} }

type asking struct {
	guard.Locker
	asked *asked
}

func (l *asking) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	a := l.asked
	a.mu.Lock()
	if a.at == nil {
		a.at = map[string]int64{}
	}
	if _, known := a.at[r.Owner]; !known {
		a.at[r.Owner] = Now()
	}
	a.mu.Unlock()
	return l.Locker.Acquire(ctx, r)
}

// when tells when the grant of held was first asked for.
func (a *asked) when(held *guard.Held) int64 {
	grant, err := fence.Require(held.Context())
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[grant.Owner]
}
