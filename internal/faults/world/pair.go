package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// pair adds a replica to the one server there is. It is fed through a link, so
// that it can be made to miss something.
func (w *World) pair() {
	w.Servers = append(w.Servers, redistest.Start(w.tb, w.args...))
	for _, s := range w.Servers {
		w.feeds = append(w.feeds, redistest.NewProxy(w.tb, s.Addr()))
	}
	if err := w.follow(1, w.feeds[0].Addr()); err != nil {
		w.tb.Fatal(err)
	}
}

// follow makes server i a replica of who is at addr, and returns once it is in step.
func (w *World) follow(i int, addr string) error {
	if err := w.lead(i, addr); err != nil {
		return err
	}
	return w.await(i, "INFO", "master_link_status:up")
}

func (w *World) lead(i int, addr string) error {
	host, port, _ := strings.Cut(addr, ":")
	return w.do(i, "REPLICAOF", host, port)
}

// await waits until what a server answers contains text.
func (w *World) await(i int, command, text string, args ...any) error {
	return w.awaitFor(settle, i, command, text, args...)
}

func (w *World) awaitFor(limit time.Duration, i int, command, text string, args ...any) error {
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		got := w.says(i, command, args...)
		if strings.Contains(got, text) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("world: server %d does not say %q within %v, but %.300q", i, text, limit, got)
		}
	}
}

// says is what a server answers, as text; "<nil>" if it does not.
func (w *World) says(i int, command string, args ...any) string {
	var v any
	_ = w.admin(i, func(ctx context.Context, c *redis.Client) (err error) {
		v, err = c.Do(ctx, append([]any{command}, args...)...).Result()
		return err
	})
	return fmt.Sprint(v)
}

// failOver makes the replica the primary. Nobody reaches the old one from then
// on; if the replica lags, it never hears of the last writes.
func (w *World) failOver(r *rand.Rand, lag bool) (string, error) {
	old, next := w.primary, 1-w.primary
	if lag {
		w.feeds[old].StallReplies()
		time.Sleep(between(r, w.TTL/4, w.TTL))
	}
	for _, side := range w.sides {
		side[0].Stall()
		side[0].Refuse()
		side[0].Reset()
	}
	if lag {
		w.feeds[old].Reset()
	}
	err := w.do(next, "REPLICAOF", "NO", "ONE")
	if err == nil {
		err = w.lead(old, w.feeds[next].Addr())
	}
	w.primary = next
	for _, side := range w.sides {
		side[0].Retarget(w.Servers[next].Addr())
		side[0].Pass()
	}
	w.feeds[old].Pass()
	if err == nil {
		err = w.await(old, "INFO", "master_link_status:up")
	}
	return fmt.Sprintf("to server %d", next), err
}

// sentinel ends or freezes the primary, waits for another one, and makes the old
// one its replica.
func (w *World) sentinel(kill bool) (string, error) {
	old := w.watch.Current(0)
	if old == nil {
		return "", fmt.Errorf("world: the Sentinels know no primary")
	}
	if kill {
		old.Kill()
	} else {
		old.Freeze()
	}
	next, err := w.promoted(old)
	if kill {
		old.Restart()
	} else {
		old.Thaw()
	}
	if err != nil {
		return "", err
	}
	for i, s := range w.Servers {
		if s == old {
			err = w.follow(i, next.Addr())
		}
	}
	time.Sleep(w.TTL) // the Sentinels look at it before they would promote it
	return fmt.Sprintf("from %s to %s", old.Addr(), next.Addr()), err
}

// promoted waits until all Sentinels tell of another primary than old.
func (w *World) promoted(old *redistest.Server) (*redistest.Server, error) {
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		next := w.watch.Current(0)
		if next != nil && next != old && w.watch.Current(1) == next && w.watch.Current(2) == next {
			return next, nil
		}
	}
	return nil, fmt.Errorf("world: no failover by Sentinel within %v", settle)
}
