package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/guard"
)

// Key gives the parts of the lock's name for a request, at least one, none
// empty. Parts are escaped by guard.Class.Name, so they may come from the client:
// no value can reach a name that other values stand for. They are compared byte
// by byte.
//
// A Key returns [ErrSkip] to let a request run without a lock. An error matching
// guard.ErrInvalid is a mistake in the program (500, and logged once per route);
// any other means that the request lacks what is needed (400). A Key runs before
// the wait, for every request: it must not read the body, nor hold up the
// request.
type Key func(*http.Request) (parts []string, err error)

var (
	// ErrSkip is what a [Key] returns to let the request run without a lock.
	ErrSkip = errors.New("httpguard: no lock for this request")

	// ErrBadRequest reports that the request lacks what the lock needs: a key,
	// or a readable fencing token. The handler did not run.
	ErrBadRequest = errors.New("httpguard: bad request")
)

// PathValue takes the wildcards called names from the path, as
// [http.Request.PathValue] gives them, decoded. An empty one is refused with
// 400. A name that the route's pattern does not have, as it is when the
// middleware is mounted around the mux instead of on the route, is refused with
// 500. It panics without names.
func PathValue(names ...string) Key {
	need("PathValue", names...)
	names = slices.Clone(names)
	return func(r *http.Request) ([]string, error) {
		parts := make([]string, len(names))
		for i, name := range names {
			parts[i] = r.PathValue(name)
			if parts[i] != "" {
				continue
			}
			if !hasWildcard(r.Pattern, name) {
				return nil, fmt.Errorf("httpguard: the pattern %q has no wildcard %q; mount the lock on the route: %w", r.Pattern, name, guard.ErrInvalid)
			}
			return nil, lacks("the path value %q is empty", name)
		}
		return parts, nil
	}
}

// hasWildcard also knows the rest of the path in patterns of chi, "*".
func hasWildcard(pattern, name string) bool {
	return strings.Contains(pattern, "{"+name+"}") || strings.Contains(pattern, "{"+name+"...}") ||
		name == "*" && strings.HasSuffix(pattern, "*")
}

// Header takes the value of the header called name. A request without it, or
// with more than one value, is refused with 400: which of two is meant is not for
// the lock to guess. It panics if name is empty.
func Header(name string) Key {
	need("Header", name)
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) ([]string, error) {
		return only(r.Header[name], "header", name)
	}
}

// Query takes the value of the query parameter called name, and is otherwise
// like [Header].
func Query(name string) Key {
	need("Query", name)
	return func(r *http.Request) ([]string, error) {
		return only(r.URL.Query()[name], "query parameter", name)
	}
}

// Join takes the parts of all keys, in order. The first error is returned as it
// is, so one [ErrSkip] skips the lock. It panics without keys or if one is nil.
func Join(keys ...Key) Key {
	if len(keys) == 0 || slices.ContainsFunc(keys, func(k Key) bool { return k == nil }) {
		panic("httpguard: Join: a key is missing or nil")
	}
	keys = slices.Clone(keys)
	return func(r *http.Request) ([]string, error) {
		var parts []string
		for _, key := range keys {
			more, err := key(r)
			if err != nil {
				return nil, err
			}
			parts = append(parts, more...)
		}
		return parts, nil
	}
}

func need(fn string, names ...string) {
	if len(names) == 0 || slices.Contains(names, "") {
		panic(fmt.Sprintf("httpguard: %s: a name is missing or empty", fn))
	}
}

func only(values []string, kind, name string) ([]string, error) {
	switch {
	case len(values) > 1:
		return nil, lacks("the %s %q has %d values", kind, name, len(values))
	case len(values) == 0 || values[0] == "":
		return nil, lacks("the %s %q is missing or empty", kind, name)
	}
	return values[:1:1], nil
}

// maxName is guard's limit for a name, in bytes after escaping.
const maxName = 512

func checkName(parts []string, n guard.Name) error {
	switch s := n.String(); {
	case len(parts) == 0 || slices.Contains(parts, ""):
		return lacks("the lock key is empty")
	case s == "" || len(s) > maxName:
		return lacks("the lock key is too long")
	}
	return nil
}

// lackError is an ErrBadRequest whose text holds nothing but what this package
// and the program put there, so that the client may see it.
type lackError struct{ what string }

func lacks(format string, args ...any) error { return &lackError{fmt.Sprintf(format, args...)} }

func (e *lackError) Error() string        { return ErrBadRequest.Error() + ": " + e.what }
func (e *lackError) Is(target error) bool { return target == ErrBadRequest }
