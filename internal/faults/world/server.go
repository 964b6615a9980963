package world

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	adminLimit = 15 * time.Second
	settle     = 30 * time.Second // for a topology to be in order again
	clockRange = time.Hour
)

// clock is what became of a server's.
type clock struct{ offset, highest time.Duration }

// admin talks to server i directly.
func (w *World) admin(i int, f func(ctx context.Context, c *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminLimit)
	defer cancel()
	o := w.Servers[i].Options()
	o.ReadTimeout, o.MaxRetries, o.DialerRetries = adminLimit, -1, 1
	c := redis.NewClient(o)
	defer c.Close()
	return f(ctx, c)
}

func (w *World) do(i int, args ...any) error {
	return w.admin(i, func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, args...).Err() })
}

// between draws a duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// lasts draws how long a fault goes on: one of four outlasts a lease.
func (w *World) lasts(r *rand.Rand) time.Duration {
	if r.IntN(4) == 0 {
		return between(r, w.TTL, 2*w.TTL)
	}
	return between(r, w.TTL/20, w.TTL/2)
}

// Server lets fault happen to a server that r chooses, and ends it. It returns
// what it did; an error means that it could not be done.
func (w *World) Server(r *rand.Rand, fault Fault) (did string, err error) {
	i := r.IntN(len(w.Servers))
	switch fault {
	case RestartLoses, Flush, ClockBack, ClockForward:
		i = r.IntN(w.Minority()) // always the same ones
	default:
	}
	lasts := w.lasts(r)
	did = fmt.Sprintf("server %d for %v", i, lasts.Round(time.Millisecond))
	switch fault {
	case Freeze:
		w.Servers[i].Freeze()
		time.Sleep(lasts)
		w.Servers[i].Thaw()
	case RestartKeeps, RestartLoses:
		w.Servers[i].Kill()
		time.Sleep(lasts / 8)
		w.Servers[i].Restart()
	case Flush:
		err = w.do(i, "FLUSHALL")
	case ScriptFlush:
		err = w.do(i, "SCRIPT", "FLUSH")
	case Pause:
		err = w.do(i, "CLIENT", "PAUSE", lasts.Milliseconds(), "ALL")
		time.Sleep(lasts)
		if err == nil { // it ends by the wall clock, and one that is not over when that is set back goes on
			err = w.do(i, "PING")
		}
	case Busy:
		err = w.busy(i, lasts)
	case Memory:
		err = w.do(i, "CONFIG", "SET", "maxmemory", 1)
		time.Sleep(lasts)
		if err == nil {
			err = w.do(i, "CONFIG", "SET", "maxmemory", 0)
		}
	case ClockBack, ClockForward:
		did = fmt.Sprintf("server %d by %v", i, w.step(r, i, fault == ClockForward))
	case Promote, ReplicaLag:
		did, err = w.failOver(r, fault == ReplicaLag)
	case SentinelKill, SentinelStop:
		did, err = w.sentinel(fault == SentinelKill)
	case ClusterManual, ClusterKill:
		did, err = w.shardFailOver(fault == ClusterKill)
	case Migrate:
		did, err = w.migrate(r)
	default:
		err = fmt.Errorf("world: %q is no fault of a server", fault)
	}
	return did, err
}

// busy keeps a server in a script, as long as it lets itself be killed.
func (w *World) busy(i int, lasts time.Duration) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.do(i, "EVAL", "while true do end", 0) // ends with an error
	}()
	time.Sleep(lasts)
	for end := time.Now().Add(adminLimit); ; {
		err := w.do(i, "SCRIPT", "KILL")
		select {
		case <-done:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// step moves the clock of a server by 1 ms to 1 h, short ones as often as long
// ones. It never falls an hour below where it once was, which is as far as the
// order of tokens goes.
func (w *World) step(r *rand.Rand, i int, forward bool) time.Duration {
	d := time.Duration(float64(time.Millisecond) * math.Pow(float64(clockRange/time.Millisecond), r.Float64()))
	c := w.clocks[i]
	was := c.offset
	if forward {
		c.offset += d
	} else {
		c.offset = max(c.offset-d, c.highest-clockRange+time.Minute)
	}
	c.highest = max(c.highest, c.offset)
	w.clocks[i] = c
	w.Servers[i].SetClock(c.offset)
	return c.offset - was
}
