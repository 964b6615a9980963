package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

// paths lets contenders, each with a Guard of its own, acquire one name again and
// again, and tells how many grants there were and how many rounds had to write
// their token back: Renew is sent for nothing else in so short a time. The first
// grant of each does not count, it learns the clocks of the nodes.
func (w *worker) paths(o Order) error {
	seen := &renewed{owners: map[string]bool{}}
	var grants atomic.Int64
	var all sync.WaitGroup
	for range o.Contenders {
		store, err := w.job.Store.open(seen.layer)
		if err != nil {
			return err
		}
		locks, err := guard.New(store, guard.TTL(w.job.TTL))
		if err != nil {
			return err
		}
		end := time.Now().Add(o.Wait)
		all.Go(func() {
			first := true
			for time.Now().Before(end) {
				held, err := guard.Acquire(context.Background(), locks.Name(o.Name).Wait(patience))
				if err != nil {
					continue
				}
				if !first {
					grants.Add(1)
				}
				if first && o.Contenders == 1 {
					seen.forget()
				}
				first = false
				_ = held.Release()
			}
			_ = locks.Close(context.Background())
		})
	}
	all.Wait()
	w.tell(Event{Kind: Done, Token: grants.Load(), Value: seen.count()})
	return nil
}

// renewed is a layer that remembers which owners wrote a token back.
type renewed struct {
	mu     sync.Mutex
	owners map[string]bool
}

func (r *renewed) layer(next guard.Locker) guard.Locker { return &renewing{next, r} }

func (r *renewed) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.owners)
}

func (r *renewed) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.owners))
}

type renewing struct {
	guard.Locker

	seen *renewed
}

func (l *renewing) Renew(ctx context.Context, lease guard.Lease) (guard.Lease, error) {
	l.seen.mu.Lock()
	l.seen.owners[lease.Owner] = true
	l.seen.mu.Unlock()
	return l.Locker.Renew(ctx, lease)
}
