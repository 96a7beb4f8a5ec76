package image

import (
	"math/rand/v2"
	"testing"
)

// TestDominates: of graphs drawn at random, a node dominates those that no path leads to once it is taken out.
func TestDominates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 1 + r.IntN(14)
		next := make([][]int, n)
		for range r.IntN(3 * n) {
			from := r.IntN(n)
			next[from] = append(next[from], r.IntN(n))
		}
		entries := []int{0}
		for range r.IntN(3) {
			entries = append(entries, r.IntN(n))
		}
		// reached returns what paths that do not pass through one node lead to; -1 is none.
		reached := func(without int) []bool {
			seen := make([]bool, n)
			for work := append([]int(nil), entries...); len(work) > 0; {
				v := work[len(work)-1]
				work = work[:len(work)-1]
				if v != without && !seen[v] {
					seen[v] = true
					work = append(work, next[v]...)
				}
			}
			return seen
		}
		dom, all := Dominators(next, entries), reached(-1)
		for a := range n {
			some := reached(a)
			for b := range n {
				if want := all[b] && !some[b]; dom.Dominates(a, b) != want {
					t.Fatalf("edges %v, entries %v: %d dominates %d: %v, want %v", next, entries, a, b, !want, want)
				}
			}
		}
		for b := range n {
			switch d := dom.Idom[b]; {
			case (d >= 0) != all[b]:
				t.Fatalf("edges %v, entries %v: immediate dominator of %d is %d; reached: %v", next, entries, b, d, all[b])
			case d >= 0 && d < n && (d == b || !dom.Dominates(d, b)):
				t.Fatalf("edges %v, entries %v: immediate dominator of %d is %d, which does not dominate it", next, entries, b, d)
			}
		}
	}
}
