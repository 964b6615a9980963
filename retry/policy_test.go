package retry_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/retry"
)

const (
	ms      = time.Millisecond
	forever = time.Duration(math.MaxInt64)
)

// pauses are the first n answers of a fresh run of p, in ms.
func pauses(p retry.Policy, n int) []int {
	run, out := p(), []int(nil)
	for range n {
		if d := run.NextBackOff(); d == retry.Stop {
			out = append(out, -1)
		} else {
			out = append(out, int(d.Milliseconds()))
		}
	}
	return out
}

// scripted answers what it is given, then Stop.
type scripted struct {
	answers []time.Duration
	at      int
}

func (s *scripted) NextBackOff() time.Duration {
	if s.at == len(s.answers) {
		return retry.Stop
	}
	s.at++
	return s.answers[s.at-1]
}

func (s *scripted) Reset() { s.at = 0 }

func script(d ...time.Duration) retry.Policy {
	return func() retry.Backoff { return &scripted{answers: d} }
}

func TestSchedules(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		want   []int
	}{
		{"constant", retry.Constant(30 * ms), []int{30, 30, 30}},
		{"constant of 0 is not a busy loop", retry.Constant(0), []int{1, 1, 1}},
		{"negative constant is no Stop", retry.Constant(retry.Stop), []int{1, 1, 1}},
		{"exponential", retry.Exponential(10*ms, 75*ms, 2), []int{10, 20, 40, 75, 75}},
		{"exponential, ceiling met exactly", retry.Exponential(10*ms, 40*ms, 2), []int{10, 20, 40, 40}},
		{"exponential, broken factor", retry.Exponential(8*ms, 20*ms, 1.5), []int{8, 12, 18, 20}},
		{"exponential from 0 grows", retry.Exponential(0, 10*ms, 2), []int{1, 2, 4, 8, 10}},
		{"exponential from below 0 grows", retry.Exponential(-5, 10*ms, 2), []int{1, 2, 4, 8, 10}},
		{"ceiling below first", retry.Exponential(10*ms, 5*ms, 2), []int{10, 10}},
		{"ceiling of 0", retry.Exponential(10*ms, 0, 2), []int{10, 10}},
		{"factor 1", retry.Exponential(10*ms, 50*ms, 1), []int{10, 10}},
		{"factor 0", retry.Exponential(10*ms, 50*ms, 0), []int{10, 10}},
		{"negative factor", retry.Exponential(10*ms, 50*ms, -2), []int{10, 10}},
		{"no number", retry.Exponential(10*ms, 50*ms, math.NaN()), []int{10, 10}},
		{"huge factor", retry.Exponential(10*ms, 50*ms, math.MaxFloat64), []int{10, 50, 50}},
		{"infinite factor", retry.Exponential(10*ms, 50*ms, math.Inf(1)), []int{10, 50, 50}},
		{"longest first", retry.Exponential(forever, forever, 2), []int{1 << 53 / 1000000, 1 << 53 / 1000000}},
		{"cap", retry.Exponential(10*ms, time.Hour, 10).Cap(250 * ms), []int{10, 100, 250, 250}},
		{"cap of 0 is not a busy loop", retry.Constant(10 * ms).Cap(0), []int{1, 1}},
		{"negative cap is no Stop", retry.Constant(10 * ms).Cap(retry.Stop), []int{1, 1}},
		{"attempts", retry.Constant(10 * ms).Attempts(3), []int{10, 10, -1, -1}},
		{"one attempt", retry.Constant(10 * ms).Attempts(1), []int{-1, -1}},
		{"no attempts counts as one", retry.Constant(10 * ms).Attempts(0), []int{-1, -1}},
		{"fewest attempts", retry.Constant(10 * ms).Attempts(math.MinInt), []int{-1, -1}},
		{"most attempts", retry.Constant(10 * ms).Attempts(math.MaxInt), []int{10, 10}},
		{"the smaller of two limits", retry.Constant(10 * ms).Attempts(3).Attempts(2), []int{10, -1}},
		{"any negative answer is Stop", script(10*ms, -7).Cap(time.Hour), []int{10, -1}},
		{"nil", retry.Policy(nil).FullJitter(), []int{-1, -1}},
		{"nil run", retry.Policy(func() retry.Backoff { return nil }).Cap(time.Hour), []int{-1, -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, pauses(tc.policy, len(tc.want)))
		})
	}
}

func TestFromTakesAnyBackoffOfVersionFour(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    func() backoff.BackOff
		want []int
	}{
		{"constant", func() backoff.BackOff { return backoff.NewConstantBackOff(20 * ms) }, []int{20, 20}},
		{"zero is not a busy loop", func() backoff.BackOff { return &backoff.ZeroBackOff{} }, []int{1, 1}},
		{"stop", func() backoff.BackOff { return &backoff.StopBackOff{} }, []int{-1, -1}},
		{"its own limit holds", func() backoff.BackOff {
			return backoff.WithMaxRetries(backoff.NewConstantBackOff(20*ms), 1)
		}, []int{20, -1}},
		{"a literal that was never reset", func() backoff.BackOff {
			return &backoff.ExponentialBackOff{InitialInterval: 10 * ms, Multiplier: 2, MaxInterval: time.Second, Stop: -1, Clock: backoff.SystemClock}
		}, []int{10, 20}},
		{"nil", func() backoff.BackOff { return nil }, []int{-1, -1}},
		{"no func", nil, []int{-1, -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, pauses(retry.From(tc.f), len(tc.want)))
		})
	}
}

// What From got is used up, like a value that was kept from an earlier call.
func TestFromResetsWhatItGets(t *testing.T) {
	kept := backoff.WithMaxRetries(backoff.NewConstantBackOff(20*ms), 1)
	policy := retry.From(func() backoff.BackOff { return kept })
	assert.Equal(t, []int{20, -1}, pauses(policy, 2))
	assert.Equal(t, []int{20, -1}, pauses(policy, 2))
}

func TestMethodsLeaveThePolicyAsItWas(t *testing.T) {
	base := retry.Constant(10 * ms)
	for _, changed := range []retry.Policy{base.Attempts(1), base.Cap(ms), base.FullJitter(), base.Elapsed(0)} {
		changed().NextBackOff()
	}
	assert.Equal(t, []int{10, 10}, pauses(base, 2))
}

func TestResetBeginsTheRunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := retry.Exponential(10*ms, time.Second, 2).Attempts(3).Cap(15 * ms).Elapsed(30 * ms)()
		for range 2 {
			assert.Equal(t, 10*ms, run.NextBackOff())
			assert.Equal(t, 15*ms, run.NextBackOff())
			assert.Equal(t, retry.Stop, run.NextBackOff())
			time.Sleep(time.Hour)
			run.Reset()
		}
		grown := retry.Decorrelated(10*ms, time.Hour)()
		for range 50 {
			grown.NextBackOff()
		}
		grown.Reset()
		assert.LessOrEqual(t, grown.NextBackOff(), 30*ms)
	})
}

func TestElapsedAllowsNoPauseThatWouldEndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := retry.Constant(40 * ms).Elapsed(100 * ms)()
		time.Sleep(60 * ms)
		require.Equal(t, 40*ms, run.NextBackOff(), "ends exactly at the limit")
		time.Sleep(time.Nanosecond)
		require.Equal(t, retry.Stop, run.NextBackOff())

		for _, none := range []time.Duration{0, -1, math.MinInt64} {
			run := retry.Constant(0).Elapsed(none)()
			require.Equal(t, retry.Stop, run.NextBackOff())
			time.Sleep(time.Hour)
			require.Equal(t, retry.Stop, run.NextBackOff())
		}
		require.Equal(t, forever, script(forever).Elapsed(forever)().NextBackOff())
		require.Equal(t, retry.Stop, script(-7).Elapsed(time.Hour)().NextBackOff())
	})
}

// Every draw is within the range, and the draws fill it: both outer tenths are
// hit. Missing one in 2,000 draws has a chance below 1e-90.
func TestJitterFillsItsRange(t *testing.T) {
	for _, tc := range []struct {
		name      string
		policy    retry.Policy
		low, high time.Duration
	}{
		{"full", retry.Constant(101 * ms).FullJitter(), ms, 101 * ms},
		{"equal", retry.Constant(100 * ms).EqualJitter(), 50 * ms, 100 * ms},
		{"decorrelated, first", retry.Decorrelated(10*ms, time.Hour), 10 * ms, 30 * ms},
		{"decorrelated, ceiling near", retry.Decorrelated(10*ms, 15*ms), 10 * ms, 15 * ms},
		{"full, then cap", retry.Constant(time.Hour).FullJitter().Cap(50 * ms), 0, 50 * ms},
		{"cap, then full", retry.Constant(time.Hour).Cap(51 * ms).FullJitter(), ms, 51 * ms},
		{"full of the longest", script(forever).FullJitter(), ms, forever},
		{"equal of the longest", script(forever).EqualJitter(), forever / 2, forever},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lowest, highest := forever, time.Duration(0)
			for range 2000 {
				d := tc.policy().NextBackOff()
				lowest, highest = min(lowest, d), max(highest, d)
			}
			tenth := (tc.high - tc.low) / 10
			assert.GreaterOrEqual(t, lowest, tc.low)
			assert.LessOrEqual(t, highest, tc.high)
			assert.Greater(t, highest, tc.high-tenth)
			if tc.low > 0 {
				assert.Less(t, lowest, tc.low+tenth)
			}
		})
	}
}

func TestJitterOfTheShortestPauseStaysThere(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.Constant(ms).FullJitter(), script(0).FullJitter(), script(1).EqualJitter(),
		retry.Constant(ms).EqualJitter().Cap(ms), retry.Decorrelated(0, 0), retry.Decorrelated(-5, -9),
	} {
		assert.GreaterOrEqual(t, p().NextBackOff(), ms)
		assert.Equal(t, []int{1}, pauses(p, 1))
	}
}

func TestDecorrelatedGrowsAtMostThreefoldUpToItsCeiling(t *testing.T) {
	longest := time.Duration(0)
	for range 100 {
		run, last := retry.Decorrelated(10*ms, time.Second)(), 10*ms
		for range 100 {
			d := run.NextBackOff()
			require.GreaterOrEqual(t, d, 10*ms)
			require.LessOrEqual(t, d, min(3*last, time.Second))
			last = d
			longest = max(longest, d)
		}
	}
	assert.Greater(t, longest, 900*ms)
	run := retry.Decorrelated(forever/2, forever)()
	for range 100 {
		require.GreaterOrEqual(t, run.NextBackOff(), forever/2)
	}
}

// 50 waiters that met the same holder at the same time. By chance more than 15
// of 50 fall into one of 25 slots less often than once in 1e8 rounds.
func TestWaitersDoNotAskInStep(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"default": retry.Default, "decorrelated": retry.Decorrelated(10*ms, 250*ms),
	} {
		slots := map[int64]int{} // of 10 ms each
		for range 50 {
			run := p()
			for range 8 {
				run.NextBackOff()
			}
			slots[run.NextBackOff().Milliseconds()/10]++
		}
		for slot, n := range slots {
			assert.LessOrEqual(t, n, 15, "%s: slot %d", name, slot)
		}
	}
}

func TestDefaultDoublesTheRangeUpToItsCeiling(t *testing.T) {
	highest := make([]time.Duration, 8)
	for range 1000 {
		run := retry.Default()
		for n := range highest {
			d := run.NextBackOff()
			require.GreaterOrEqual(t, d, ms)
			highest[n] = max(highest[n], d)
		}
	}
	for n, top := range []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 250 * ms, 250 * ms, 250 * ms} {
		assert.LessOrEqual(t, highest[n], top)
		assert.Greater(t, highest[n], top*8/10)
	}
}

func TestOnePolicyServesManyGoroutines(t *testing.T) {
	policies := []retry.Policy{
		retry.Default,
		retry.Exponential(ms, time.Second, 2).EqualJitter().Cap(time.Hour).Attempts(20).Elapsed(time.Hour),
		retry.Decorrelated(ms, time.Second).Attempts(20),
		retry.From(func() backoff.BackOff { return backoff.NewExponentialBackOff() }),
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for _, p := range policies {
				run := p()
				for range 19 {
					assert.Positive(t, run.NextBackOff())
				}
			}
		})
	}
	wg.Wait()
}

// Whatever the arguments: a pause is Stop or at least 1 ms, the cap holds, and
// without jitter pauses never shrink.
func FuzzPausesStayInRange(f *testing.F) {
	for _, edge := range []int64{math.MinInt64, -1, 1 << 61, 0, 1, int64(ms), math.MaxInt64/3 + 1, math.MaxInt64} {
		f.Add(edge, edge, 2.0, edge)
		f.Add(int64(ms), edge, math.MaxFloat64, int64(time.Second))
		f.Add(edge, edge+100, 0.5, int64(ms))
		f.Add(edge, int64(math.MaxInt64), math.Nextafter(1, 2), int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, first, ceiling int64, factor float64, limit int64) {
		a, b, c := time.Duration(first), time.Duration(ceiling), time.Duration(limit)
		var plain []time.Duration
		run := retry.Exponential(a, b, factor)()
		for range 200 {
			plain = append(plain, run.NextBackOff())
		}
		require.True(t, slices.IsSorted(plain), "%v", plain)
		require.GreaterOrEqual(t, plain[0], ms)
		require.LessOrEqual(t, plain[199], max(ms, a, b))

		for _, p := range []retry.Policy{
			retry.Exponential(a, b, factor), retry.Constant(a), retry.Decorrelated(a, b), script(a, b),
		} {
			for _, p := range []retry.Policy{p.FullJitter(), p.EqualJitter(), p.FullJitter().EqualJitter(), p.Attempts(int(first)), p.Elapsed(b)} {
				run := p.Cap(c)()
				for range 20 {
					if d := run.NextBackOff(); d != retry.Stop {
						require.GreaterOrEqual(t, d, ms)
						require.LessOrEqual(t, d, max(c, ms))
					}
				}
			}
		}
	})
}
