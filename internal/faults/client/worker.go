package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/guard"
)

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
	e.Token, e.Until, e.Asked = int64(held.Token()), until(held), min(e.Called, w.asked.when(held))
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
