package grpcguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// silent is a stream without a network.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }
func (silent) SetTrailer(metadata.MD)     {}
func (silent) RecvMsg(any) error          { return nil }

// BenchmarkRecvMsg is what a message of a stream costs more under a lock.
func BenchmarkRecvMsg(b *testing.B) {
	locks, err := guard.New(memstore.New())
	require.NoError(b, err)
	c, err := locks.Class("order")
	require.NoError(b, err)
	g, err := grpcguard.New(grpcguard.Metadata(duplex, c, "order"))
	require.NoError(b, err)
	ctx := metadata.NewIncomingContext(b.Context(), metadata.Pairs("order", "7"))
	in := &testpb.StreamingOutputCallRequest{}
	err = g.StreamServer()(nil, silent{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: duplex}, func(_ any, ss grpc.ServerStream) error {
		b.ReportAllocs()
		for b.Loop() {
			if err := ss.RecvMsg(in); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(b, err)
}
