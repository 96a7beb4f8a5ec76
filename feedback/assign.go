package feedback

import (
	"cmp"
	"math"
	"slices"
)

// outOfOrder is what it costs to assign the first block to the last code, as a logarithm of executions; otherNumber what it costs that
// the discriminator of code is 2.7 times that of the block, or the other way round. The first ones of a line are the same in notes and code; later, those of
// notes are smaller, as there is none for a branch that gcc left out before it made notes. mostCosts is how many costs of
// assignments are looked at in one function: beyond them, as where a macro puts thousands of blocks on a line, each block takes the count
// next to its own.
const outOfOrder, otherNumber, mostCosts = 0.3, 3, 1 << 18

// assign returns for each of the blocks that share a line which of its counts is its own: each count is that of a block, if there are enough,
// and each block has one of its own, if there are. Of all ways to do so, it is that by which executions n of blocks change
// least, by their logarithms; the orders of both tell where those do not. It is -1 where there are too few: what follows a condition on
// its own line, as if (x) f(x), would be said to run each time.
func assign(bs []int, n, counts []float64, small float64) []int {
	return assigned(bs, n, counts, small, func(i, k int) float64 {
		return outOfOrder * math.Abs((float64(i)+0.5)/float64(len(bs))-(float64(k)+0.5)/float64(len(counts)))
	})
}

// assigned is assign where besides it costs so much that block i has count k.
func assigned(bs []int, n, counts []float64, small float64, besides func(i, k int) float64) []int {
	cost := make([][]float64, len(bs))
	for i, b := range bs {
		cost[i] = make([]float64, len(counts))
		for k, v := range counts {
			cost[i][k] = apart(v, n[b], small) + besides(i, k)
		}
	}
	return matching(cost)
}

// assignBy is assign of counts that have discriminators: these tell more than orders do.
func (c *chart) assignBy(discs []uint32) func(bs []int, n, counts []float64, small float64) []int {
	if discs == nil {
		return assign
	}
	return func(bs []int, n, counts []float64, small float64) []int {
		return assigned(bs, n, counts, small, func(i, k int) float64 {
			return otherNumber * math.Abs(math.Log((float64(discs[k])+1)/(float64(c.discs[bs[i]])+1)))
		})
	}
}

// nearest returns for each block which of the counts is next to its executions.
func nearest(bs []int, n, counts []float64, small float64) []int {
	order := make([]int, len(counts))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(j, k int) int { return cmp.Compare(counts[j], counts[k]) })
	of := make([]int, len(bs))
	for i, b := range bs {
		at, _ := slices.BinarySearchFunc(order, n[b], func(k int, v float64) int { return cmp.Compare(counts[k], v) })
		at = min(at, len(order)-1)
		if at > 0 && apart(counts[order[at-1]], n[b], small) <= apart(counts[order[at]], n[b], small) {
			at--
		}
		of[i] = order[at]
	}
	return of
}

// apart is how far two numbers of executions are apart, as a logarithm; less than small makes hardly a difference.
func apart(a, b, small float64) float64 { return math.Abs(math.Log((a + small) / (b + small))) }

// matching returns the column of each row, or -1, so that as many as there can be have one each and the sum of costs is least: the
// Hungarian method by shortest augmenting paths (Jonker and Volgenant, Computing 38, 1987).
func matching(cost [][]float64) []int {
	rows, cols := len(cost), len(cost[0])
	at := func(i, k int) float64 { return cost[i][k] }
	if rows > cols {
		rows, cols = cols, rows
		at = func(i, k int) float64 { return cost[k][i] }
	}
	u, v := make([]float64, rows+1), make([]float64, cols+1)
	row := make([]int, cols+1) // of each column, from 1 on; 0 is none
	way := make([]int, cols+1)
	for i := 1; i <= rows; i++ {
		row[0] = i
		least := make([]float64, cols+1)
		used := make([]bool, cols+1)
		for k := range least {
			least[k] = math.Inf(1)
		}
		k0 := 0
		for row[k0] != 0 {
			used[k0] = true
			i0, k1, d := row[k0], 0, math.Inf(1)
			for k := 1; k <= cols; k++ {
				if used[k] {
					continue
				}
				if c := at(i0-1, k-1) - u[i0] - v[k]; c < least[k] {
					least[k], way[k] = c, k0
				}
				if least[k] < d {
					d, k1 = least[k], k
				}
			}
			for k := 0; k <= cols; k++ {
				if used[k] {
					u[row[k]] += d
					v[k] -= d
				} else {
					least[k] -= d
				}
			}
			k0 = k1
		}
		for k0 != 0 {
			k1 := way[k0]
			row[k0] = row[k1]
			k0 = k1
		}
	}
	of := make([]int, len(cost))
	for i := range of {
		of[i] = -1
	}
	for k := 1; k <= cols; k++ {
		switch i := row[k]; {
		case i == 0:
		case len(cost) <= len(cost[0]):
			of[i-1] = k - 1
		default:
			of[k-1] = i - 1
		}
	}
	return of
}
