package guard

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// work is a hold as the context of its work. Much work never asks its context for
// anything, so what it takes to end it, and to find the token in it, is made at
// the first question.
type work hold

// inner is the context that a work stands for.
type inner struct {
	context.Context
	cancel context.CancelCauseFunc
}

type holdKey struct{}

func (w *work) Value(key any) any {
	if key == (holdKey{}) {
		return (*hold)(w)
	}
	return (*hold)(w).context().Value(key)
}

func (w *work) Done() <-chan struct{}               { return (*hold)(w).context().Done() }
func (w *work) Err() error                          { return (*hold)(w).context().Err() }
func (w *work) Deadline() (at time.Time, some bool) { return w.ctx.Deadline() }

// String keeps those who print contexts away from the fields.
func (w *work) String() string { return "lock " + w.name }

// context makes the context of the work, already ended if the work is over or its
// lease is lost.
func (h *hold) context() *inner {
	if in := h.inner.Load(); in != nil {
		return in
	}
	g := h.guard()
	base, cancel := context.WithCancelCause(h.ctx) // without the lock: h.ctx may be the work of another hold
	var stale func(*fence.StaleError)
	if g.obs != nil {
		stale = h.tellStale
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if in := h.inner.Load(); in != nil {
		cancel(nil)
		return in
	}
	in := &inner{fence.NewContext(base, fence.Grant{Name: h.name, Token: h.token(), Owner: h.grant.owner}, stale), cancel}
	h.inner.Store(in)
	switch {
	case h.lost != nil:
		cancel(h.lost)
	case h.state != holding:
		cancel(nil)
	}
	return in
}

// endWorkLocked ends the context of the work; cause is nil if the work is done.
func (h *hold) endWorkLocked(cause error) {
	if in := h.inner.Load(); in != nil {
		in.cancel(cause)
	}
}

// nested tells whether ctx already holds the name on g's store.
func nested(ctx context.Context, g *Guard, name string) bool {
	return holdOf(ctx, g, name) != nil
}

// holdOf finds the hold of a name that ctx carries and that is not over.
func holdOf(ctx context.Context, g *Guard, name string) *hold {
	for {
		h, _ := ctx.Value(holdKey{}).(*hold)
		if h == nil {
			return nil
		}
		if at := h.guard(); h.name == name && (at == g || at.identity == g.identity) {
			at.mu.Lock()
			live := h.state == holding
			at.mu.Unlock()
			if live {
				return h
			}
		}
		ctx = h.ctx
	}
}
