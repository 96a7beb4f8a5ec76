package optimize

import (
	"math"
	"slices"
	"time"
)

// A Comparison is what pairs of runs tell about a ratio.
type Comparison struct {
	Pairs     int
	Median    float64 // of the ratios
	Low, High float64 // between which the true median lies, with 95 % confidence or what few pairs allow
}

// Compare makes a comparison of the ratios of pairs, at least one. The interval
// is between two order statistics: the true median lies below the k-th smallest
// of n ratios only if fewer than k of n fair coins show heads. That holds
// whatever the noise looks like, as long as the pairs are independent.
func Compare(ratios []float64) Comparison {
	r := slices.Sorted(slices.Values(ratios))
	n := len(r)
	k := sureOf(n)
	return Comparison{n, (r[(n-1)/2] + r[n/2]) / 2, r[k], r[n-1-k]}
}

// sureOf returns the largest number of ratios that may be cut off at both ends of
// n so that the median stays inside with a probability of 95 %. testdata/consumers/wall.sh
// does the same in awk.
func sureOf(n int) int {
	outside := 2 * math.Exp2(-float64(n)) // that fewer than 1 head or fewer than 1 tail show
	ways := outside
	k := 0
	for outside <= .05 && k < (n-1)/2 {
		ways *= float64(n-k) / float64(k+1)
		if outside+ways > .05 {
			break
		}
		outside += ways
		k++
	}
	return k
}

// Better reports whether the new program clearly takes less: the whole interval says so, of pairs enough to have one of 95 %.
func (c Comparison) Better() bool { return c.Pairs >= leastPairs && c.High < 1 }

// Times are what alternating runs of programs took.
type Times struct {
	Of     [][]time.Duration // by program, in order of the rounds
	around []float64         // the first program against itself, of runs that followed each other
}

// Alternate runs programs 0 to n-1 by turns, in rounds: in every second one in reverse, so that what drifts slowly cancels
// out. run runs one, and returns the processor time that it took.
func Alternate(n, rounds int, run func(program, round int) (time.Duration, error)) (*Times, error) {
	t := &Times{Of: make([][]time.Duration, n)}
	var last time.Duration // of the first program, where no other ran since
	for r := range rounds {
		for i := range n {
			if r%2 == 1 {
				i = n - 1 - i
			}
			d, err := run(i, r)
			if err != nil {
				return nil, err
			}
			t.Of[i] = append(t.Of[i], d)
			if i != 0 {
				continue
			}
			if r%2 == 0 && r > 0 {
				t.around = append(t.around, ratio(d, last))
			}
			last = d
		}
	}
	return t, nil
}

// Against compares a program with the first one, round by round.
func (t *Times) Against(program int) Comparison {
	var ratios []float64
	for r, d := range t.Of[program] {
		ratios = append(ratios, ratio(d, t.Of[0][r]))
	}
	return Compare(ratios)
}

// Noise compares the first program with itself; ok is false where no two of its runs followed each other.
func (t *Times) Noise() (c Comparison, ok bool) {
	if len(t.around) == 0 {
		return Comparison{}, false
	}
	return Compare(t.around), true
}

// median is the middle of what a program took.
func median(times []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(times))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }
