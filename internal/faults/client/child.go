package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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

	mu   sync.Mutex  // one line at a time
	held *guard.Held // by order
	name string
}

func (j Job) run() error {
	store, err := j.Store.open(nil)
	if err != nil {
		return err
	}
	locks, err := guard.New(store, guard.TTL(j.TTL), guard.ReleaseWithin(j.TTL))
	if err != nil {
		return err
	}
	w := &worker{job: j, locks: locks, storage: register{redis.NewClient(&redis.Options{Addr: j.Storage}), j.Unfenced}}
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
	_ = locks.Close(end) // leases end by themselves
	return nil
}

// tell writes a line at once: what a killed client did is known up to its last call.
func (w *worker) tell(e Event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the parent is gone
	}
}

func (w *worker) start(ctx context.Context, busy *sync.WaitGroup, o Order) {
	for i := range 3 * w.job.Workers {
		random := rand.New(rand.NewPCG(w.job.Seed, uint64(w.job.Number<<8|i)))
		busy.Go(func() {
			for ctx.Err() == nil {
				switch i % 3 {
				case 0:
					w.count(ctx, i, w.job.Counters[random.IntN(len(w.job.Counters))], random)
					continue
				case 1:
					w.visit(i, w.job.Brief[random.IntN(len(w.job.Brief))])
				case 2:
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

// visit holds name for a moment.
func (w *worker) visit(i int, name string) {
	if held := w.acquire(i, name, Granted, patience); held != nil {
		w.release(i, name, held)
	}
}

// count increments the register of name. It takes no notice of the end of its
// lease, as work in the middle of a call to a storage would not.
func (w *worker) count(ctx context.Context, i int, name string, random *rand.Rand) {
	held := w.acquire(i, name, Counting, patience)
	if held == nil {
		pause(ctx, time.Millisecond)
		return
	}
	token := int64(held.Token())
	if value, ok := w.use(i, name, Read, token, -1); ok {
		time.Sleep(time.Duration(random.Int64N(int64(w.job.TTL) / 4)))
		w.use(i, name, Written, token, value+1)
	}
	w.release(i, name, held)
	pause(ctx, time.Duration(random.Int64N(int64(w.job.TTL)/20)))
}

// use reads or writes the register; what failed may have happened.
func (w *worker) use(i int, name string, kind EventKind, token, value int64) (now int64, ok bool) {
	e := Event{Kind: kind, Name: name, Worker: i, Token: token, Called: Now()}
	now, stale, err := w.storage.access(context.Background(), name, token, value)
	if err != nil {
		e.Kind, e.Error = Silent, err.Error()
		w.tell(e)
		return 0, false
	}
	e.Done, e.Value, e.Stale = Now(), now, stale
	if kind == Written {
		e.Value = value
	}
	w.tell(e)
	return now, !stale
}

func (w *worker) acquire(i int, name string, kind EventKind, wait time.Duration) *guard.Held {
	e := Event{Kind: kind, Name: name, Worker: i, Called: Now()}
	held, err := guard.Acquire(context.Background(), w.locks.Name(name).Wait(wait))
	e.Done = Now()
	if err != nil {
		e.Kind, e.Error = Refused, class(err)
		w.tell(e)
		return nil
	}
	e.Token, e.Until = int64(held.Token()), until(held)
	w.tell(e)
	return held
}

func class(err error) string {
	var typed interface{ ErrorType() string }
	if errors.As(err, &typed) {
		return typed.ErrorType()
	}
	return "other"
}

func (w *worker) release(i int, name string, held *guard.Held) {
	e := Event{Kind: Ended, Name: name, Worker: i, Token: int64(held.Token()), Until: until(held), Called: Now()}
	if err := held.Release(); err != nil {
		e.Error = class(err)
	}
	e.Done = Now()
	w.tell(e)
}

// until is the end of a lease on the clock of [Now], or earlier if the process
// was paused just then.
func until(held *guard.Held) int64 {
	now := Now()
	return now + int64(time.Until(held.Until()))
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
