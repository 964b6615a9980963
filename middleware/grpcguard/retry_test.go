package grpcguard_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// retrying is a client that by itself would try again after 1 ms, whatever the
// status.
func retrying() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultServiceConfig(`{"methodConfig": [{
		"name": [{"service": "grpc.testing.TestService"}],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
			"retryableStatusCodes": ["ABORTED", "UNAVAILABLE", "INTERNAL", "NOT_FOUND"]
		}
	}]}`)}
}

func TestClientTriesAgainAfterThePushback(t *testing.T) {
	for method := range descs {
		t.Run(method, func(t *testing.T) {
			w := start(t, setup{policies: []guard.Policy{guard.NoWait()}, client: retrying()})
			w.store.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
				if w.arrived.Load() == 1 {
					return guard.Lease{}, &guard.HeldError{Name: r.Name, RetryIn: 300 * time.Millisecond}
				}
				return w.store.Locker.Acquire(ctx, r)
			}
			_, err := w.call(t.Context(), t, method)
			require.NoError(t, err)
			first, second := w.next(t), w.next(t)
			assert.Equal(t, codes.Aborted, status.Code(first.err))
			require.NoError(t, second.err)
			assert.GreaterOrEqual(t, second.at.Sub(first.at), 300*time.Millisecond)
			assert.EqualValues(t, 2, w.arrived.Load())
		})
	}
}

func TestClientDoesNotTryAgainWhatMustNotBe(t *testing.T) {
	handlers := map[string]func(context.Context) error{
		"lost": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"lost and the handler chose a status": func(ctx context.Context) error {
			<-ctx.Done()
			return status.Error(codes.NotFound, "")
		},
		"own token is stale": func(ctx context.Context) error {
			return &fence.StaleError{Name: lockName, Presented: fence.From(ctx), Seen: fence.From(ctx) + 1}
		},
		"presented token is stale": func(context.Context) error {
			return &fence.StaleError{Name: lockName, Presented: 8, Seen: 9}
		},
	}
	for name, handler := range handlers {
		for _, method := range []string{unary, duplex} {
			t.Run(name+method, func(t *testing.T) {
				w := start(t, setup{policies: []guard.Policy{guard.TTL(100 * time.Millisecond)}, client: retrying()})
				w.store.renew = func(_ context.Context, l guard.Lease) (guard.Lease, error) { return guard.Lease{}, over(l) }
				w.service.unary = func(ctx context.Context, _ *testpb.SimpleRequest) error { return handler(ctx) }
				w.stream = func(ss grpc.ServerStream) error { return handler(ss.Context()) }
				trailer, err := w.call(t.Context(), t, method)
				assert.Equal(t, []string{strconv.Itoa(-1)}, trailer.Get("grpc-retry-pushback-ms"))
				assert.Contains(t, []codes.Code{codes.Internal, codes.Aborted, codes.NotFound}, status.Code(err))
				assert.EqualValues(t, 1, w.arrived.Load())
			})
		}
	}
}

// Without a pushback the client above does try again, else the test of -1 would
// prove nothing.
func TestClientTriesAgainWhatTheHandlerFailed(t *testing.T) {
	w := start(t, setup{client: retrying()})
	w.service.unary = func(context.Context, *testpb.SimpleRequest) error { return status.Error(codes.Internal, "") }
	_, err := w.call(t.Context(), t, unary)
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.EqualValues(t, 3, w.arrived.Load())
}
