// Package guard runs ordinary functions under a distributed lock.
//
//	store, err := redisstore.New(rdb)
//	locks, err := guard.New(store)
//	err = guard.Do(ctx, locks.Name("nightly-report"), func(ctx context.Context) error {
//		return buildReport(ctx)
//	})
//
// The lock is a lease: it is renewed while the work runs and ends by itself when
// the process dies. The work's context ends, with a cause that matches [ErrLost],
// no later than the lease does. Every acquisition carries a fencing token that is
// higher than all before it; package fence hands it to storage.
//
// # What we promise, per deployment
//
// There are two promises. Exclusion: two never hold a name at the same time. It
// depends on time, since a lease ends by a clock. Order: what is granted later has
// the higher token. It depends on nothing but the data, so a storage that refuses
// the lower of two tokens stays correct when a paused process wakes up late, or
// passes on a lease that it does not know to be over. Use both.
//
//   - one server that keeps its data: exclusion while clocks run at about the same
//     rate; order always.
//   - one server with restart grace: exclusion the same, and a restart may lose
//     data; order after a loss too, if no mark was ahead of the clock.
//   - one server that loses data, without grace: exclusion not across the loss;
//     order after the loss, if no mark was ahead of the clock.
//   - primary and replica (Sentinel, Cluster): exclusion not across a failover
//     that loses writes; order if the old primary is dead and clocks differ by
//     less than the failover takes.
//   - [Quorum] of 3 or 5: exclusion while clocks run at about the same rate; a
//     minority may be frozen, cut off, or restarted empty; order always while
//     nodes keep their data; after a loss, if clocks differ by less than the
//     grace.
//   - a client paused beyond its lease: exclusion not until it wakes up and looks;
//     order always: this is what tokens are for.
//   - a machine that was suspended: exclusion not until it wakes up; it knows 250
//     ms later; order always.
//   - a clock that is set: exclusion a step forward ends the server's leases
//     early; on a quorum that is a node that forgot them; order while it is set
//     back by less than an hour.
//
// "About the same rate" is 1 % of the TTL, at least 2 ms: see [Until]. A mark is
// ahead of its server's clock by 60 s at most.
package guard
