package fence

import (
	"context"
	"sync"
)

// Gate is [Check] with a memory, for data in this process. The zero Gate is
// ready; all methods may be called concurrently. It must not be copied after
// first use.
//
// A Gate keeps one mark for every name it has let in, and never drops one, since
// a forgotten mark would let a late write through. Where names come and go, put
// a Gate into each thing it protects, so that both are freed together.
type Gate struct {
	mu    sync.Mutex
	marks map[string]Grant
}

// Raise lets the grant of ctx in and makes it the mark of its name, or returns a
// [*StaleError] that has also been passed to [Report]. Without a token in ctx
// (see [Require]) it returns [ErrMissing]. After an error the mark is what it
// was.
//
// Raise answers for the moment of the call. Call it before the first read and
// under the mutex that guards the data, and keep that mutex until the last
// write; otherwise a later holder may raise the mark and write in between.
func (g *Gate) Raise(ctx context.Context) error {
	grant, err := Require(ctx)
	if err != nil {
		return err
	}
	return Report(ctx, g.raise(grant))
}

func (g *Gate) raise(grant Grant) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := Check(g.marks[grant.Name], grant); err != nil {
		return err
	}
	if g.marks == nil {
		g.marks = make(map[string]Grant)
	}
	g.marks[grant.Name] = grant
	return nil
}
