// Package grpcguard runs gRPC methods under a distributed lock, on the server.
//
//	orders, err := locks.Class("order")
//	locked, err := grpcguard.New(
//		grpcguard.Field("/shop.v1.Orders/Pay", orders, "order.id"),
//		grpcguard.Metadata("/shop.v1.Orders/Import", orders, "tenant"),
//	)
//	server := grpc.NewServer(locked.ServerOptions()...)
//	shop.RegisterOrdersServer(server, impl)
//	err = locked.Check(server)
//
// Calls of the listed methods with the same key run one after the other, over
// all processes that share the store; other methods pass. The lock is held from
// before the handler starts until after it has returned, for a stream too. The
// handler's context ends, with a cause matching guard.ErrLost, when the lease is
// lost, and carries the fencing token (package fence).
//
// # Statuses
//
// The trailer grpc-retry-pushback-ms steers the retries of a client with a retry
// policy: a number is when to try again, -1 forbids it.
//
//	ABORTED            it did not run: the lock is held by another   RetryInfo, pushback: a delay
//	UNAVAILABLE        it did not run: no lock service, or closed    RetryInfo
//	INVALID_ARGUMENT   it did not run: the call has no usable key
//	CANCELLED          it did not run: the client went away
//	DEADLINE_EXCEEDED  it did not run: the deadline passed
//	INTERNAL           it did not run: a mistake in the program, such as a nested lock
//	INTERNAL           it ran and the lease was lost: the outcome is unknown    pushback: -1
//	ABORTED            it ran and met a fencing token of the client that is stale    pushback: -1
//
// All but CANCELLED and DEADLINE_EXCEEDED carry an ErrorInfo with the domain
// "github.com/holdfast-go/holdfast" and one of the reasons CONTENDED,
// UNAVAILABLE, CLOSED, INVALID, NESTED, UNSUPPORTED, LOST, FENCE_STALE and OTHER,
// so that a client can tell them from those of the handler. No message names a
// lock or its holder. The delay is what is left of the holder's lease, from
// 100 ms to 5 s, and up to a quarter more so that not all who were refused come
// back at once; it is 1 s to 2 s for UNAVAILABLE.
//
// A status that the handler chose stays as it is, also if the lease was lost:
// then pushback -1 is added. An error of the handler that has no status, or the
// status CANCELLED, is not its choice: it becomes the INTERNAL above if the lease
// was lost, since CANCELLED would say that the client did it. Without a status,
// fence.ErrMissing and guard.ErrNested become INTERNAL without, and
// fence.ErrStale INTERNAL with pushback -1, or ABORTED if the refused token is
// not the call's own. Everything else passes: guard.ErrHeld of a lock that the
// handler takes by itself is not for the client, the handler has run.
//
// To answer otherwise put an interceptor around this one. Its error matches, by
// errors.Is and errors.As, what the lock said.
//
// # Order of interceptors
//
// From the outside in: recovery, tracing and metrics, authentication, the lock,
// the handler. Nobody unknown should be able to hold a lock. An interceptor
// inside the lock runs with the handler's context.
//
// # Waiting
//
// A call waits for at most 5 s, see [Rule.MaxWait], at most as long as the class
// says, and at most nine tenths of the time to its deadline, so that some is left
// for the handler. A waiting call is one of its connection's concurrent streams.
//
// # Streams
//
// A stream whose lock is named by a message has its first message read before
// the handler starts; the handler then receives it as usual. So such a handler
// cannot speak first. [Metadata] needs no message.
//
// When the lease is lost RecvMsg returns, and SendMsg sends no more. Both return
// an error that matches guard.ErrLost and is the INTERNAL above.
package grpcguard
