package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

// What happens when the work fails? Its error comes back; the lock is free again.
func ExampleDo() {
	locks := guard.Must(guard.New(memstore.New()))
	err := guard.Do(context.Background(), locks.Name("cleanup"), func(context.Context) error {
		return errors.New("disk full")
	})
	fmt.Println(err)
	// Output: disk full
}

// How is a result returned? With its own type, without a captured variable.
func ExampleValue() {
	locks := guard.Must(guard.New(memstore.New()))
	n, err := guard.Value(context.Background(), locks.Name("counter"), func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	// Output: 42 <nil>
}

// How does one skip work that somebody else is doing already?
func ExampleTry() {
	locks := guard.Must(guard.New(memstore.New()))
	held, _ := guard.Acquire(context.Background(), locks.Name("sync"))
	ran, err := guard.Try(context.Background(), locks.Name("sync"), func(context.Context) error { return nil })
	fmt.Println(ran, err)
	_ = held.Release()
	// Output: false <nil>
}

// What about code that cannot be a closure?
func ExampleAcquire() {
	locks := guard.Must(guard.New(memstore.New()))
	held, err := guard.Acquire(context.Background(), locks.Name("import"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { fmt.Println("released:", held.Release()) }()
	fmt.Println("alive:", held.Context().Err() == nil, "token:", held.Token() > 0)
	// Output:
	// alive: true token: true
	// released: <nil>
}

// How does deep code make sure that its caller took the lock?
func ExampleHolds() {
	locks := guard.Must(guard.New(memstore.New()))
	account := locks.Name("account", "7")
	debit := func(ctx context.Context) error {
		if !guard.Holds(ctx, account) {
			return errors.New("debit without the account's lock")
		}
		return nil
	}
	fmt.Println(debit(context.Background()))
	fmt.Println(guard.Do(context.Background(), account, debit))
	// Output:
	// debit without the account's lock
	// <nil>
}

type parcelID string

// How does a lock join other middleware?
func ExampleChain() {
	locks := guard.Must(guard.New(memstore.New()))
	byID := func(id parcelID) guard.Name { return locks.Name("parcel", string(id)) }
	logged := func(next guard.Func[parcelID, string]) guard.Func[parcelID, string] {
		return func(ctx context.Context, id parcelID) (string, error) {
			out, err := next(ctx, id)
			fmt.Println("log:", out, err)
			return out, err
		}
	}
	ship := guard.Chain(logged, guard.By[string](byID))(func(_ context.Context, id parcelID) (string, error) {
		return "shipped " + string(id), nil
	})
	_, _ = ship(context.Background(), "p-1")
	// Output: log: shipped p-1 <nil>
}

// How does a service shut down without leaving locks behind?
func ExampleGuard_Close() {
	locks := guard.Must(guard.New(memstore.New()))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(locks.Close(ctx))
	fmt.Println(guard.Do(ctx, locks.Name("late"), func(context.Context) error { return nil }))
	// Output:
	// <nil>
	// guard: closed
}

// How do locks get into the log?
func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case "msg", "lock", "result":
				return a
			}
			return slog.Attr{}
		},
	}))
	store := memstore.New()
	locks := guard.Must(guard.New(store, guard.Observe(guard.Log(logger))))
	held, _ := guard.Acquire(context.Background(), guard.Must(guard.New(store)).Name("stock"))
	_, _ = guard.Try(context.Background(), locks.Name("stock"), func(context.Context) error { return nil })
	_ = held.Release()
	// Output: msg="lock not acquired" lock=stock result=refused
}
