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
		n := f.nest(nil)
		for b, want := range tt.in {
			if got := len(n.of[b]); got != want {
				t.Errorf("%s: block %d is in %d loops, want %d", tt.graph, b, got, want)
			}
		}
	}
}

// TestNestArms: what control comes to by an indirect jump begins an arm, which has all that is reached by it only.
func TestNestArms(t *testing.T) {
	f := newFlow(graph("a1>b a>c b2>d b>e c3>f d4>e e5>f f6!"), 0)
	n := f.nest([]int32{1, 2}) // b and c
	arm := func(b int) int32 {
		if of := n.of[b]; len(of) > 0 {
			return of[len(of)-1] - int32(n.loops) + 1
		}
		return 0
	}
	for b, want := range []int32{0, 1, 2, 1, 1, 0} {
		if got := arm(b); got != want {
			t.Errorf("block %d is in arm %d, want %d", b, got, want)
		}
	}
}
