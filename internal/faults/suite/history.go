// Package suite runs histories under faults, judges them, and adds up what it saw.
package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/history"
	"github.com/holdfast-go/holdfast/internal/faults/world"
)

// Options are what all histories of a run have in common.
type Options struct {
	Program  string        // client to run instead of this very program
	Unfenced bool          // see client.Job
	Pace     time.Duration // mean pause of a client between brief holds
	Save     string        // folder for pages of histories that failed
}

// Play runs a history of s under the faults that follow from seed.
func Play(t testing.TB, s world.Setting, seed uint64, o Options) *Run {
	run := &Run{Setting: s, Seed: seed, Faults: map[world.Fault]int{}, Wrong: map[Property][]string{}}
	w := s.Open(t)
	f := &fleet{world: w, program: o.Program, pace: o.Pace, job: client.Job{
		Seed: seed, TTL: w.TTL, Storage: w.Storage.Addr(), Unfenced: o.Unfenced,
		Counters: world.Counters, Brief: world.Brief, Crowd: world.Crowd, Workers: workers,
	}}
	t.Cleanup(f.kill)
	if err := f.fill(); err != nil {
		run.wrong(Harness, err.Error())
		return run
	}
	run.inject(w, f)
	if err := w.Heal(); err != nil {
		run.wrong(Harness, err.Error())
	}
	within, claimed := s.Live()
	patience := slow * within
	if !claimed {
		patience = time.Second
	}
	took, missed := f.finish(patience)
	run.wrong(Liveness, missed...)
	run.Final = len(took)
	for _, d := range took {
		run.Worst = max(run.Worst, d)
		if d > within {
			run.Late++
		}
	}
	if err := f.end(); err != nil {
		run.wrong(Harness, err.Error())
	}
	run.judge(w, f, o)
	return run
}

// inject lets faults happen to servers, links and clients, side by side.
func (r *Run) inject(w *world.World, f *fleet) {
	var mu sync.Mutex
	began := time.Now()
	lane := func(n uint64, kinds []world.Fault, do func(*rand.Rand, world.Fault) (string, bool, error)) {
		random := rand.New(rand.NewPCG(r.Seed, n))
		var left []world.Fault
		for time.Since(began) < r.Setting.Length() {
			time.Sleep(time.Duration(random.Int64N(int64(w.TTL))))
			if len(left) == 0 {
				left = slices.Clone(kinds)
				random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
			}
			fault, at := left[0], time.Since(began)
			left = left[1:]
			did, happened, err := do(random, fault)
			mu.Lock()
			switch {
			case err != nil:
				r.wrong(Harness, fmt.Sprintf("%s: %v", fault, err))
			case happened:
				r.Faults[fault]++
				r.Log = append(r.Log, fmt.Sprintf("%7.3f s  %s: %s", at.Seconds(), fault, did))
			}
			mu.Unlock()
		}
	}
	var lanes sync.WaitGroup
	lanes.Go(func() {
		lane(1, r.Setting.Servers, func(random *rand.Rand, fault world.Fault) (string, bool, error) {
			did, err := w.Server(random, fault)
			return did, err == nil, err
		})
	})
	lanes.Go(func() { lane(2, world.Links, w.Between) })
	lanes.Go(func() { lane(3, world.Clients, f.harm) })
	lanes.Wait()
	slices.Sort(r.Log)
}

// judge checks what the clients did, and what is left.
func (r *Run) judge(w *world.World, f *fleet, o Options) {
	h := f.history()
	r.Ops, r.Stale = len(h.Holds), h.Stale()
	r.wrong(Exclusion, h.Exclusion()...)
	r.wrong(Order, h.Order(r.Setting.Excludes)...)
	final, err := registers(w)
	if err != nil {
		r.wrong(Harness, err.Error())
	}
	r.wrong(Updates, h.Lost(final)...)
	r.models(Lock, h.Locks(r.Setting.Excludes), o)
	r.models(Register, h.Registers(), o)
	if Claimed(r.Setting, Clean) {
		r.wrong(Clean, leftovers(w)...)
	}
}

func (r *Run) models(p Property, verdicts []history.Verdict, o Options) {
	for _, v := range verdicts {
		r.Models++
		if v.Result == porcupine.Ok {
			continue
		}
		what := fmt.Sprintf("%s: %s", v.Name, v.Result)
		if o.Save != "" {
			page := filepath.Join(o.Save, strings.Map(fileName, fmt.Sprintf("%v-%d-%s-%s.html", r.Setting, r.Seed, v.Model, v.Name)))
			if err := v.Save(page); err != nil {
				what += ": " + err.Error()
			} else {
				r.Saved = append(r.Saved, page)
				what += ", see " + page
			}
		}
		r.wrong(p, what)
	}
}

func fileName(c rune) rune {
	if strings.ContainsRune(" ,'/", c) {
		return '_'
	}
	return c
}

// registers reads what the storage has in the end.
func registers(w *world.World) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := redis.NewClient(w.Storage.Options())
	final := map[string]int64{}
	for _, name := range world.Counters {
		n, err := c.HGet(ctx, "register:"+name, "value").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		final[name] = n
	}
	return final, c.Close()
}

// leftovers are keys that stay longer than they should: marks live for an hour,
// tombstones for a minute, queues for some seconds, and leases for their TTL.
func leftovers(w *world.World) (wrong []string) {
	const slack = 2 * time.Second
	time.Sleep(w.TTL)
	keepers := w.Keepers()
	for end := time.Now().Add(slack); ; time.Sleep(20 * time.Millisecond) {
		wrong = nil
		for i, s := range keepers {
			for key, left := range s.Keys("lock:") {
				_, suffix, _ := strings.Cut(key, "}")
				limit := time.Duration(0)
				switch {
				case suffix == ":fence":
					limit = time.Hour + time.Minute
				case strings.HasPrefix(suffix, ":x:"):
					limit = time.Minute
				case suffix == ":q" || suffix == ":w":
					limit = 6 * time.Second
				}
				if left < 0 || left > limit {
					wrong = append(wrong, fmt.Sprintf("server %d has %s for %v", i, key, left))
				}
			}
		}
		if len(wrong) == 0 || time.Now().After(end) {
			return wrong
		}
	}
}
