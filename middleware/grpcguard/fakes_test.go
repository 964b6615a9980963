package grpcguard_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
)

// faults is a layer that puts functions in front of a store. A nil function
// passes.
type faults struct {
	guard.Locker
	acquire func(ctx context.Context, r guard.Request) (guard.Lease, error)
	renew   func(ctx context.Context, l guard.Lease) (guard.Lease, error)
	release func(ctx context.Context, l guard.Lease) error
	probes  atomic.Int64
}

func (f *faults) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	if f.acquire != nil && !strings.HasPrefix(r.Owner, "test") {
		return f.acquire(ctx, r)
	}
	return f.Locker.Acquire(ctx, r)
}

func (f *faults) Renew(ctx context.Context, l guard.Lease) (guard.Lease, error) {
	if f.renew != nil {
		return f.renew(ctx, l)
	}
	return f.Locker.Renew(ctx, l)
}

func (f *faults) Release(ctx context.Context, l guard.Lease) error {
	if f.release != nil && !strings.HasPrefix(l.Owner, "test") {
		return f.release(ctx, l)
	}
	return f.Locker.Release(ctx, l)
}

// over is a renewal or a release of a lease that is over.
func over(l guard.Lease) error {
	return &guard.LostError{Name: l.Name, Token: l.Token, Reason: guard.LostGone}
}

// rival takes the lock for a time, like another process.
func (f *faults) rival(t *testing.T, ttl time.Duration) guard.Lease {
	t.Helper()
	l, err := f.Locker.Acquire(t.Context(), guard.Request{Name: lockName, Owner: "testrivaltestrivaltest", TTL: ttl, Label: "secret-rival"})
	require.NoError(t, err)
	return l
}

// free tells whether the store would grant the lock to somebody new.
func (f *faults) free() bool {
	ctx := context.Background()
	owner := fmt.Sprintf("testprobe%013d", f.probes.Add(1)) // an owner acquires once
	l, err := f.Locker.Acquire(ctx, guard.Request{Name: lockName, Owner: owner, TTL: time.Second})
	return err == nil && f.Locker.Release(ctx, l) == nil
}

// recorder is an observer that keeps everything.
type recorder struct {
	mu       sync.Mutex
	begun    int
	kinds    []guard.Kind
	outcomes []guard.Outcome
}

func (r *recorder) Begin(ctx context.Context, _ guard.Call) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	return ctx
}

func (r *recorder) Event(_ context.Context, e guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds = append(r.kinds, e.Kind)
}

func (r *recorder) End(_ context.Context, o guard.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

func (r *recorder) saw(k guard.Kind) bool { return r.count(k) > 0 }

func (r *recorder) count(k guard.Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.kinds {
		if one == k {
			n++
		}
	}
	return n
}

func (r *recorder) ends() []guard.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]guard.Outcome(nil), r.outcomes...)
}

func (r *recorder) total() (begun, ends int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun, len(r.outcomes)
}
