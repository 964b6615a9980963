package grpcguard

import (
	"context"
	"errors"
	"io"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-go/holdfast/guard"
)

// first reads the message that names the lock, nil if the lock needs none.
func (c call) first(ss grpc.ServerStream) (any, error) {
	if c.blind {
		return nil, nil
	}
	if c.fresh == nil {
		return nil, c.refuse(ss.Context(), invalid("%s: a stream whose message type is not known; use Method or Metadata", c.method))
	}
	m := c.fresh()
	err := ss.RecvMsg(m)
	if errors.Is(err, io.EOF) {
		return nil, c.refuse(ss.Context(), lacks("the stream ended before its first message"))
	}
	return m, err
}

// stream is the handler's side of a stream under a lock.
type stream struct {
	grpc.ServerStream
	ctx   context.Context // of the work
	first any             // was read for its key and not received yet
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SendMsg(m any) error {
	if err := s.lost(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg waits on another goroutine, since nothing else can end the wait for a
// silent client when the lease is lost. In that case the goroutine stays until
// the handler has returned, which ends the stream, and m belongs to it.
func (s *stream) RecvMsg(m any) error {
	if err := s.lost(); err != nil {
		return err
	}
	if first := s.first; first != nil {
		s.first = nil
		return copyMessage(m, first)
	}
	got := make(chan received, 1)
	go receive(s.ServerStream, m, got)
	select {
	case r := <-got:
		return s.received(r)
	case <-s.ctx.Done():
	}
	if err := s.lost(); err != nil {
		return err
	}
	return s.received(<-got) // the client's end of the call: it ends the wait too
}

type received struct {
	err   error
	panic any
}

// receive passes a panic on to the handler's goroutine, where the server's
// recovery is.
func receive(ss grpc.ServerStream, m any, got chan<- received) {
	r := received{err: errors.New("grpcguard: RecvMsg called runtime.Goexit")}
	defer func() {
		r.panic = recover()
		got <- r
	}()
	r.err = ss.RecvMsg(m)
}

func (s *stream) received(r received) error {
	if r.panic != nil {
		panic(r.panic)
	}
	if err := s.lost(); err != nil {
		return err
	}
	return r.err
}

// lost is not nil once the lease is.
func (s *stream) lost() error {
	if s.ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(s.ctx); errors.Is(cause, guard.ErrLost) {
		return lost.fail(cause, 0)
	}
	return nil
}

func copyMessage(to, from any) error {
	if reflect.TypeOf(to) != reflect.TypeOf(from) {
		return misconfigured.fail(invalid("the handler receives a %T, the rule is for a %T", to, from), 0)
	}
	if pm, ok := to.(proto.Message); ok {
		proto.Reset(pm)
		proto.Merge(pm, from.(proto.Message))
		return nil
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}
