package contest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// keepAlive is the renewal that users of a library without one write: a
// goroutine and a timer for each lock.
type keepAlive struct {
	Lease
	stop chan struct{}
	once sync.Once
	lost atomic.Bool
}

// keep calls renew at every third of ttl until Release or an error.
func keep(l Lease, ttl time.Duration, renew func(context.Context) error) *keepAlive {
	k := &keepAlive{Lease: l, stop: make(chan struct{})}
	go func() {
		t := time.NewTicker(ttl / 3)
		defer t.Stop()
		for {
			select {
			case <-k.stop:
				return
			case <-t.C:
				if renew(context.Background()) != nil {
					k.lost.Store(true)
					return
				}
			}
		}
	}()
	return k
}

func (k *keepAlive) Lost() bool { return k.lost.Load() }

func (k *keepAlive) Release(ctx context.Context) error {
	k.once.Do(func() { close(k.stop) })
	return k.Lease.Release(ctx)
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
