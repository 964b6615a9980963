// Package contest has what is compared: raw commands, other libraries and
// holdfast, all behind one small interface.
package contest

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Env is what a contestant is opened with.
type Env struct {
	Addrs []string // one independent server each
	TTL   time.Duration
}

// Contestant is one lock in one configuration.
type Contestant struct {
	Name  string
	About string // what is set, and how a waiter waits
	In    string // workloads it takes part in, by name
	Nodes int    // independent servers it needs

	// Sends lists the commands that the client itself sends, as INFO
	// commandstats calls them, which counts what scripts call too. Default:
	// evalsha and eval.
	Sends []string

	// Cancel says that W1 and W2 give it a context that can end. The others
	// always do.
	Cancel bool

	Open func(ctx context.Context, env Env) (Session, error)
}

// Session is the lock service as one process sees it.
type Session interface {
	// Acquire waits until the lock is held or ctx ends.
	Acquire(ctx context.Context, name string) (Lease, error)
	Close() error
}

// Lease is a held lock.
type Lease interface {
	Release(ctx context.Context) error
}

// Holder is a Session that takes part in W5.
type Holder interface {
	// Hold acquires name and keeps it renewed until it is released.
	Hold(ctx context.Context, name string) (Held, error)
}

// Held is a lock that is renewed by itself.
type Held interface {
	Lease
	Lost() bool
}

// Pairs is a Session that is only good for pipelines of many names.
type Pairs interface {
	// Pairs acquires all names and then releases them.
	Pairs(ctx context.Context, names []string) error
}

// ErrLost reports that a renewal found the lock gone.
var ErrLost = errors.New("contest: the lock is lost")

// All returns the contestants in the order of the tables.
func All() []Contestant {
	var all []Contestant
	all = append(all, floor(), ceiling())
	all = append(all, redislocks()...)
	all = append(all, redsyncs()...)
	all = append(all, rueidislocks()...)
	all = append(all, holdfasts()...)
	for i := range all {
		all[i].Nodes = max(all[i].Nodes, 1)
		if all[i].Sends == nil {
			all[i].Sends = []string{"evalsha", "eval"}
		}
	}
	return all
}

// Of returns those that take part in a workload. If names are given the others
// are left out.
func Of(workload string, names []string) []Contestant {
	wanted := " " + strings.Join(names, " ") + " "
	var of []Contestant
	for _, c := range All() {
		if strings.Contains(c.In, workload) && (len(names) == 0 || strings.Contains(wanted, " "+c.Name+" ")) {
			of = append(of, c)
		}
	}
	return of
}

// Find returns the contestant called name.
func Find(name string) (Contestant, bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Contestant{}, false
}
