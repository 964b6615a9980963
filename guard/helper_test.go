package guard_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

var errNetwork = errors.New("connection reset by test")

// broken is what a store says when the network failed.
func broken() error { return errors.Join(guard.ErrUnavailable, errNetwork) }

// faults is a layer that counts calls and puts functions in front of them. A nil
// function passes.
type faults struct {
	guard.Locker
	acquire func(ctx context.Context, r guard.Request) (guard.Lease, error)
	renew   func(ctx context.Context, l guard.Lease) (guard.Lease, error)
	release func(ctx context.Context, l guard.Lease) error

	acquires, renews, releases atomic.Int32

	mode atomic.Int32 // may change while calls are on their way
}

const (
	passes = iota
	refuses
	frozen
)

// down is the error of a node that is not there; nil if it passes.
func (f *faults) down(ctx context.Context) error {
	switch f.mode.Load() {
	case refuses:
		return broken()
	case frozen:
		return hang(ctx)
	}
	return nil
}

func (f *faults) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	f.acquires.Add(1)
	if err := f.down(ctx); err != nil {
		return guard.Lease{}, err
	}
	if f.acquire != nil {
		return f.acquire(ctx, r)
	}
	return f.Locker.Acquire(ctx, r)
}

func (f *faults) Renew(ctx context.Context, l guard.Lease) (guard.Lease, error) {
	f.renews.Add(1)
	if err := f.down(ctx); err != nil {
		return guard.Lease{}, err
	}
	if f.renew != nil {
		return f.renew(ctx, l)
	}
	return f.Locker.Renew(ctx, l)
}

func (f *faults) Release(ctx context.Context, l guard.Lease) error {
	f.releases.Add(1)
	if err := f.down(ctx); err != nil {
		return err
	}
	if f.release != nil {
		return f.release(ctx, l)
	}
	return f.Locker.Release(ctx, l)
}

// hang waits for the end of ctx, as a store does when the network is silent.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func newFaults() *faults { return &faults{Locker: memstore.New()} }

func newGuard(t *testing.T, store guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(store, opts...)
	require.NoError(t, err)
	return g
}

// bubble runs f with fake time and checks that nothing of the Guards it made is
// left: a goroutine that never ends fails the test by itself.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// rival takes a name on the store for a time, like another process.
func rival(t *testing.T, store guard.Locker, name string, ttl time.Duration) guard.Lease {
	t.Helper()
	l, err := store.Acquire(t.Context(), guard.Request{Name: name, Owner: "rivalrivalrivalrival22", TTL: ttl, Label: "rival"})
	require.NoError(t, err)
	return l
}

// free tells whether the store would grant the name to somebody new.
func free(t *testing.T, store guard.Locker, name string) bool {
	t.Helper()
	r := guard.Request{Name: name, Owner: "probeprobeprobeprobe22", TTL: time.Second}
	l, err := store.Acquire(t.Context(), r)
	if err != nil {
		require.ErrorIs(t, err, guard.ErrHeld)
		return false
	}
	require.NoError(t, store.Release(t.Context(), l))
	return true
}

func nothing(context.Context) error { return nil }

// untilDone is work that ends with its context, and says why.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// recorder is an observer that keeps everything.
type recorder struct {
	mu       sync.Mutex
	calls    []guard.Call
	events   []guard.Event
	outcomes []guard.Outcome
}

func (r *recorder) Begin(ctx context.Context, c guard.Call) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return ctx
}

func (r *recorder) Event(_ context.Context, e guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) End(_ context.Context, o guard.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

func (r *recorder) kinds() (ks []guard.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		ks = append(ks, e.Kind)
	}
	return ks
}

func (r *recorder) last(t *testing.T) guard.Outcome {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.outcomes)
	return r.outcomes[len(r.outcomes)-1]
}

func fairOf(f *faults) guard.Locker { return f.Locker.(*memstore.Store).Fair() }

// wipeable is a store that can lose all it knows while calls are on their way.
type wipeable struct {
	now atomic.Pointer[memstore.Store]
}

func newWipeable() *wipeable {
	w := &wipeable{}
	w.now.Store(memstore.New())
	return w
}

func (w *wipeable) Acquire(ctx context.Context, r guard.Request) (guard.Lease, error) {
	return w.now.Load().Acquire(ctx, r)
}

func (w *wipeable) Renew(ctx context.Context, l guard.Lease) (guard.Lease, error) {
	return w.now.Load().Renew(ctx, l)
}

func (w *wipeable) Release(ctx context.Context, l guard.Lease) error {
	return w.now.Load().Release(ctx, l)
}

func (f *faults) wipe() { f.Locker.(*wipeable).now.Store(memstore.New()) }
