package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

const (
	replicas = 4
	workers  = 8 // in each replica
	leaseTTL = 10 * time.Second

	// payment is the time between reading the stock and writing it.
	payment = 3 * time.Millisecond
	// writeWithin is what a write may take that had begun when the demo was ended.
	writeWithin = time.Second
	// closeWithin is for releases that were not confirmed.
	closeWithin = 500 * time.Millisecond
)

// replica is one instance of a service that handles orders.
type replica struct {
	shelf    shelf
	locks    *guard.Guard
	products *guard.Class // nil: without a lock
	meter    *meter
}

// newReplica has its own Guard over store, as every process has. A nil store
// means that it works without a lock.
func newReplica(s shelf, store guard.Locker) (*replica, error) {
	r := &replica{shelf: s, meter: &meter{report: newReport()}}
	if store == nil {
		return r, nil
	}
	var err error
	if r.locks, err = guard.New(store, guard.TTL(leaseTTL), guard.Observe(r.meter)); err == nil {
		r.products, err = r.locks.Class("product")
	}
	return r, err
}

// close waits for what is still on its way to the lock service.
func (r *replica) close() {
	if r.locks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = r.locks.Close(ctx) // what is left ends by itself
}

// work handles orders until all are done or ctx ends. handled is called after
// each one, from many goroutines.
func (r *replica) work(ctx context.Context, orders []order, handled func()) report {
	next := make(chan order)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for o := range next {
				sold, err := r.handle(ctx, o)
				if r.meter.handled(ctx, o, sold, err) {
					handled()
				}
			}
		})
	}
	for _, o := range orders {
		if ctx.Err() != nil {
			break
		}
		next <- o
	}
	close(next)
	all.Wait()
	return r.meter.report
}

// handle is the whole difference between the two passes.
func (r *replica) handle(ctx context.Context, o order) (sold bool, err error) {
	if r.products == nil {
		return r.sell(ctx, o)
	}
	return guard.Value(ctx, r.products.Name(o.sku), func(ctx context.Context) (bool, error) {
		return r.sell(ctx, o)
	})
}

// sell reads the stock, takes the money, and writes what is left.
func (r *replica) sell(ctx context.Context, o order) (sold bool, err error) {
	units, err := r.shelf.read(ctx, o.sku)
	if err != nil || units < o.units {
		return false, err
	}
	select {
	case <-time.After(payment):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	err = r.shelf.write(ctx, o.sku, units-o.units)
	return err == nil, err
}

// meter counts what a replica does. It watches the locks as a guard.Observer.
type meter struct {
	mu     sync.Mutex
	report report
}

func (m *meter) handled(ctx context.Context, o order, sold bool, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sold {
		m.report.Sold[o.sku] += o.units
		m.report.Accepted++
	}
	switch {
	case err == nil:
		m.report.Handled++
		return true
	case ctx.Err() != nil && !sold: // the demo ended, the order was not touched
	default:
		m.report.Failed++
		if m.report.Failure == "" {
			m.report.Failure = err.Error()
		}
	}
	return false
}

func (m *meter) Begin(ctx context.Context, _ guard.Call) context.Context { return ctx }

func (m *meter) Event(_ context.Context, e guard.Event) {
	if e.Kind == guard.Stale && errors.Is(e.Err, fence.ErrStale) {
		m.mu.Lock()
		m.report.Stale++
		m.mu.Unlock()
	}
}

func (m *meter) End(_ context.Context, o guard.Outcome) {
	if o.Result != guard.ResultAcquired && o.Result != guard.ResultAfterWait {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report.Waits = append(m.report.Waits, o.Waited)
	c := m.report.Names[o.Name]
	c.Calls++
	if o.Result == guard.ResultAfterWait {
		c.Waited++
	}
	c.Total += o.Waited
	c.Longest = max(c.Longest, o.Waited)
	m.report.Names[o.Name] = c
}
