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
	at := l.asked.first(r.Owner, Now())
	lease, err := l.Locker.Acquire(ctx, r)
	if err == nil {
		l.asked.first(lease.Owner, at) // a quorum has one for each proposal
	}
	return lease, err
}

// first tells when owner was first asked for, which is now if it never was.
func (a *asked) first(owner string, now int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = map[string]int64{}
	}
	if at, known := a.at[owner]; known {
		return at
	}
	a.at[owner] = now
	return now
}

// when tells when the grant of held was first asked for.
func (a *asked) when(held *guard.Held) int64 {
	grant, err := fence.Require(held.Context())
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.at[grant.Owner]
	if !known {
		panic("a grant to an owner that was not asked for")
	}
	return at
}
