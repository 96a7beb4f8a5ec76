package infer

import (
	"math"
	"testing"
)

// TestFast: fastExp and fastLog are those of package math to 1e-12, at their ends and at the joints of their tables too.
func TestFast(t *testing.T) {
	for x := -700.0; x <= 700; x += 0.00731 {
		if got, want := fastExp(x), math.Exp(x); !(math.Abs(got/want-1) < 1e-12) {
			t.Fatalf("fastExp(%g) = %g, want %g", x, got, want)
		}
		y := math.Exp(x)
		if got, want := fastLog(y), math.Log(y); !(math.Abs(got-want) < 1e-12*max(1, math.Abs(want))) {
			t.Fatalf("fastLog(%g) = %g, want %g", y, got, want)
		}
	}
	for i := range 2 * logSteps {
		for _, y := range []float64{1 + float64(i)/logSteps, math.Nextafter(1+float64(i)/logSteps, 0)} {
			if got, want := fastLog(y), math.Log(y); !(math.Abs(got-want) < 1e-12*max(1, math.Abs(want))) {
				t.Errorf("fastLog(%g) = %g, want %g", y, got, want)
			}
		}
	}
}

// TestUnits: chains of blocks with one out-edge, also such as lead to each other in a circle that nothing leaves, are passed as
// dense elimination passes them.
func TestUnits(t *testing.T) {
	for _, g := range []string{"a>b b>c c!", "a>b a>c b>d c>d d>e e!", "a>b b>c c>b c>d d>a a>e e!", "a>b b>b b>c c>d d>c d!"} {
		f := newFlow(graph(g), 0)
		prob, v := make([]float64, len(f.outs)), make([]float64, f.blocks)
		for b := range f.blocks {
			softmax(prob[f.first[b]:f.first[b+1]])
			v[b] = float64(b + 1)
		}
		want := dense(f, prob, v)
		x := f.newFactor()
		x.set(prob)
		x.visits(v)
		for b := range v {
			if !near(v[b], want[b], 1e-9) {
				t.Errorf("%s: block %d: %g executions, want %g", g, b, v[b], want[b])
			}
		}
	}
	// A circle has no executions that would end; it is only to come to an end.
	f := &flow{blocks: 3, outs: []outEdge{{1, -1}, {2, -1}, {1, -1}}, first: []int32{0, 1, 2, 3}, entries: []int32{0}}
	if !f.eliminate() || len(f.units) != 2 {
		t.Errorf("%d units of a block that leads to a circle of two, want 2", len(f.units))
	}
}
