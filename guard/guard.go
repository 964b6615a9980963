package guard

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

// Guard runs work under locks kept in one store. It keeps the lines of those
// who wait in this process, renews what is held, and releases. All methods may
// be called concurrently. Make one per store and share it; two Guards over one
// store exclude each other like two processes.
type Guard struct {
	store    Locker
	identity any // tells whether two Guards share a store
	obs      observers
	root     *Class

	mu     sync.Mutex
	lines  map[string]*line
	agenda agenda
	due    renewals
	busy   int             // calls that hold or wait, and work in the background
	life   context.Context // ends by Close
	end    context.CancelFunc
	closed <-chan struct{} // of life
	idle   chan struct{}   // closed when busy falls to 0 after Close; nil before
}

// New returns a Guard on store. Policies among opts are the defaults of its
// names and classes. It sends no command. It returns [ErrInvalid] for a nil
// store or an option out of range.
func New(store Locker, opts ...Option) (*Guard, error) {
	if store == nil {
		return nil, invalid("New: the store is nil")
	}
	g := &Guard{store: store, lines: map[string]*line{}}
	g.life, g.end = context.WithCancel(context.Background())
	g.closed = g.life.Done()
	g.identity = g
	if reflect.ValueOf(store).Comparable() {
		g.identity = store
	}
	g.agenda.init(g)
	p := policy{ttl: 30 * time.Second, wait: -1, releaseWithin: 2 * time.Second, backoff: retry.Default, label: defaultLabel()}
	for _, o := range opts {
		switch o := o.(type) {
		case observeOption:
			for _, one := range o {
				if one != nil {
					g.obs = append(g.obs, one)
				}
			}
		case policyOf:
			if err := o(&p); err != nil {
				return nil, err
			}
		default:
			return nil, invalid("New: option is nil")
		}
	}
	g.root = &Class{guard: g, policy: p}
	return g, nil
}

// defaultLabel is kept within what Label allows, whatever the host is called.
func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil || hasControl(host) {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host[:min(len(host), maxLabel-20)], os.Getpid())
}

// Must returns v, and panics if err is not nil. It serves package-level
// variables: var locks = guard.Must(guard.New(store)).
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Name makes a name of parts, without a class. Parts are escaped, so they may
// come from anywhere; see [Name.String]. At least one part, none empty, at most
// 512 bytes in all.
func (g *Guard) Name(parts ...string) Name { return g.root.newName("", parts) }

// Class is a kind of lock: a policy, and a label that tells in telemetry what
// the lock is for. Safe for concurrent use.
type Class struct {
	guard  *Guard
	label  string
	policy policy
}

// Class returns the class label with the Guard's policy changed by ps. label is
// the first part of its names and a metric attribute: few values, chosen by the
// program, 1 to 64 bytes. Two classes with one label share their names.
func (g *Guard) Class(label string, ps ...Policy) (*Class, error) {
	if label == "" || len(label) > 64 || !plain(label) {
		return nil, invalid("Class(%q): want a label of 1 to 64 plain ASCII bytes without /, %%, { or }", label)
	}
	return g.root.derive(label, ps)
}

// With returns a class with the same label, and so the same names, and c's
// policy changed by ps.
func (c *Class) With(ps ...Policy) (*Class, error) { return c.derive(c.label, ps) }

func (c *Class) derive(label string, ps []Policy) (*Class, error) {
	p, err := c.policy.with(ps)
	if err != nil {
		return nil, err
	}
	return &Class{guard: c.guard, label: label, policy: p}, nil
}

// Name makes a name of the class's label and parts, as [Guard.Name] does.
func (c *Class) Name(parts ...string) Name { return c.newName(c.label, parts) }

// Label returns the label the class was made with.
func (c *Class) Label() string { return c.label }

// Close refuses new work with [ErrClosed], ends the wait of all who wait with
// it, lets held work end, and waits for that and for releases in the
// background. A call whose first question the store has not answered yet ends
// with the answer, or when the store gives up.
//
// It returns nil once nothing is left. When ctx ends earlier it returns an error
// that matches ctx's cause and has a line for each name still held; those leases
// are renewed until their work ends. Close may be called again.
func (g *Guard) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.idle == nil {
		g.idle = make(chan struct{})
		g.end()
		if g.busy == 0 {
			close(g.idle)
		}
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return g.leftovers(ctx)
	}
}

// untilClosed is ctx, ended also when the Guard is closed; what it returns ends
// both.
func (g *Guard) untilClosed(ctx context.Context, end context.CancelFunc) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		end()
	}
}

func (g *Guard) leftovers(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var held []string
	for _, d := range g.agenda.dates {
		held = append(held, fmt.Sprintf("\n\t%s held with token %d since %v", d.h.name, d.h.token(), now().sub(d.h.granted).Round(time.Millisecond)))
	}
	sort.Strings(held)
	return fmt.Errorf("guard: close: %w: %d names still held%s", context.Cause(ctx), len(held), strings.Join(held, ""))
}

// enter counts a call or work in the background; it fails after Close.
func (g *Guard) enterLocked() error {
	if g.idle != nil {
		return ErrClosed
	}
	g.busy++
	return nil
}

func (g *Guard) leaveLocked() {
	g.busy--
	if g.busy == 0 && g.idle != nil {
		close(g.idle)
	}
}

// backgroundLocked runs f while Close waits for it. Only a counted caller may
// start it, so busy is not 0 here.
func (g *Guard) backgroundLocked(f func()) {
	g.busy++
	go func() {
		defer func() {
			g.mu.Lock()
			g.leaveLocked()
			g.mu.Unlock()
		}()
		f()
	}()
}
