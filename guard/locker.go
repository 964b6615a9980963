package guard

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// Locker grants, extends and ends leases on names: one attempt each, no method
// waits for another holder to leave. It is the seam between the closure side
// of this package and storage; redisstore and memstore implement it, [Quorum]
// makes one of several, and a [Layer] wraps one. Everything a layer may need
// travels as data in [Request], [Lease] and [HeldError], so a wrapper never
// hides an ability of what it wraps.
//
// All methods may be called concurrently. All return soon after ctx ends,
// whatever the network does, with an error matching ctx's cause. Package
// guardtest holds the contract as a test suite.
type Locker interface {
	// Acquire asks for r.Name. It returns a [*HeldError] while another owner
	// holds it. Asking again with the same r.Owner is idempotent: it returns
	// the lease already granted, and keeps the place in the queue. After any
	// other error the outcome may be unknown: ask again with the same owner,
	// or call Release with a Lease that carries the Request and no Token.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Renew extends l by l.TTL, counted from before the request is sent. It
	// returns [ErrLost] once l is over and never creates a lease. After any
	// other error l still stands until l.Until, and Renew may be tried again.
	// Renew raises the stored token, and the mark from which the next token is
	// counted, to l.Token if they are lower; never below. The Lease returned
	// carries the token that is stored now.
	Renew(ctx context.Context, l Lease) (Lease, error)

	// Release ends l. It returns [ErrLost] if l was over already; after any
	// other error the outcome is unknown and Release may be tried again. With
	// l.Token 0 it abandons l.Owner: it leaves the queue, undoes a grant whose
	// reply was lost, and refuses an Acquire of that owner that is still on its
	// way. An owner for which Release was called is never used again.
	Release(ctx context.Context, l Lease) error
}

// Request says which lease is wanted. It is a plain value.
type Request struct {
	Name  string        // as Name.String gives it: escaped, 1…512 bytes, no braces
	Owner string        // 128 random bits in base64url (22 characters), fresh for every acquisition
	TTL   time.Duration // how long the lease lasts without renewal, whole milliseconds

	Queue   bool          // when refused, take or keep a place in the store's queue
	Floor   fence.Token   // the token granted is at least this; refused with ErrInvalid if more than 1 h ahead of the server's time
	Propose fence.Token   // used if it is the largest candidate and at most 60 s ahead of the server's time, else ignored
	MinHold time.Duration // the name stays taken at least this long after the grant, also when released earlier
	Once    time.Duration // how long the record of a cron-once grant lives; 0: no record
	Grace   time.Duration // refuse with ErrUnavailable while the server has been up for less

	Label string // owner label that others see in HeldError.Holder; at most 128 bytes are kept
	Trace string // W3C traceparent of the holder's span, shown in HeldError.Trace
}

// Lease is proof of a grant, valid until Until. It is a plain value: copy it,
// compare it, send it over a channel. The zero Lease holds nothing.
type Lease struct {
	Request
	Token    fence.Token // first of TokensPerGrant consecutive tokens that belong to this grant
	Granted  fence.Token // server time of the grant, µs since 1970
	Since    time.Time   // Go's clock, before the request that was granted was sent
	Until    time.Time   // Go's clock; see [Until]
	HandOffs int         // how often the lease may be passed on inside this process
	Nodes    int         // servers that a quorum is made of, at most 255; 0 elsewhere
	Shared   bool        // others may hold the name too: the next one may ask at once
	Waiters  bool        // others wait at the store
	Next     bool        // for Release: this process is asking for the name again, and both may share a round trip
}

// TokensPerGrant is how many consecutive fencing tokens belong to one grant.
// The mark a store keeps is the first of the last grant; the next grant starts
// at least TokensPerGrant above it. It is a constant of the stored format.
const TokensPerGrant = 64

// Until is the local end of a lease of ttl that was asked for, or renewed, by
// a request of which the first byte was sent after sent. It lies before the
// server's own end by a margin of 1 % of ttl, at least 2 ms, which covers
// clocks that run at different rates and the server's whole milliseconds.
//
// Source: the drift term of Redlock,
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
func Until(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - max(ttl/100, 2*time.Millisecond))
}

// Layer adds behaviour to a Locker, for example faults in a test.
type Layer func(next Locker) Locker

// Stack puts layers around base. The first one listed is the outermost; a nil
// layer is skipped.
func Stack(base Locker, layers ...Layer) Locker {
	for _, layer := range slices.Backward(layers) {
		if layer != nil {
			base = layer(base)
		}
	}
	return base
}
