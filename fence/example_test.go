package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/fence"
)

// lockedAs stands for the context that a lock gives to its work.
func lockedAs(name string, token fence.Token, owner string) context.Context {
	return fence.NewContext(context.Background(), fence.Grant{Name: name, Token: token, Owner: owner}, nil)
}

func ExampleFrom() {
	ctx := lockedAs("order/42", 33, "a")
	fmt.Println(fence.From(ctx), fence.From(context.Background()))
	// Output: 33 0
}

// Work under two locks asks for the token of the one that protects the storage
// at hand.
func ExampleFor() {
	ctx := lockedAs("order/42", 33, "a")
	ctx = fence.NewContext(ctx, fence.Grant{Name: "customer/7", Token: 5, Owner: "b"}, nil)
	fmt.Println(fence.From(ctx), fence.For(ctx, "order/42"))
	// Output: 5 33
}

// A repository that cannot be called without a lock.
func ExampleRequire() {
	save := func(ctx context.Context) error {
		grant, err := fence.Require(ctx)
		if err != nil {
			return err
		}
		fmt.Println("saved with", grant.Token)
		return nil
	}
	fmt.Println(save(context.Background()))
	fmt.Println(save(lockedAs("order/42", 33, "a")))
	// Output:
	// fence: no lease in this context
	// saved with 33
	// <nil>
}

// account protects its balance with a gate of its own. The gate is raised under
// the mutex that guards the balance and before the balance is read.
type account struct {
	mu      sync.Mutex
	gate    fence.Gate
	balance int
}

func (a *account) add(ctx context.Context, amount int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.gate.Raise(ctx); err != nil {
		return err
	}
	a.balance += amount
	return nil
}

// A holder wakes from a long pause after its lease has ended. Somebody else has
// worked since, and the late write is refused.
func ExampleGate() {
	paused, next := lockedAs("account/1", 33, "a"), lockedAs("account/1", 34, "b")
	var a account
	fmt.Println(a.add(next, 100))
	fmt.Println(a.add(paused, -30))
	fmt.Println(a.balance)
	// Output:
	// <nil>
	// fence: token 33 of "account/1" is stale: 34 was seen
	// 100
}

// table stands for a storage of your own that can keep a token and an owner
// beside each row, and change them together with it.
type table map[string]struct {
	value string
	mark  fence.Grant
}

func (t table) put(ctx context.Context, key, value string) error {
	grant, err := fence.Require(ctx)
	if err != nil {
		return err
	}
	row := t[key]
	if err := fence.Check(row.mark, grant); err != nil {
		return fence.Report(ctx, err)
	}
	row.value, row.mark = value, grant
	t[key] = row
	return nil
}

func ExampleCheck() {
	t := table{}
	first, second := lockedAs("k", 33, "a"), lockedAs("k", 34, "b")
	fmt.Println(t.put(first, "k", "one"))
	fmt.Println(t.put(second, "k", "two"))

	err := t.put(first, "k", "three")
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		fmt.Println("stale:", stale.Presented, "after", stale.Seen)
	}
	fmt.Println(t["k"].value)
	// Output:
	// <nil>
	// <nil>
	// stale: 33 after 34
	// two
}
