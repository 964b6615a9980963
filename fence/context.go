package fence

import (
	"context"
	"errors"
	"fmt"
)

// granted is a context that carries a grant: one object instead of a value
// context and what it points to.
type granted struct {
	context.Context
	grant Grant
	stale func(*StaleError)
}

type grantKey struct{}

func (c *granted) Value(key any) any {
	if key == (grantKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// String keeps the owner out of a printed context.
func (c *granted) String() string { return fmt.Sprintf("%v.fence(%v)", c.Context, c.grant) }

func innermost(ctx context.Context) *granted {
	c, _ := ctx.Value(grantKey{}).(*granted)
	return c
}

// named is the innermost grant of name, nil if ctx carries none.
func named(ctx context.Context, name string) *granted {
	c := innermost(ctx)
	for c != nil && c.grant.Name != name {
		c = innermost(c.Context)
	}
	return c
}

// NewContext returns a copy of ctx that carries g. A lock calls it for its work;
// work that received its grant by other means, say from a request's headers, may
// call it too. stale is called by [Report] when a storage refuses g, at once and
// on the goroutine that was refused; nil means nobody wants to know.
//
// Grants nest: From and Require see the innermost one only, For sees all of
// them. So a Grant without a token (0 or less) on top hides the others from From
// and Require, as a lock on several names wants, where no single token stands
// for the whole; For still finds each.
func NewContext(ctx context.Context, g Grant, stale func(*StaleError)) context.Context {
	g.Token = max(g.Token, 0)
	return &granted{ctx, g, stale}
}

// From returns the token of the innermost lock that ctx is under, 0 if it is
// under none or under one on several names. The token stays in the context after
// the lease has ended: that is what the storage is there to refuse.
func From(ctx context.Context) Token {
	if c := innermost(ctx); c != nil {
		return c.grant.Token
	}
	return 0
}

// For returns the token of the lock of that name that ctx is under, however many
// other locks were taken inside it. It is 0 if there is none.
func For(ctx context.Context, name string) Token {
	if c := named(ctx, name); c != nil {
		return c.grant.Token
	}
	return 0
}

// Require returns the grant of the innermost lock that ctx is under, or
// [ErrMissing] where [From] gives 0. A storage that starts with it cannot be
// called without a lock by mistake.
func Require(ctx context.Context) (Grant, error) {
	if c := innermost(ctx); c != nil && c.grant.Token > 0 {
		return c.grant, nil
	}
	return Grant{}, ErrMissing
}

// Report tells the lock under which ctx runs that a storage refused its token,
// so that its observers see it, and returns err unchanged. Storages pass what
// Check said through it, once per refusal:
//
//	return fence.Report(ctx, fence.Check(mark, grant))
//
// Nothing is told if err holds no [*StaleError] (nil among others), or ctx
// carries no grant of the name in it. Hold no lock that the callback might need.
func Report(ctx context.Context, err error) error {
	if stale, ok := errors.AsType[*StaleError](err); ok {
		if c := named(ctx, stale.Name); c != nil && c.stale != nil {
			c.stale(stale)
		}
	}
	return err
}
