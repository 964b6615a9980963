package stats_test

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/stats"
)

func TestQuantilesAreWithinThreePercent(t *testing.T) {
	var a, b stats.Hist
	for us := range 10_000 {
		h := &a
		if us%2 == 1 {
			h = &b
		}
		h.Add(time.Duration(us+1) * time.Microsecond)
	}
	a.Merge(&b)
	for _, q := range []float64{0.001, 0.5, 0.99} {
		if got, want := a.Quantile(q), q*10_000; math.Abs(got-want) > 0.03*want {
			t.Errorf("Quantile(%v) = %v µs, want %v", q, got, want)
		}
	}
	if got := a.Quantile(1); got > 10_000 || got < 9_700 {
		t.Errorf("Quantile(1) = %v µs, want 10000", got)
	}
	if a.Max() != 10_000 || a.N() != 10_000 {
		t.Errorf("Max = %v, N = %v, want 10000 of both", a.Max(), a.N())
	}
	if got := new(stats.Hist).Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("Quantile of nothing = %v, want NaN", got)
	}
}

func TestMedianLeavesOutWhatIsNotKnown(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 3}, 3},
		{[]float64{4, 1, 3, 9}, 3.5},
		{[]float64{nan, 5, inf}, 5},
	} {
		if got := stats.Median(tc.values); got != tc.want {
			t.Errorf("Median(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
	if got := stats.Median([]float64{nan}); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestJainIsOneForEqualSharesAndOneNthForOneWinner(t *testing.T) {
	if got := stats.Jain([]float64{7, 7, 7, 7}); got != 1 {
		t.Errorf("Jain of equal shares = %v, want 1", got)
	}
	if got := stats.Jain([]float64{0, 0, 8, 0}); got != 0.25 {
		t.Errorf("Jain of one winner in four = %v, want 0.25", got)
	}
}
