package grpcguard

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Guard holds the rules of one server. All methods may be called concurrently.
type Guard struct {
	rules         map[string]*rule
	unary, stream bool        // there are rules known to be for such methods
	unaryOn       atomic.Bool // UnaryServer was called
	streamOn      atomic.Bool // StreamServer was called
	reported      sync.Once
}

// New returns a Guard with one rule for each method that takes a lock. An error
// matches guard.ErrInvalid and names every rule that is bad: without a class, a
// name function, paths or keys; a full method that is not of the form
// "/package.Service/Method", or is listed twice; MaxWait out of range. No rules
// at all are an error too.
//
// If the code generated for a method's service is part of the program, New also
// refuses a method that the service does not have, a path that the request does
// not have or that cannot be a key, and a request type that is not the method's.
func New(rules ...Rule) (*Guard, error) {
	if len(rules) == 0 {
		return nil, invalid("New: no rules")
	}
	g := &Guard{rules: make(map[string]*rule, len(rules))}
	var bad []error
	for _, one := range rules {
		r := one.r
		r.reported = new(sync.Once)
		err := r.resolve()
		if _, twice := g.rules[r.method]; twice && err == nil {
			err = invalid("%s is listed twice", r.method)
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		g.rules[r.method] = &r
		if r.desc != nil && r.streams() {
			g.stream = true
		} else if r.desc != nil {
			g.unary = true
		}
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return g, nil
}

// ServerOptions returns both interceptors as options for grpc.NewServer. They
// run inside the interceptors of options that come before.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(g.UnaryServer()),
		grpc.ChainStreamInterceptor(g.StreamServer()),
	}
}

// UnaryServer returns the interceptor for unary methods. No interceptor for
// unary methods ever sees a stream: a server that lists one needs StreamServer
// too. If New found that it does and StreamServer was never called, every unary
// call is answered with INTERNAL, listed or not, so that such a server does not
// get through its first health check. See [Guard.Check] for the rest.
func (g *Guard) UnaryServer() grpc.UnaryServerInterceptor {
	g.unaryOn.Store(true)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if g.stream && !g.streamOn.Load() {
			return nil, g.half(ctx, invalid("a stream is listed and StreamServer is not installed"))
		}
		r := g.rules[info.FullMethod]
		if r == nil {
			return handler(ctx, req)
		}
		var resp any
		c := call{r, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }} // fails only where there is no client
		err := c.run(ctx, req, func(ctx context.Context) (err error) {
			resp, err = handler(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
}

// StreamServer returns the interceptor for streaming methods. If unary methods
// are listed and UnaryServer was never called it answers every stream with
// INTERNAL, as [Guard.UnaryServer] does.
func (g *Guard) StreamServer() grpc.StreamServerInterceptor {
	g.streamOn.Store(true)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := ss.Context()
		if g.unary && !g.unaryOn.Load() {
			return g.half(ctx, invalid("a unary method is listed and UnaryServer is not installed"))
		}
		r := g.rules[info.FullMethod]
		if r == nil {
			return handler(srv, ss)
		}
		c := call{r, ss.SetTrailer}
		first, err := c.first(ss)
		if err != nil {
			return err
		}
		return c.run(ctx, first, func(ctx context.Context) error {
			return handler(srv, &stream{ServerStream: ss, ctx: ctx, first: first})
		})
	}
}

// Check compares the rules with the methods that s serves. Call it once all
// services are registered, before Serve. The error matches guard.ErrInvalid and
// names every listed method that s does not have, whose calls would run without
// a lock under the name they really have, and every one whose interceptor was
// never asked for. s is a *grpc.Server, or a wrapper of one.
func (g *Guard) Check(s interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}) error {
	services := s.GetServiceInfo()
	var bad []error
	for method := range g.rules {
		service, name, _ := strings.Cut(method[1:], "/")
		methods := services[service].Methods
		i := slices.IndexFunc(methods, func(m grpc.MethodInfo) bool { return m.Name == name })
		switch {
		case i < 0:
			bad = append(bad, invalid("%s is listed and not served", method))
		case methods[i].IsClientStream || methods[i].IsServerStream:
			if !g.streamOn.Load() {
				bad = append(bad, invalid("%s is a stream and StreamServer is not installed", method))
			}
		case !g.unaryOn.Load():
			bad = append(bad, invalid("%s is unary and UnaryServer is not installed", method))
		}
	}
	slices.SortFunc(bad, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(bad...)
}

// half is the answer of a Guard of which only one interceptor is installed. The
// log says why, once.
func (g *Guard) half(ctx context.Context, err error) error {
	g.reported.Do(func() {
		slog.ErrorContext(ctx, "grpcguard: all calls are refused", "error", err)
	})
	return misconfigured.fail(err, 0)
}
