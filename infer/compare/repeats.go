package compare

import (
	"math"
	"slices"
)

// A Repeated is a benchmark that was run several times on two sides.
type Repeated struct {
	Old, New []float64 // results
	P        float64   // of the test that both are of one distribution
	More     bool      // more is better, as of MB/s; otherwise less is
}

// A Repeat is what Repeats says of one benchmark.
type Repeat struct {
	Effect
	Centers [2]float64 // the medians
	Clear   bool       // of all that are called so, one in twenty is by chance on the mean
	Better  bool       // of a clear one
}

// Repeats compares benchmarks. The change of each is the median of all ratios of a new and an old
// result (Hodges and Lehmann, 1963), with the interval of the test of Mann and Whitney: nothing is
// taken for normal, and four results a side is the least of which it is bounded. mean is that of
// their geometric mean, as if the benchmarks were independent; it is known of those of which all
// results are above 0, and its interval has two results a side or more.
func Repeats(all []Repeated) (each []Repeat, mean Effect) {
	var ps []float64
	var sum, v, squares float64
	var n, worst int
	for _, b := range all {
		r := Repeat{Centers: [2]float64{medianOf(b.Old), medianOf(b.New)}}
		r.Effect = repeated(&b)
		each = append(each, r)
		ps = append(ps, b.P)
		if !math.IsNaN(r.Change) {
			sum += math.Log1p(r.Change)
			own := r.se * r.se
			v += own
			squares += own * own / r.df
			n++
			if least := min(len(b.Old), len(b.New)); worst == 0 || least < worst {
				worst = least
			}
		}
	}
	for i, clear := range discoveries(ps) {
		r := &each[i]
		r.Clear = clear
		r.Better = clear && (r.Centers[1] > r.Centers[0]) == all[i].More
	}
	mean = Effect{Change: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), P: 1, Detectable: math.Inf(1)}
	if n > 0 {
		k := float64(n)
		mean.Runs, mean.k, mean.se, mean.df = worst > 1, [2]int{worst, worst}, math.Sqrt(v)/k, math.Inf(1)
		if squares > 0 {
			mean.df = v * v / squares
		}
		mean.around(sum / k)
	}
	return each, mean
}

func medianOf(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if len(s) == 0 {
		return math.NaN()
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// repeated compares the results of a benchmark.
func repeated(b *Repeated) Effect {
	e := Effect{Change: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), P: b.P, Detectable: math.Inf(1), k: [2]int{len(b.Old), len(b.New)}}
	var ratios []float64
	logs := [2][]float64{}
	for i, side := range [][]float64{b.Old, b.New} {
		for _, x := range side {
			if !(x > 0) || math.IsInf(x, 1) {
				if slices.Equal(slices.Compact(slices.Clone(b.Old)), slices.Compact(slices.Clone(b.New))) { // 0 on both sides
					e.Change, e.Low, e.High, e.Detectable, e.Runs, e.df = 0, 0, 0, 0, true, math.Inf(1)
				}
				return e
			}
			logs[i] = append(logs[i], math.Log(x))
		}
	}
	for _, x := range logs[0] {
		for _, y := range logs[1] {
			ratios = append(ratios, y-x)
		}
	}
	if len(ratios) == 0 {
		return e
	}
	slices.Sort(ratios)
	e.Change = math.Expm1(medianOf(ratios))
	// What could have been found is that of the test of Welch, which knows as much but for a few percent.
	old, new := ofLogs(logs[0]), ofLogs(logs[1])
	var v float64
	v, e.df, e.Runs = welch(old, new)
	e.Runs = len(b.Old) > 1 && len(b.New) > 1
	if e.se = math.Sqrt(v); e.Runs {
		e.Detectable = math.Expm1((studentQuantile(1-(1-confident)/2, e.df) + studentQuantile(power, e.df)) * e.se)
	}
	if k := below(len(b.Old), len(b.New)); k >= 0 {
		e.Low, e.High = math.Expm1(ratios[k]), math.Expm1(ratios[len(ratios)-1-k])
	}
	return e
}

// ofLogs is the mean of logarithms as a rate.
func ofLogs(x []float64) rate {
	r := rate{y: 1, k: len(x), df: max(1, float64(len(x)-1))}
	k := float64(len(x))
	mean := 0.0
	for _, v := range x {
		mean += v / k
	}
	for _, v := range x {
		r.v += (v - mean) * (v - mean) / k / max(1, k-1)
	}
	return r
}

// exactRepeats is how many results a side has at most for the exact distribution; beyond, the
// normal one is as good.
const exactRepeats = 50

// below is how many of the sorted differences of m and n results are below the interval of 95 %, and
// as many above it: one less than is left out in 1 of 20 by the distribution of Mann and Whitney's U;
// -1 if the interval has no bounds.
func below(m, n int) int {
	if m > exactRepeats || n > exactRepeats {
		mean, sd := float64(m*n)/2, math.Sqrt(float64(m*n*(m+n+1))/12)
		return int(math.Floor(mean - studentQuantile(1-(1-confident)/2, math.Inf(1))*sd - 0.5))
	}
	// ways[u] is how many orders of i old and j new results have u pairs of which the new one is less, as a share.
	ways := make([][][]float64, m+1)
	for i := range ways {
		ways[i] = make([][]float64, n+1)
		for j := range ways[i] {
			w := make([]float64, i*j+1)
			if i == 0 || j == 0 {
				w[0] = 1
			} else { // the largest is old, and above j new ones, or new, and above none
				a, b := float64(i)/float64(i+j), float64(j)/float64(i+j)
				for u := range w {
					if u >= j && u-j < len(ways[i-1][j]) {
						w[u] += a * ways[i-1][j][u-j]
					}
					if u < len(ways[i][j-1]) {
						w[u] += b * ways[i][j-1][u]
					}
				}
			}
			ways[i][j] = w
		}
	}
	tail, k := 0.0, -1
	for _, p := range ways[m][n] {
		if tail += p; tail > (1-confident)/2 {
			break
		}
		k++
	}
	return k
}
