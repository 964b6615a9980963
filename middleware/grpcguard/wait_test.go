package grpcguard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

// held is the name of the lock under which ctx runs.
func held(ctx context.Context) string {
	g, err := fence.Require(ctx)
	if err != nil {
		return ""
	}
	return g.Name
}

func TestWaitEndsAtTheSmallestOfItsLimits(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   []guard.Policy
		maxWait  time.Duration // -1: not set
		deadline time.Duration // 0: none
		want     time.Duration
	}{
		{"5 s by itself", nil, -1, 0, 5 * time.Second},
		{"rule", nil, 20 * time.Second, 0, 20 * time.Second},
		{"rule that does not wait", nil, 0, 0, 0},
		{"class", []guard.Policy{guard.Wait(2 * time.Second)}, -1, 0, 2 * time.Second},
		{"class, whatever the rule", []guard.Policy{guard.Wait(2 * time.Second)}, time.Minute, 0, 2 * time.Second},
		{"class is longer", []guard.Policy{guard.Wait(time.Minute)}, -1, 0, 5 * time.Second},
		{"class that does not wait", []guard.Policy{guard.NoWait()}, -1, 0, 0},
		{"nine tenths of the deadline", nil, -1, time.Second, 900 * time.Millisecond},
		{"nine tenths of the deadline, whatever the rule", nil, time.Minute, 10 * time.Second, 9 * time.Second},
		{"deadline is longer", nil, -1, time.Minute, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				_, err := store.Acquire(t.Context(), guard.Request{Name: lockName, Owner: "testrivaltestrivaltest", TTL: time.Hour})
				require.NoError(t, err)
				locks, err := guard.New(store)
				require.NoError(t, err)
				c, err := locks.Class("order", tc.policy...)
				require.NoError(t, err)
				rule := grpcguard.Metadata(unary, c, "order")
				if tc.maxWait >= 0 {
					rule = rule.MaxWait(tc.maxWait)
				}
				g, err := grpcguard.New(rule)
				require.NoError(t, err)
				ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("order", "7"))
				if tc.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				}
				begun := time.Now()
				_, err = g.UnaryServer()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unary}, nil)
				assert.Equal(t, tc.want, time.Since(begun))
				assert.Equal(t, codes.Aborted, status.Code(err), "%v", err)
				require.NoError(t, locks.Close(t.Context()))
			})
		})
	}
}
