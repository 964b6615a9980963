package otelx_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// What each thing that can happen to a call leaves behind, and nothing else.
func TestEverySituationHasItsSpansAndMetrics(t *testing.T) {
	for _, tc := range []struct {
		name    string
		policy  []guard.Policy
		do      func(t *testing.T, s *scene)
		spans   []string
		metrics []string
	}{
		{
			name: "free at the first attempt",
			do: func(t *testing.T, s *scene) {
				require.NoError(t, guard.Do(t.Context(), s.name(), sleep(500*time.Millisecond)))
			},
			spans:   []string{"lock order Unset outcome=acquired attempts=1"},
			metrics: []string{"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration n=1 sum=500ms"},
		},
		{
			name: "acquired after waiting",
			do: func(t *testing.T, s *scene) {
				time.AfterFunc(250*time.Millisecond, s.rival(t, time.Minute))
				require.NoError(t, guard.Do(t.Context(), s.name(), sleep(500*time.Millisecond)))
			},
			spans: []string{
				"wait order Unset outcome=acquired_after_wait -> " + rivalSpan,
				"lock order Unset outcome=acquired_after_wait attempts=2",
			},
			metrics: []string{"acquire.duration outcome=acquired_after_wait n=1 sum=250ms", "hold.duration n=1 sum=500ms"},
		},
		{
			name: "try while held",
			do: func(t *testing.T, s *scene) {
				s.rival(t, time.Minute)
				ran, err := guard.Try(t.Context(), s.name(), nothing)
				require.NoError(t, err)
				require.False(t, ran)
			},
			spans:   []string{"lock order Unset outcome=refused attempts=1 -> " + rivalSpan},
			metrics: []string{"acquire.duration outcome=refused n=1 sum=0s"},
		},
		{
			name: "the wait is over",
			do: func(t *testing.T, s *scene) {
				s.rival(t, time.Minute)
				require.ErrorIs(t, guard.Do(t.Context(), s.name().Wait(time.Second), nothing), guard.ErrHeld)
			},
			spans: []string{
				"wait order Error outcome=timeout error.type=timeout -> " + rivalSpan,
				"lock order Error outcome=timeout attempts=1 error.type=timeout",
			},
			metrics: []string{"acquire.duration outcome=timeout error.type=timeout n=1 sum=1s"},
		},
		{
			name: "the caller went away",
			do: func(t *testing.T, s *scene) {
				s.rival(t, time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				require.ErrorIs(t, guard.Do(ctx, s.name(), nothing), context.Canceled)
			},
			spans: []string{
				"wait order Unset outcome=canceled -> " + rivalSpan,
				"lock order Unset outcome=canceled attempts=1",
			},
			metrics: []string{"acquire.duration outcome=canceled n=1 sum=1s"},
		},
		{
			name: "the caller's deadline passed",
			do: func(t *testing.T, s *scene) {
				s.rival(t, time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, guard.Do(ctx, s.name(), nothing), context.DeadlineExceeded)
			},
			spans: []string{
				"wait order Error outcome=timeout error.type=timeout -> " + rivalSpan,
				"lock order Error outcome=timeout attempts=1 error.type=timeout",
			},
			metrics: []string{"acquire.duration outcome=timeout error.type=timeout n=1 sum=1s"},
		},
		{
			name: "the store refuses or is unreachable",
			do: func(t *testing.T, s *scene) {
				s.acquire = func(context.Context, guard.Request) (guard.Lease, error) { return guard.Lease{}, broken() }
				_, err := guard.Try(t.Context(), s.name(), nothing)
				require.ErrorIs(t, err, guard.ErrUnavailable)
			},
			spans:   []string{"lock order Error outcome=failed attempts=1 error.type=unavailable"},
			metrics: []string{"acquire.duration outcome=failed error.type=unavailable n=1 sum=0s"},
		},
		{
			name: "the reply was lost",
			do: func(t *testing.T, s *scene) {
				s.acquire = func(ctx context.Context, r guard.Request) (guard.Lease, error) {
					_, err := s.Locker.Acquire(ctx, r)
					require.NoError(t, err)
					return guard.Lease{}, broken()
				}
				_, err := guard.Try(t.Context(), s.name(), nothing)
				require.ErrorIs(t, err, guard.ErrUnavailable)
			},
			spans:   []string{"lock order Error outcome=failed attempts=1 error.type=unavailable"},
			metrics: []string{"acquire.duration outcome=failed error.type=unavailable n=1 sum=0s"},
		},
		{
			name: "the work returns an error",
			do: func(t *testing.T, s *scene) {
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), func(context.Context) error { return errWork }), errWork)
			},
			spans:   []string{"lock order Unset outcome=acquired attempts=1"},
			metrics: []string{"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration n=1 sum=0s"},
		},
		{
			name: "the work panics",
			do: func(t *testing.T, s *scene) {
				require.Panics(t, func() {
					_ = guard.Do(t.Context(), s.name(), func(context.Context) error { panic(errWork) })
				})
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=panic"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=panic n=1 sum=0s",
			},
		},
		{
			name: "a renewal fails, the next one works",
			do: func(t *testing.T, s *scene) {
				failed := false
				s.renew = func(ctx context.Context, l guard.Lease) (guard.Lease, error) {
					if !failed {
						failed = true
						return guard.Lease{}, broken()
					}
					return s.Locker.Renew(ctx, l)
				}
				require.NoError(t, guard.Do(t.Context(), s.name(), sleep(1500*time.Millisecond)))
			},
			spans: []string{"lock order Unset outcome=acquired attempts=1"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration n=1 sum=1.5s",
				"renewals +1", "renewals error.type=unavailable +1",
			},
		},
		{
			name: "a renewal finds the lease lost",
			do: func(t *testing.T, s *scene) {
				s.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, guard.ErrLost }
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), func(ctx context.Context) error {
					assert.Equal(t, []string{"lease.count +1"}, s.counts(t, "lease.count"))
					err := untilDone(ctx)
					synctest.Wait()
					assert.Empty(t, s.counts(t, "lease.count"), "a lease that is lost is not held")
					return err
				}), guard.ErrLost)
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=lost"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=lost n=1",
				"renewals error.type=lost +1",
			},
		},
		{
			name: "no renewal is answered before the deadline",
			do: func(t *testing.T, s *scene) {
				s.renew = func(ctx context.Context, _ guard.Lease) (guard.Lease, error) {
					<-ctx.Done()
					return guard.Lease{}, context.Cause(ctx)
				}
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), untilDone), guard.ErrLost)
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=lost"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=lost n=1 sum=2.97s",
				"renewals error.type=lost +1",
			},
		},
		{
			name: "renewals fail until the deadline",
			do: func(t *testing.T, s *scene) {
				s.renew = func(context.Context, guard.Lease) (guard.Lease, error) { return guard.Lease{}, broken() }
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), untilDone), guard.ErrLost)
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=lost"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=lost n=1 sum=2.97s",
				"renewals error.type=lost +1", "renewals error.type=unavailable +",
			},
		},
		{
			name:   "the work takes longer than it may",
			policy: []guard.Policy{guard.MaxHold(500 * time.Millisecond)},
			do: func(t *testing.T, s *scene) {
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), untilDone), guard.ErrLost)
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=lost"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=lost n=1 sum=500ms",
			},
		},
		{
			name: "the work succeeds, the release finds the lease lost",
			do: func(t *testing.T, s *scene) {
				s.release = func(context.Context, guard.Lease) error { return guard.ErrLost }
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), nothing), guard.ErrLost)
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=lost"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=lost n=1 sum=0s",
				"renewals error.type=lost +1",
			},
		},
		{
			name:   "the release fails",
			policy: []guard.Policy{guard.ReleaseWithin(100 * time.Millisecond)},
			do: func(t *testing.T, s *scene) {
				s.release = func(context.Context, guard.Lease) error { return broken() }
				require.NoError(t, guard.Do(t.Context(), s.name(), nothing))
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=release_failed"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "hold.duration error.type=release_failed n=1",
			},
		},
		{
			name: "a storage refuses the token",
			do: func(t *testing.T, s *scene) {
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), func(ctx context.Context) error {
					var gate fence.Gate
					newer := fence.Grant{Name: "order/42", Token: fence.From(ctx) + 1, Owner: "x"}
					require.NoError(t, gate.Raise(fence.NewContext(ctx, newer, nil)))
					return gate.Raise(ctx)
				}), fence.ErrStale)
			},
			spans: []string{"lock order Error outcome=acquired attempts=1 error.type=fence_stale"},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "fence.rejections +1",
				"hold.duration error.type=fence_stale n=1 sum=0s",
			},
		},
		{
			name: "the context holds the name already",
			do: func(t *testing.T, s *scene) {
				require.NoError(t, guard.Do(t.Context(), s.name(), func(ctx context.Context) error {
					require.ErrorIs(t, guard.Do(ctx, s.name(), nothing), guard.ErrNested)
					return nil
				}))
			},
			spans: []string{
				"lock order Error outcome=failed attempts=0 error.type=nested",
				"lock order Unset outcome=acquired attempts=1",
			},
			metrics: []string{
				"acquire.duration outcome=acquired n=1 sum=0s", "acquire.duration outcome=failed error.type=nested n=1 sum=0s",
				"hold.duration n=1 sum=0s",
			},
		},
		{
			name: "a name that is none",
			do: func(t *testing.T, s *scene) {
				require.ErrorIs(t, guard.Do(t.Context(), s.orders.Name(""), nothing), guard.ErrInvalid)
			},
			spans:   []string{"lock order Error outcome=failed attempts=0 error.type=invalid"},
			metrics: []string{"acquire.duration outcome=failed error.type=invalid n=1 sum=0s"},
		},
		{
			name: "the guard is closed while a call waits",
			do: func(t *testing.T, s *scene) {
				s.rival(t, time.Minute)
				time.AfterFunc(time.Second, func() { _ = s.guard.Close(context.WithoutCancel(t.Context())) })
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), nothing), guard.ErrClosed)
			},
			spans: []string{
				"wait order Error outcome=failed error.type=closed -> " + rivalSpan,
				"lock order Error outcome=failed attempts=1 error.type=closed",
			},
			metrics: []string{"acquire.duration outcome=failed error.type=closed n=1 sum=1s"},
		},
		{
			name:   "too many wait here",
			policy: []guard.Policy{guard.MaxWaiters(1)},
			do: func(t *testing.T, s *scene) {
				leave := s.rival(t, time.Minute)
				done := make(chan error)
				go func() { done <- guard.Do(t.Context(), s.name(), nothing) }()
				synctest.Wait()
				require.ErrorIs(t, guard.Do(t.Context(), s.name(), nothing), guard.ErrHeld)
				leave()
				require.NoError(t, <-done)
			},
			spans: []string{
				"lock order Unset outcome=refused attempts=0 -> " + rivalSpan,
				"wait order Unset outcome=acquired_after_wait -> " + rivalSpan,
				"lock order Unset outcome=acquired_after_wait attempts=2",
			},
			metrics: []string{
				"acquire.duration outcome=acquired_after_wait n=1 sum=0s", "acquire.duration outcome=refused n=1 sum=0s",
				"hold.duration n=1 sum=0s",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, newTelemetry(), tc.policy...)
				tc.do(t, s)
				assert.Equal(t, tc.spans, s.traces())
				got := s.metrics(t)
				require.Len(t, got, len(tc.metrics), "%q", got)
				for i, want := range tc.metrics {
					assert.Contains(t, got[i], want)
				}
				require.NoError(t, s.guard.Close(context.WithoutCancel(t.Context())))
			})
		})
	}
}

func sleep(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}
