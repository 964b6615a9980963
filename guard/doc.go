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
// A lease promises mutual exclusion only while clocks run at about the same rate
// and no process is paused for longer than its lease. Token order needs neither:
// a storage that refuses the lower of two tokens stays correct when a paused
// process wakes up late. Use both.
package guard
