package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// errNodeLimit ends the wait for one node.
var errNodeLimit = errors.New("guard: no answer within the node limit")

// errPatience ends a wait before the limit, since other nodes can be asked instead.
var errPatience = errors.New("guard: no answer as soon as usual")

const (
	silentAfter = 50 * time.Millisecond // a node that owes many answers for this long, and four times what it took before, gets no more requests
	silentFirst = time.Second           // the same for one that has never answered
	silentOwes  = 16                    // many
)

// node is one Locker of a quorum. A node that is frozen gets few requests, so
// that neither they nor goroutines pile up: one at a time, once an answer has
// failed to come within the limit. It is seen to again as soon as it answers.
type node struct {
	Locker
	number int
	ahead  atomic.Int64 // its clock less ours, as last seen, ns

	mu        sync.Mutex
	owes      int                 // requests without an answer
	answered  time.Time           // when it last answered, or was first asked after that
	slowest   time.Duration       // what an answer took of late; 0 if it has never answered
	silent    bool                // the last request got no answer
	slow      bool                // the last one that was not given the whole limit
	unasked   map[string]struct{} // owners of which no acquire was sent: nothing to be released
	acquiring map[string]flight   // acquires on their way, by owner
	dirty     []dirty             // leases to be released there
	cleaning  bool
}

// flight is requests on their way, and who waits for them.
type flight struct {
	n    int
	done chan struct{}
}

func (n *node) acquire(ctx context.Context, r Request) (l Lease, err error) {
	sent, err := n.begin(r.Owner)
	if err != nil {
		return l, err
	}
	defer n.end(r.Owner, sent, &err)
	l, err = n.Locker.Acquire(ctx, r)
	at := l.Granted
	if held, ok := errors.AsType[*HeldError](err); ok {
		at = held.ServerTime
	}
	if at > 0 {
		n.ahead.Store(int64(time.UnixMicro(int64(at)).Sub(sent)))
	}
	return l, err
}

func (n *node) renew(ctx context.Context, l Lease) (_ Lease, err error) {
	sent, err := n.begin("")
	if err != nil {
		return Lease{}, err
	}
	defer n.end("", sent, &err)
	return n.Locker.Renew(ctx, l)
}

func (n *node) release(ctx context.Context, l Lease) (err error) {
	sent, err := n.begin("")
	if err != nil {
		return err
	}
	defer n.end("", sent, &err)
	return n.Locker.Release(ctx, l)
}

// begin counts a request; acquirer is the owner of an acquire, else "".
func (n *node) begin(acquirer string) (time.Time, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.owes == 0 && !n.silent {
		n.answered = now
	}
	quiet := now.Sub(n.answered)
	if n.silent && n.owes > 0 || n.owes >= silentOwes && quiet > n.patienceLocked() {
		return now, &silentError{n.owes, quiet}
	}
	n.owes++
	if acquirer != "" {
		delete(n.unasked, acquirer)
		n.expectLocked(acquirer)
	}
	return now, nil
}

// expect counts an acquire of owner's that is about to be sent, so that a release
// which comes first waits for it; arrived is its end.
func (n *node) expect(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expectLocked(owner)
}

func (n *node) expectLocked(owner string) {
	if n.acquiring == nil {
		n.acquiring = map[string]flight{}
	}
	f := n.acquiring[owner]
	f.n++
	n.acquiring[owner] = f
}

func (n *node) arrived(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrivedLocked(owner)
}

func (n *node) arrivedLocked(owner string) {
	f := n.acquiring[owner]
	if f.n--; f.n > 0 {
		n.acquiring[owner] = f
		return
	}
	delete(n.acquiring, owner)
	if f.done != nil {
		close(f.done)
	}
}

// landed waits for the owner's acquires that are on their way, and tells whether
// they have all been answered before patience ran out.
func (n *node) landed(ctx context.Context, owner string) bool {
	n.mu.Lock()
	f, ok := n.acquiring[owner]
	if !ok {
		n.mu.Unlock()
		return true
	}
	if f.done == nil {
		f.done = make(chan struct{})
		n.acquiring[owner] = f
	}
	silent, patience := n.silent, n.patienceLocked()
	n.mu.Unlock()
	if silent {
		return false
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-f.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// patienceLocked is how long an answer may take that is not unusually late.
func (n *node) patienceLocked() time.Duration {
	if n.slowest == 0 {
		return silentFirst
	}
	return max(silentAfter, 4*n.slowest)
}

// patience tells also whether the node answered its last request.
func (n *node) patience() (time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.patienceLocked(), !n.silent && !n.slow
}

// silentError is of a request that was not sent.
type silentError struct {
	owes  int
	quiet time.Duration
}

func (e *silentError) Error() string {
	return fmt.Sprintf("%v: %d requests without an answer for %v", ErrUnavailable, e.owes, e.quiet.Round(time.Millisecond))
}

func (e *silentError) Is(target error) bool { return target == ErrUnavailable }

// skip notes that owner's acquire was not sent.
func (n *node) skip(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unasked) >= cleanMost {
		clear(n.unasked) // some will be released for nothing
	}
	if n.unasked == nil {
		n.unasked = map[string]struct{}{}
	}
	n.unasked[owner] = struct{}{}
}

func (n *node) end(acquirer string, sent time.Time, err *error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owes--
	if acquirer != "" {
		n.arrivedLocked(acquirer)
	}
	switch {
	case errors.Is(*err, errNodeLimit):
		n.silent = n.silent || !n.answered.After(sent)
	case errors.Is(*err, errPatience):
		n.slow = n.slow || !n.answered.After(sent)
	case !errors.Is(*err, context.Canceled):
		n.answeredLocked()
		n.slowest = max(n.answered.Sub(sent), n.slowest-n.slowest/8, time.Microsecond)
	}
}

func (n *node) answeredLocked() { n.answered, n.silent, n.slow = time.Now(), false, false }
