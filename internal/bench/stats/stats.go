// Package stats has the statistics of a measurement: quantiles, medians, and
// how fair a share was.
package stats

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// steps is how many buckets a Hist has between a time and twice that time.
const steps = 32

// Hist is a histogram of durations with a resolution of 3 %. The zero Hist is
// empty.
type Hist struct {
	buckets [64 * steps]uint32
	n       uint64
	most    time.Duration
}

func bucket(d time.Duration) int {
	if d < steps {
		return int(max(d, 0))
	}
	shift := bits.Len64(uint64(d)) - 6
	return (shift+1)*steps + int(d>>shift)&(steps-1)
}

// middle is the time a bucket stands for.
func middle(i int) time.Duration {
	if i < 2*steps {
		return time.Duration(i)
	}
	shift := i/steps - 1
	return time.Duration(i%steps+steps)<<shift + time.Duration(1)<<shift/2
}

// Add counts d.
func (h *Hist) Add(d time.Duration) {
	h.buckets[bucket(d)]++
	h.n++
	h.most = max(h.most, d)
}

// Merge adds what o has counted.
func (h *Hist) Merge(o *Hist) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.n += o.n
	h.most = max(h.most, o.most)
}

// N is how many durations were counted.
func (h *Hist) N() float64 { return float64(h.n) }

// Quantile is the duration below which a share q lies, in µs; NaN if nothing was
// counted.
func (h *Hist) Quantile(q float64) float64 {
	if h.n == 0 {
		return math.NaN()
	}
	rank, below := uint64(math.Ceil(q*float64(h.n))), uint64(0)
	for i, n := range h.buckets {
		if below += uint64(n); below >= rank && n > 0 {
			return Micros(min(middle(i), h.most))
		}
	}
	return h.Max()
}

// Max is the longest duration, in µs.
func (h *Hist) Max() float64 { return Micros(h.most) }

// Micros is d in µs.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Known tells whether v is a number.
func Known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Median leaves out what is not known; it is NaN if nothing is.
func Median(values []float64) float64 {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !Known(v) })
	if len(known) == 0 {
		return math.NaN()
	}
	slices.Sort(known)
	half := len(known) / 2
	if len(known)%2 == 1 {
		return known[half]
	}
	return (known[half-1] + known[half]) / 2
}

// Jain is Jain's index of fairness: 1 if all shares are equal, 1/n if one has it
// all.
//
// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness" (1984),
// https://arxiv.org/abs/cs/9809099
func Jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, s := range shares {
		sum += s
		squares += s * s
	}
	return sum * sum / (float64(len(shares)) * squares)
}
