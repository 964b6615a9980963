package redisstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
)

// serverError is a [guard.ErrUnavailable] with what go-redis or the server said.
type serverError struct {
	name      string
	err       error
	permanent bool
}

func (e *serverError) Error() string {
	return fmt.Sprintf("guard: lock service unavailable for %q: %v", e.name, e.err)
}

func (e *serverError) Is(target error) bool { return target == guard.ErrUnavailable }
func (e *serverError) Unwrap() error        { return e.err }
func (e *serverError) ErrorType() string    { return "unavailable" }

// Permanent tells package guard that asking again is of no use.
func (e *serverError) Permanent() bool { return e.permanent }

// permanentCodes are answers that stay the same until somebody acts: rights,
// passwords, another type of key, no memory. Inside a script Redis 6 and 7 word
// them differently, so they are looked for anywhere in the text.
var permanentCodes = []string{
	"NOPERM", "NOAUTH", "WRONGPASS", "WRONGTYPE", "OOM ", "NOPROTO",
	"can't run this command", "can't access at least one of the keys", "No permissions to access",
	"syntax error", "Error compiling script", "CROSSSLOT",
}

func explain(name string, err error) error {
	text := err.Error()
	if isServerError(err) {
		if strings.Contains(text, "nknown command") || strings.Contains(text, "nknown Redis command") || strings.Contains(text, "isn't supported") {
			return fmt.Errorf("%w: %w", guard.ErrUnsupported, err)
		}
		for _, code := range permanentCodes {
			if strings.Contains(text, code) {
				return &serverError{name, err, true}
			}
		}
	}
	return &serverError{name, err, false}
}

// isServerError tells whether the server answered, so that the outcome is known.
func isServerError(err error) bool {
	var re redis.Error
	return errors.As(err, &re) && !errors.Is(err, redis.Nil)
}

// isNoScript tells whether the script has to be sent with its source.
func isNoScript(err error) bool {
	if !isServerError(err) {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "NOSCRIPT") ||
		(strings.Contains(text, "nknown command") && strings.Contains(strings.ToLower(text), "evalsha"))
}

// neverSent tells whether no byte of the request can have reached the server.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) ||
		(errors.As(err, &op) && op.Op == "dial")
}

// isBrokenConnection tells whether a new connection may do better at once.
func isBrokenConnection(err error) bool {
	if isServerError(err) || neverSent(err) {
		return false
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &ne)
}
