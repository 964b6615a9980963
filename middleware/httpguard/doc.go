// Package httpguard runs HTTP handlers under a distributed lock, one route at a
// time.
//
//	orders, err := locks.Class("order")
//	lock := httpguard.New(orders, httpguard.PathValue("id"))
//	mux.Handle("POST /orders/{id}/pay", lock(pay))
//
// Requests with the same key run one after the other, over all processes that
// share the store. The handler's request context ends, with a cause matching
// guard.ErrLost, when the lease is lost, and carries the fencing token (package
// fence). Requests on other routes and with other keys are not affected.
//
// # Status codes
//
// Each code says whether the handler ran, so that a client knows what sending
// the request again would mean:
//
//	409  it did not run: the lock is held by another        Retry-After
//	503  it did not run: the lock service was not reached   Retry-After
//	400  it did not run: the request has no usable key
//	412  the fencing token that the client presented is stale
//	500  it ran and the lease was lost: the outcome is unknown
//	500  it did not run: a mistake in the program, such as a nested lock
//	499  it did not run: the request's context was cancelled, no body
//
// Bodies are application/problem+json (RFC 9457) whose "code" tells the two
// kinds of 500 apart; they never name the lock or its holder. 499 is what access
// logs use for a client that has gone away. It is there for the rare request
// whose context was cancelled although the client is still connected, for
// instance by a shutdown: an empty reply would be a 200. [Respond] replaces all
// of it.
//
// A lease that is lost after the response was started cannot be reported in it.
// The response is then aborted with [http.ErrAbortHandler], so that the client
// sees it break off instead of taking it for complete. A response of 500 and
// above is left alone, it promises nothing.
//
// # Order of middlewares
//
// From the outside in: recovery, tracing and metrics, authentication,
// [http.TimeoutHandler], the lock, the handler.
//
//   - Inside TimeoutHandler, which returns at its limit while the handler goes
//     on. A lock around it would be released with the handler still at work. A
//     TimeoutHandler between lock and handler does the same.
//   - Inside authentication: nobody unknown should be able to hold a lock.
//   - Inside recovery that lets http.ErrAbortHandler pass, as net/http does.
//   - On the route, not around the mux: path values exist only there.
//
// # Waiting
//
// A request waits for at most [MaxWait], since a client that has gone away is
// often not noticed: on HTTP/1.1, net/http sees that only once the request body
// was read to its end or has none. HTTP/2 has no such limit. The body is not
// touched while waiting, so a refused client that sent "Expect: 100-continue"
// never uploads it.
//
// The lock is held until the handler returns: also by one that hijacked the
// connection, whatever becomes of the connection. A client may see the end of a
// response of more than a few kilobytes shortly before the lock is free.
package httpguard
