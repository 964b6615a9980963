package grpcguard_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// What observers may use as labels of metrics does not depend on what clients
// send.
func TestTenThousandKeysMakeFewLabels(t *testing.T) {
	w := start(t, setup{policies: []guard.Policy{guard.NoWait()}})
	client := testpb.NewTestServiceClient(w.conn)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1250 {
				key := strconv.FormatUint(rand.Uint64(), 36) + string(rune(rand.N(0x10ffff)))
				switch rand.N(10) {
				case 0:
					key = "7"
				case 1:
					key = strings.Repeat("k", 600)
				case 2:
					key = ""
				}
				_, _ = client.UnaryCall(t.Context(), &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte(key)}})
			}
		})
	}
	wg.Wait()
	type labels struct{ class, result, errorType string }
	seen := map[labels]bool{}
	for _, o := range w.seen.ends() {
		assert.Equal(t, "order", o.Class)
		seen[labels{o.Class, o.Result, o.ErrorType}] = true
	}
	assert.LessOrEqual(t, len(seen), 3, "%v", seen)
	assert.EqualValues(t, 10_000, w.arrived.Load())
}

func TestInterceptorAroundMayAnswerOtherwise(t *testing.T) {
	w := start(t, setup{policies: []guard.Policy{guard.NoWait()}, options: func(g *grpcguard.Guard) []grpc.ServerOption {
		return append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(
			func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				resp, err := handler(ctx, req)
				if held, ok := err.(interface{ Unwrap() error }); ok && status.Code(err) == codes.Aborted {
					assert.ErrorContains(t, held.Unwrap(), "secret-rival", "the whole truth")
					err = status.Error(codes.ResourceExhausted, "busy")
				}
				return resp, err
			},
		)}, g.ServerOptions()...)
	}})
	w.store.rival(t, guard.MaxTTL)
	_, err := w.call(t.Context(), t, unary)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.EqualError(t, err, "rpc error: code = ResourceExhausted desc = busy")
}
