package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/fence"
)

// OrderID names an order. Tenants choose the ids of their own orders.
type OrderID struct{ Tenant, ID string }

// Order is what the shop sells.
type Order struct {
	OrderID
	Cents int64
	State string // new, paid, shipped
}

// Database stands for the one that all replicas of the service share. Next to
// each order it keeps the last grant that it has seen, and so refuses a replica
// that was paused for longer than its lease. The zero Database is empty.
type Database struct {
	mu    sync.Mutex
	rows  map[OrderID]Order
	marks map[OrderID]fence.Grant
}

var errNoOrder = errors.New("shop: no such order")

// read is the beginning of a change. It can only be called under a lock, and
// raises the mark before it looks.
func (d *Database) read(ctx context.Context, id OrderID) (Order, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.raiseLocked(ctx, id); err != nil {
		return Order{}, err
	}
	if o, known := d.rows[id]; known {
		return o, nil
	}
	return Order{OrderID: id}, errNoOrder
}

// write stores o, unless somebody with a later lock has been here.
func (d *Database) write(ctx context.Context, o Order) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.raiseLocked(ctx, o.OrderID); err != nil {
		return err
	}
	if d.rows == nil {
		d.rows = map[OrderID]Order{}
	}
	d.rows[o.OrderID] = o
	return nil
}

func (d *Database) raiseLocked(ctx context.Context, id OrderID) error {
	grant, err := fence.Require(ctx)
	if err == nil {
		err = fence.Report(ctx, fence.Check(d.marks[id], grant))
	}
	if err != nil {
		return fmt.Errorf("shop: order %s of %s: %w", id.ID, id.Tenant, err)
	}
	if d.marks == nil {
		d.marks = map[OrderID]fence.Grant{}
	}
	d.marks[id] = grant
	return nil
}

// look reads without a lock: what it returns may be old by the time it is used.
func (d *Database) look(id OrderID) (Order, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o, known := d.rows[id]; known {
		return o, nil
	}
	return Order{}, errNoOrder
}

// ofTenant is all orders of the tenant, by id.
func (d *Database) ofTenant(tenant string) (all []Order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, o := range d.rows {
		if id.Tenant == tenant {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b Order) int { return strings.Compare(a.ID, b.ID) })
	return all
}
