package layout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// cost is what partition lowers: the cost of all groups when the first half of order
// is parted from the second.
func cost(groups [][]int, order []int) float64 {
	side := map[int]*[2]int{}
	for k, i := range order {
		for _, g := range groups[i] {
			if side[g] == nil {
				side[g] = &[2]int{}
			}
			side[g][toInt(k >= (len(order)+1)/2)]++
		}
	}
	var sum float64
	for g := range len(side) {
		if s := side[g]; s != nil {
			sum += splitCost(s[0], s[1])
		}
	}
	return sum
}

// leastCost is the least cost of any order: of any choice of a first half.
func leastCost(groups [][]int) float64 {
	n := len(groups)
	least := math.Inf(1)
	for set := range 1 << n {
		var left, right []int
		for i := range n {
			if set>>i&1 == 1 {
				left = append(left, i)
			} else {
				right = append(right, i)
			}
		}
		if len(left) == (n+1)/2 {
			least = min(least, cost(groups, slices.Concat(left, right)))
		}
	}
	return least
}

// randomGroups returns n nodes one to three of m groups each.
func randomGroups(rnd *rand.Rand, n, m int) [][]int {
	groups := make([][]int, n)
	for i := range groups {
		for _, g := range rnd.Perm(m)[:1+rnd.IntN(min(3, m))] {
			groups[i] = append(groups[i], g)
		}
	}
	return groups
}

// TestPartitionCost: on small graphs the first cut, found by a local search, makes up
// nearly all of the way from the cut that it begins with to the best there is.
func TestPartitionCost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var begun, found, best float64
	optimal := 0
	const graphs = 100
	for range graphs {
		groups := randomGroups(rnd, 4+rnd.IntN(7), 2+rnd.IntN(5))
		as := make([]int, len(groups))
		for i := range as {
			as[i] = i
		}
		got, least := cost(groups, partition(groups)), leastCost(groups)
		if got < least-1e-9 {
			t.Fatalf("%v: cost %v, less than the least, %v", groups, got, least)
		}
		if got < least+1e-9 {
			optimal++
		}
		begun, found, best = begun+cost(groups, as), found+got, best+least
	}
	t.Logf("%d of %d cuts are best; cost %.1f, at first %.1f, at best %.1f", optimal, graphs, found, begun, best)
	if share := (begun - found) / (begun - best); share < 0.95 {
		t.Errorf("%.0f %% of what can be gained, want 95", 100*share)
	}
}

// TestPartitionApart: nodes of groups that have nothing in common come apart,
// however they were mixed, and those of one group stay in order.
func TestPartitionApart(t *testing.T) {
	for _, kinds := range []int{2, 4, 8} {
		const each = 32
		groups := make([][]int, kinds*each)
		for i := range groups {
			kind := i % kinds
			groups[i] = []int{2 * kind, 2*kind + 1}
		}
		order := partition(groups)
		for k := range kinds {
			run := order[k*each : (k+1)*each]
			for _, i := range run {
				if i%kinds != run[0]%kinds {
					t.Errorf("%d groups: nodes %v lie together", kinds, run)
					break
				}
			}
			if !slices.IsSorted(run) {
				t.Errorf("%d groups: nodes %v are not in order", kinds, run)
			}
		}
	}
}

// TestPartitionAll: an order has every node once, is always the same, and groups
// that are given stay as they are.
func TestPartitionAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for n := range 80 {
		groups := randomGroups(rnd, n, 1+n/3)
		before := make([][]int, n)
		for i := range groups {
			before[i] = slices.Clone(groups[i])
		}
		order := partition(groups)
		if again := partition(groups); !slices.Equal(order, again) {
			t.Fatalf("%v, then %v", order, again)
		}
		if !slices.EqualFunc(groups, before, slices.Equal) {
			t.Fatal("the groups have changed")
		}
		slices.Sort(order)
		for i, j := range order {
			if i != j || len(order) != n {
				t.Fatalf("%d nodes: %v", n, order)
			}
		}
	}
}

// BenchmarkPartition shows that the time grows little faster than the nodes.
func BenchmarkPartition(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		groups := randomGroups(rand.New(rand.NewPCG(3, 3)), n, 200)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				partition(groups)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}
