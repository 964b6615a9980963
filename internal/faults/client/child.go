package client

import (
	"bufio"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
)

// jobEnv carries a Job to a process of this very program.
const jobEnv = "HOLDFAST_FAULTS_JOB"

const (
	patience = 2 * time.Second // of a worker for one acquisition
	farewell = 3 * time.Second // for releases at the end
)

// Child does the work of a client and ends the process. In any other process it
// returns at once: call it first in main, or in TestMain.
func Child() {
	text, is := os.LookupEnv(jobEnv)
	if !is {
		return
	}
	redis.SetLogger(quiet{})
	var j Job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.run()
	}
	if err != nil {
		_, _ = os.Stderr.WriteString("client: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// quiet drops what go-redis says about servers that are down on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// worker is what the goroutines of a client share.
type worker struct {
	job     Job
	locks   *guard.Guard
	storage register
	asked   asked

	mu   sync.Mutex  // one line at a time
	held *guard.Held // by order
	name string
}

func (j Job) run() error {
	store, err := j.Store.open(nil)
	if err != nil {
		return err
	}
	w := &worker{job: j, storage: register{redis.NewClient(&redis.Options{Addr: j.Storage}), j.Unfenced}}
	w.locks, err = guard.New(guard.Stack(store, w.asked.layer), guard.TTL(j.TTL), guard.ReleaseWithin(j.TTL))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var busy sync.WaitGroup
	w.tell(Event{Kind: Ready})
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var o Order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		switch o.Do {
		case Work:
			w.start(ctx, &busy, o)
		case Finish:
			cancel()
			busy.Wait()
			w.finish(o.Wait)
		case Acquire:
			busy.Go(func() { w.acquireOne(o) })
		case Release:
			busy.Wait()
			w.releaseOne()
		case Paths:
			if err := w.paths(o); err != nil {
				return err
			}
		}
	}
	cancel()
	busy.Wait()
	end, stop := context.WithTimeout(context.Background(), farewell)
	defer stop()
	_ = w.locks.Close(end) // leases end by themselves
	return nil
}

// tell writes a line at once: what a killed client did is known up to its last call.
func (w *worker) tell(e Event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	_, err = os.Stdout.Write(append(line, '\n'))
	w.mu.Unlock()
	if err != nil {
		os.Exit(1) // the parent is gone
	}
}

func (w *worker) start(ctx context.Context, busy *sync.WaitGroup, o Order) {
	for i := range 3 * w.job.Workers {
		random := rand.New(rand.NewPCG(w.job.Seed, uint64(w.job.Number<<8|i)))
		busy.Go(func() {
			for ctx.Err() == nil {
				switch i / w.job.Workers {
				case 0:
					w.count(ctx, i, w.job.Counters[random.IntN(len(w.job.Counters))], random)
					continue
				case 1:
					w.visit(i, w.job.Brief[random.IntN(len(w.job.Brief))])
				default:
					w.visit(i, w.job.Crowd)
				}
				pause(ctx, time.Duration(random.Int64N(int64(2*o.Pace)+1)))
			}
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// finish acquires the names that all want once, and as many others.
func (w *worker) finish(wait time.Duration) {
	var all sync.WaitGroup
	for i, name := range append(append([]string{}, w.job.Counters...), w.job.Brief[:len(w.job.Counters)]...) {
		all.Go(func() {
			called := Now()
			held := w.acquire(1000+i, name, Granted, wait)
			e := Event{Kind: Finished, Name: name, Called: called, Done: Now()}
			if held == nil {
				e.Error = "not acquired"
			} else {
				w.release(1000+i, name, held)
			}
			w.tell(e)
		})
	}
	all.Wait()
	w.tell(Event{Kind: Done})
}

func (w *worker) acquireOne(o Order) {
	held := w.acquire(0, o.Name, Granted, o.Wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.name = held, o.Name
}

func (w *worker) releaseOne() {
	w.mu.Lock()
	held := w.held
	w.held = nil
	w.mu.Unlock()
	if held != nil {
		w.release(0, w.name, held)
	}
	w.tell(Event{Kind: Done})
}
