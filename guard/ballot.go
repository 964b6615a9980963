package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// ballot is a question on its way to several nodes.
type ballot struct {
	replies chan reply
	asked   int
	cancel  context.CancelFunc
}

func (q *quorum) ask(ctx context.Context, ttl time.Duration, f func(context.Context, *node) reply) *ballot {
	all := make([]reply, len(q.nodes))
	for i, n := range q.nodes {
		all[i].node = n
	}
	return q.askSome(ctx, ttl, all, func(ctx context.Context, n *node, _ Lease) reply { return f(ctx, n) })
}

// askSome asks nodes at once. The questions go on after a majority has answered,
// so that a slow node gets the lease too, each until the node limit.
func (q *quorum) askSome(ctx context.Context, ttl time.Duration, nodes []reply, f func(context.Context, *node, Lease) reply) *ballot {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), q.limitFor(ttl), errNodeLimit)
	b := &ballot{make(chan reply, len(nodes)), len(nodes), cancel}
	var left atomic.Int32
	left.Store(int32(len(nodes)))
	for _, a := range nodes {
		go func() {
			answer := f(ctx, a.node, a.lease)
			answer.node = a.node
			b.replies <- answer
			if left.Add(-1) == 0 {
				cancel()
			}
		}()
	}
	return b
}

// collect hands the replies to take until it is satisfied or all are there. It
// returns ctx's cause if that ends first.
func (b *ballot) collect(ctx context.Context, take func(reply) bool) error {
	for range b.asked {
		select {
		case a := <-b.replies:
			if take(a) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
