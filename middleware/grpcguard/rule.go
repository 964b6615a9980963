package grpcguard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-go/holdfast/guard"
)

// Rule says which lock the calls of one method take. It is a plain value; [New]
// reports what is wrong with it.
type Rule struct{ r rule }

// MaxWait returns a copy of r whose calls wait at most d for the lock: 0 or
// more, 5 s without it. 0 means not to wait. It never makes a call wait longer
// than the class says.
func (r Rule) MaxWait(d time.Duration) Rule {
	r.r.maxWait = d
	return r
}

// Method is a rule for a method whose lock is named by a function of its request,
// a Req such as *shop.PayRequest. An error of name that has a status is the
// answer; any other error becomes INVALID_ARGUMENT, and so does a name that is
// empty or too long. The client does not see the text of such an error. name is called on the call's goroutine, before
// the wait, with the request's context, and must not keep or change the request.
func Method[Req any](fullMethod string, name func(ctx context.Context, req Req) (guard.Name, error)) Rule {
	r := newRule(fullMethod)
	r.req = reflect.TypeFor[Req]()
	if name == nil {
		r.err = invalid("%s: the name function is nil", fullMethod)
	}
	r.name = func(ctx context.Context, req any) (guard.Name, error) {
		typed, ok := req.(Req)
		if !ok {
			return guard.Name{}, invalid("%s: the request is a %T, the rule is for a %v", fullMethod, req, r.req)
		}
		n, err := name(ctx, typed)
		if _, chosen := status.FromError(err); !chosen {
			err = &keyError{noKey, err}
		}
		return n, err
	}
	return Rule{r}
}

// Metadata is a rule for a method whose lock is c.Name of the values of the
// call's metadata under keys, in order. A key is missing if it has no value, an
// empty one, or several: it is not for this package to choose which one counts.
func Metadata(fullMethod string, c *guard.Class, keys ...string) Rule {
	r := newRule(fullMethod)
	r.blind = true
	lower := make([]string, len(keys))
	for i, key := range keys {
		lower[i] = strings.ToLower(key)
		if strings.Trim(lower[i], "0123456789abcdefghijklmnopqrstuvwxyz-_.") != "" || key == "" {
			r.err = invalid("%s: %q is no metadata key", fullMethod, key)
		}
	}
	r.needs(c, len(keys), "metadata keys")
	r.name = func(ctx context.Context, _ any) (guard.Name, error) {
		parts := make([]string, len(lower))
		for i, key := range lower {
			values := metadata.ValueFromIncomingContext(ctx, key)
			switch {
			case len(values) > 1:
				return guard.Name{}, lacks("the metadata key %q has %d values", key, len(values))
			case len(values) == 0 || values[0] == "":
				return guard.Name{}, lacks("the metadata key %q is missing or empty", key)
			}
			parts[i] = values[0]
		}
		return c.Name(parts...), nil
	}
	return Rule{r}
}

// rule is a Rule that New has looked at.
type rule struct {
	method  string
	name    func(ctx context.Context, req any) (guard.Name, error)
	maxWait time.Duration
	err     error

	req   reflect.Type // what name wants; nil for any message
	blind bool         // name needs no message
	paths []path

	desc     protoreflect.MethodDescriptor // nil if the program does not know the service
	fresh    func() any                    // an empty request; nil if its type is not known
	reported *sync.Once
}

func newRule(fullMethod string) rule { return rule{method: fullMethod, maxWait: 5 * time.Second} }

// needs notes what a rule that names its lock by a class cannot do without.
func (r *rule) needs(c *guard.Class, n int, what string) {
	switch {
	case c == nil || c.Label() == "": // every class but the zero one has a label
		r.err = invalid("%s: the class is nil", r.method)
	case n == 0:
		r.err = invalid("%s: no %s", r.method, what)
	}
}

func (r *rule) streams() bool { return r.desc.IsStreamingClient() || r.desc.IsStreamingServer() }

// resolve checks the rule and looks its method up among those of the program.
func (r *rule) resolve() error {
	if r.name == nil {
		return invalid("the zero Rule")
	}
	service, method, ok := strings.Cut(strings.TrimPrefix(r.method, "/"), "/")
	switch {
	case !ok || r.method[0] != '/' || service == "" || method == "" || strings.Contains(method, "/"):
		return invalid("full method %q: want /package.Service/Method", r.method)
	case r.err != nil:
		return r.err
	case r.maxWait < 0:
		return invalid("%s: MaxWait(%v): want 0 or more", r.method, r.maxWait)
	}
	if r.req != nil && r.req.Kind() == reflect.Pointer {
		r.fresh = func() any { return reflect.New(r.req.Elem()).Interface() }
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil //nolint:nilerr // a service the program has no generated code for
	}
	if sd, ok := found.(protoreflect.ServiceDescriptor); ok {
		r.desc = sd.Methods().ByName(protoreflect.Name(method))
	}
	if r.desc == nil {
		return invalid("%s: %s has no such method", r.method, service)
	}
	return r.resolveRequest()
}

func (r *rule) resolveRequest() error {
	input := r.desc.Input()
	for _, p := range r.paths {
		if err := p.check(input); err != nil {
			return fmt.Errorf("%w of %s", err, r.method)
		}
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName())
	if err != nil || r.blind {
		return nil //nolint:nilerr // as above
	}
	request := reflect.TypeOf(mt.Zero().Interface())
	switch {
	case r.req == nil, r.req.Kind() == reflect.Interface && request.Implements(r.req):
		r.fresh = func() any { return mt.New().Interface() }
	case r.req != request && (r.req.Kind() == reflect.Interface || r.req.Implements(reflect.TypeFor[proto.Message]())):
		return invalid("%s: the request is a %v, the rule is for a %v", r.method, request, r.req)
	}
	return nil
}

// invalidError is a guard.ErrInvalid that says what is wrong with a rule, or with
// the server under it.
type invalidError struct{ what string }

func invalid(format string, args ...any) error { return &invalidError{fmt.Sprintf(format, args...)} }

func (e *invalidError) Error() string        { return "grpcguard: " + e.what }
func (e *invalidError) Is(target error) bool { return target == guard.ErrInvalid }

// keyError is what is wrong with the key of a call.
type keyError struct {
	text string // for the client
	err  error
}

func lacks(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &keyError{text, errors.New("grpcguard: " + text)}
}

func (e *keyError) Error() string { return e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }
