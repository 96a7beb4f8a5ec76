package infer

import "testing"

// TestNest: a loop has the blocks that lead back to where it begins, those of loops within it too.
func TestNest(t *testing.T) {
	for _, tt := range []struct {
		graph string
		in    []int // by block: how many loops it is in
	}{
		{"a9!", []int{0}},
		{"a1>b b2>b b>c c3!", []int{0, 1, 0}},
		{"a1>b b2>c c3>c c>d d4>b d>e e5!", []int{0, 1, 2, 1, 0}},
		{"a1>b b2>c b>d c3>b d4>b d>e e5!", []int{0, 1, 1, 1, 0}}, // one loop with two jumps back
		{"a1>b a>c b2>c c3>b c>d d4!", []int{0, 0, 0, 0}},         // entered at two places: none begins it
	} {
		f := newFlow(graph(tt.graph), 0)
		n := f.nest()
		for b, want := range tt.in {
			if got := len(n.of[b]); got != want {
				t.Errorf("%s: block %d is in %d loops, want %d", tt.graph, b, got, want)
			}
		}
	}
}
