package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

// embedded is replicas in this process: a Guard each, over one embedded store.
type embedded struct{ in input }

func (*embedded) String() string {
	return fmt.Sprintf("%d replicas with %d workers each in this process, on the embedded store", replicas, workers)
}

func (e *embedded) pass(ctx context.Context, guarded bool, handled func(int)) (pass, error) {
	m := &memory{fenced: guarded, units: e.in.units()}
	var store guard.Locker
	if guarded {
		store = memstore.New()
	}
	var team []*replica
	for range replicas {
		r, err := newReplica(m, store)
		if err != nil {
			return pass{}, err
		}
		team = append(team, r)
	}
	ctx, cancel := context.WithTimeout(ctx, limit(guarded))
	defer cancel()
	reports := make([]report, replicas)
	began := time.Now()
	var all sync.WaitGroup
	for i, r := range team {
		all.Go(func() { reports[i] = r.work(ctx, e.in.share(i, replicas), func() { handled(1) }) })
	}
	all.Wait()
	p := pass{report: newReport(), took: time.Since(began), cutOff: ctx.Err() != nil, shelf: m.units, initial: e.in.units()}
	for _, r := range reports {
		p.add(r)
	}
	return p, nil
}

func (*embedded) close(context.Context) error { return nil }
