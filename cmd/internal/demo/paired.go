package demo

import (
	"math"
	"slices"
)

// A comparison is what pairs of runs tell about a ratio.
type comparison struct {
	pairs     int
	median    float64 // of the ratios
	low, high float64 // between which the true median lies, with 95 % confidence or what few pairs allow
}

// compareRatios makes a comparison of the ratios of pairs, at least one. The interval
// is between two order statistics: the true median lies below the k-th smallest
// of n ratios only if fewer than k of n fair coins show heads. That holds
// whatever the noise looks like, as long as the pairs are independent.
func compareRatios(ratios []float64) comparison {
	r := slices.Sorted(slices.Values(ratios))
	n := len(r)
	k := sureOf(n)
	return comparison{n, (r[(n-1)/2] + r[n/2]) / 2, r[k], r[n-1-k]}
}

// sureOf returns the largest number of ratios that may be cut off at both ends of
// n so that the median stays inside with a probability of 95 %.
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

// saved returns a ratio of times as the share of time that is saved.
func saved(ratio float64) float64 { return 1 - ratio }
