package failover

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, c Config) {
		c.Replicas, c.TTL, c.End = max(c.Replicas, 1), max(c.TTL, 2), max(c.End, 8)
		cases = append(cases, explore.Case{
			Model: "failover", Name: name, Bounds: c.bounds(), Breaks: breaks, Run: c.run,
		})
	}
	const me, order = "ME", "ORDER"

	// As built: no grace. A blackout of 1 is a fail-over that takes time.
	add(me, "no grace", Config{Only: me})
	add(order, "no grace, fail-over within a tick", Config{Only: order})
	add("", "no grace, fail-over takes a tick", Config{Blackout: 1, Only: order})
	add(order, "no grace, fail-over takes a tick, promoted clock as far behind", Config{Blackout: 1, Skew: -1, Only: order})
	add("", "no grace, fail-over takes a tick, promoted clock ahead", Config{Blackout: 1, Skew: 1, Only: order})
	add(order, "no grace, fail-over takes a tick, counters in place of clocks", Config{Blackout: 1, Counters: true, Only: order})
	add(order, "no grace, old primary takes writes", Config{Blackout: 1, Partition: 2, Only: order})

	// With a grace.
	add(me, "grace shorter than the TTL", Config{Grace: 1})
	add("", "grace as long as the TTL", Config{Grace: 2})
	add("", "grace, promoted clock behind", Config{Grace: 2, Skew: -1})
	add("", "grace, promoted clock ahead", Config{Grace: 2, Skew: 1})
	add(order, "grace, promoted clock further behind than grace is long", Config{Grace: 2, Skew: -3})
	add(order, "grace, counters in place of clocks", Config{Grace: 2, Counters: true})
	add("", "grace, reclaim", Config{Grace: 2, Reclaim: true})
	add(me, "grace as long as the TTL, old primary takes writes", Config{TTL: 3, End: 10, Grace: 3, Partition: 2, Only: me})
	add(me, "grace longer by the partition, renewals at once", Config{TTL: 3, End: 10, Grace: 5, Partition: 2, Only: me})
	late := Config{TTL: 3, End: 10, Grace: 5, Partition: 2, Blackout: 2}
	add("", "grace longer by the partition, renewals after it", late)
	late.Reclaim = true
	add("", "grace longer by the partition, renewals after it, reclaim", late)
	behind, ahead := late, late
	behind.Skew, ahead.Skew = -1, 1
	add("", "grace longer by the partition, renewals after it, reclaim, promoted clock behind", behind)
	add("", "grace longer by the partition, renewals after it, reclaim, promoted clock ahead", ahead)
	late.LateCount = true
	add(me, "grace longer by the partition, renewals after it, reclaim, late answers count", late)

	// With WAIT.
	add("", "WAIT for the replica", Config{Wait: 1, Only: me})
	add("", "WAIT for the replica, old primary takes writes", Config{TTL: 3, End: 9, Wait: 1, Partition: 2, Only: me})
	add(me, "WAIT for the replica, promoted clock ahead", Config{Wait: 1, Skew: 1, Only: me})
	add(me, "WAIT for one of two replicas", Config{Replicas: 2, Wait: 1, Only: me})
	add("", "WAIT for both replicas", Config{Replicas: 2, Wait: 2, Only: me})
	return cases
}

func (c Config) bounds() string {
	b := fmt.Sprintf("%d attempts, %d replicas, TTL %d, time 0..%d, grace %d", maxAttempts, c.Replicas, c.TTL, c.End, c.Grace)
	if c.Partition > 0 {
		b += fmt.Sprintf(", partition %d", c.Partition)
	}
	if c.Blackout > 0 {
		b += fmt.Sprintf(", blackout %d", c.Blackout)
	}
	if c.Only != "" {
		b += ", " + c.Only + " only"
	}
	return b
}
