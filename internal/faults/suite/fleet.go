package suite

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/history"
	"github.com/holdfast-go/holdfast/internal/faults/world"
)

const (
	fleetSize = 4
	workers   = 2 // of a client, for each kind of name
)

// fleet is the clients of a history. The lane of the clients' faults changes it.
type fleet struct {
	world   *world.World
	program string
	job     client.Job
	pace    time.Duration
	limit   time.Duration // see guard.NodeLimit; 0 is its default

	mu     sync.Mutex
	living []*client.Process
	past   []ended
	next   int
}

// ended is a client that was killed, and when.
type ended struct {
	*client.Process

	at int64
}

func (f *fleet) start() (*client.Process, error) {
	f.mu.Lock()
	j := f.job
	j.Number = f.next
	f.next++
	f.mu.Unlock()
	j.Store = f.world.Store(j.Number % 2)
	j.Store.NodeLimit = f.limit
	p, err := client.Start(f.program, j)
	if err != nil {
		return nil, err
	}
	if j.Workers > 0 {
		p.Tell(client.Order{Do: client.Work, Pace: f.pace})
	}
	return p, nil
}

func (f *fleet) fill() error {
	for range fleetSize {
		p, err := f.start()
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.living = append(f.living, p)
		f.mu.Unlock()
	}
	return nil
}

// holder waits a while for a client that is at work under a lock.
func (f *fleet) holder(r *rand.Rand) (i int, found bool) {
	for range 100 {
		i = r.IntN(len(f.living))
		if f.living[i].Holding() {
			return i, true
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, false
}

// harm lets fault happen to a client that holds.
func (f *fleet) harm(r *rand.Rand, fault world.Fault) (did string, happened bool, err error) {
	i, found := f.holder(r)
	if !found {
		return "", false, nil
	}
	p := f.living[i]
	switch fault {
	case world.HolderFrozen:
		lasts := f.world.TTL + time.Duration(r.Int64N(int64(f.world.TTL/2)))
		if err := p.Freeze(); err != nil {
			return "", false, err
		}
		time.Sleep(5 * time.Millisecond) // what it said before it stopped is here
		if !p.Holding() {
			return "", false, p.Thaw()
		}
		time.Sleep(lasts)
		return fmt.Sprintf("client %d for %v", p.Job.Number, lasts.Round(time.Millisecond)), true, p.Thaw()
	case world.HolderKilled:
		at := client.Now()
		p.Kill()
		happened = p.Holding()
		fresh, err := f.start()
		if err != nil {
			return "", false, err
		}
		f.mu.Lock()
		f.past = append(f.past, ended{p, at})
		f.living[i] = fresh
		f.mu.Unlock()
		return fmt.Sprintf("client %d", p.Job.Number), happened, nil
	default:
		return "", false, fmt.Errorf("suite: %q is no fault of a client", fault)
	}
}

// finish lets every client acquire every name, and returns how long each took, in
// order of their coming.
func (f *fleet) finish(within time.Duration) (took []time.Duration, missed []string) {
	for _, p := range f.living {
		p.Tell(client.Order{Do: client.Finish, Wait: within})
	}
	for _, p := range f.living {
		p.Await(within+time.Minute, func(e client.Event) bool { return e.Kind == client.Done })
		for _, e := range p.Events() {
			if e.Kind != client.Finished {
				continue
			}
			took = append(took, time.Duration(e.Done-e.Called))
			if e.Error != "" {
				missed = append(missed, fmt.Sprintf("client %d: %s: %s after %v", p.Job.Number, e.Name, e.Error, took[len(took)-1]))
			}
		}
	}
	return took, missed
}

// end lets all clients go.
func (f *fleet) end() (err error) {
	for _, p := range f.living {
		if e := p.End(); e != nil {
			err = e
		}
	}
	return err
}

// kill ends all clients at once.
func (f *fleet) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.living {
		p.Kill()
	}
}

// history is what all of them did.
func (f *fleet) history() *history.History {
	h := &history.History{}
	for _, p := range f.past {
		h.Add(p.Job.Number, p.Events(), p.at)
	}
	for _, p := range f.living {
		h.Add(p.Job.Number, p.Events(), history.Never)
	}
	return h
}
