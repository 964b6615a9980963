// Package fence carries the fencing token of a lock to the storage that the
// lock protects, and says which writes that storage must refuse.
//
// A lease can end while its holder is paused and does not know it, so no lock
// service alone keeps a late write out. The storage can: every grant of a name
// has a [Token] higher than all grants of that name before it, the storage
// keeps the highest one it has seen, and refuses what comes with a lower one.
//
//	token := fence.From(ctx) // ctx is the one the lock gave to the work
//
// Raise the mark before the first read, in the same critical section or
// transaction as the write. A storage that looks at the token only when the
// write arrives still loses updates: holder 33 reads and pauses, holder 34 reads
// the same, 33 writes and is accepted since 34 has not been seen yet, and 34
// overwrites it with what follows from its older read.
//
// [Gate] does the keeping for data in this process, [Check] is the rule for
// storages of your own. The order of tokens holds per name: a mark belongs to
// one name, and tokens of different names say nothing about each other.
package fence

import (
	"errors"
	"fmt"
)

// Token is the fencing token of a grant. It rises strictly from grant to grant
// of one name and stays the same while a lease is renewed. 0 means none. Tokens
// are below 2^53, so they survive a JSON number, a Lua number and a BIGINT
// column.
type Token int64

// Grant is what a storage needs in order to accept or refuse a write. It is a
// plain value; the zero Grant stands for no lease, and, as a mark, for nothing
// seen yet.
type Grant struct {
	Name  string // the lock's name, as guard.Name.String gives it
	Token Token
	Owner string // 128 random bits that only the holder and the lock service know: not for logs
}

// String gives name and token. It leaves out the owner, so that a Grant may be
// logged with any verb but %#v.
func (g Grant) String() string { return fmt.Sprintf("%s#%d", g.Name, g.Token) }

// ErrStale reports that a storage refused a write since it knows of a later
// grant; ErrMissing that the context carries no token to present.
var (
	ErrStale   = errors.New("fence: a newer token was seen")
	ErrMissing = errors.New("fence: no lease in this context")
)

// StaleError is an [ErrStale] that says which token was refused and which one
// the storage has seen. The two are equal if the same token came from two
// owners, which a lock service that lost its counter can bring about.
type StaleError struct {
	Name            string
	Presented, Seen Token
}

// Error names the lock and what was wrong with the token.
func (e *StaleError) Error() string {
	if e.Presented == e.Seen {
		return fmt.Sprintf("fence: token %d of %q was seen from another owner", e.Presented, e.Name)
	}
	return fmt.Sprintf("fence: token %d of %q is stale: %d was seen", e.Presented, e.Name, e.Seen)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// ErrorType is the value for an error.type attribute: "fence_stale".
func (e *StaleError) ErrorType() string { return "fence_stale" }

// Check is the rule a storage applies: seen is the mark it keeps for
// presented.Name, presented asks to read or write. Check returns nil for a
// higher token, and for an equal one from the same owner, who may write as often
// as it likes; the storage then keeps presented as its mark. Otherwise it
// returns a [*StaleError], or [ErrMissing] if presented has no token, and the
// mark stays.
//
// Owners are compared as they are: a storage that leaves Owner empty on both
// sides accepts equal tokens, and with them two holders that were given the same
// token.
func Check(seen, presented Grant) error {
	switch {
	case presented.Token <= 0:
		return ErrMissing
	case presented.Token > seen.Token,
		presented.Token == seen.Token && presented.Owner == seen.Owner:
		return nil
	}
	return &StaleError{Name: presented.Name, Presented: presented.Token, Seen: seen.Token}
}
