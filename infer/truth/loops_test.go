package truth

import (
	"math"
	"testing"

	"backfeed/infer/document"
	"backfeed/infer/image"
)

// TestFactorErrors: factors are off up or down, by samples or, without them, each alike.
func TestFactorErrors(t *testing.T) {
	ps := []pairing{
		{est: 10, truth: 20, samples: 1},
		{est: 30, truth: 30, samples: 5},
		{est: 90, truth: 15, samples: 1},
		{est: 0, truth: 15, samples: 3},
		{est: 7, truth: 0, samples: 100}, // never ran
	}
	// Doubled, the factors are 1, 2, 12 and none at all.
	got := newFactorErrors(ps, 2)
	if got.N != 4 || got.Median != 2 || got.Each != 2 || !nearly(got.Within2x, 0.6) {
		t.Errorf("%+v", got)
	}
	got = newFactorErrors([]pairing{{est: 1, truth: 2}, {est: 0, truth: 1}, {est: 30, truth: 10}}, 1)
	if got.N != 3 || !nearly(got.Median, 3) || !nearly(got.Each, 3) || !nearly(got.Mean, math.Cbrt(2*3*WorstFactor)) {
		t.Errorf("each alike: %+v", got)
	}
	if got := newFactorErrors(nil, 1); got != (FactorErrors{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestTrips: a loop within a loop, and a test before a loop that is entered in the middle.
//
//	block  count  truth
//	A 100  10     1      entered once
//	B 104  50     10     head of the outer loop: 5 and 10 times round
//	C 108  500    40     head of the inner: 10 and 4 for each time
//	D 10c  50     10     back to B but for the last time
//	E 110  10     1
func TestTrips(t *testing.T) {
	block := func(at document.Addr, n document.Count) document.Block {
		return document.Block{Addr: at, Size: 4, Insns: 1, Count: n}
	}
	edge := func(from, to document.Addr, kind image.Kind, n document.Count) document.Edge {
		return document.Edge{From: from, To: to, Kind: kind.String(), Count: n}
	}
	doc := &document.Counts{Images: []document.Image{{ImageHeader: document.ImageHeader{Path: "app"}, Procs: []document.Proc{{
		Addr: 0x100, Size: 0x14, Entries: 10,
		Blocks: []document.Block{block(0x100, 10), block(0x104, 50), block(0x108, 500), block(0x10c, 50), block(0x110, 10)},
		Edges: []document.Edge{
			edge(0x100, 0x104, image.FallThrough, 10), edge(0x104, 0x108, image.FallThrough, 50), edge(0x108, 0x108, image.Taken, 450),
			edge(0x108, 0x10c, image.FallThrough, 50), edge(0x10c, 0x104, image.Taken, 40), edge(0x10c, 0x110, image.FallThrough, 10),
		},
	}}}}}
	truth := &Counts{Images: map[string]*Image{"app": {
		Insts: map[image.Addr]uint64{0x100: 1, 0x104: 10, 0x108: 40, 0x10c: 10, 0x110: 1},
		Jumps: map[Transfer]uint64{{0x108, 0x108}: 30, {0x10c, 0x104}: 9},
	}}}
	samples := SamplesByAddr{"app": {0x100: 1, 0x104: 1, 0x108: 7, 0x10c: 1}}
	a := Compare(doc, truth, samples)
	// The inner loop is off by 2.5, with 7 samples; the outer by 2, with 2.
	if got := a.Trips; got.N != 2 || !nearly(got.Median, 2.5) || !nearly(got.Each, 2) || !nearly(got.Within2x, 2./9) {
		t.Errorf("trips: %+v", got)
	}
	// 62 instructions for 620: entries 1 for 1.
	if got := a.Entries; got.N != 1 || !nearly(got.Median, 1) {
		t.Errorf("entries: %+v at scale %v", got, a.Scale)
	}
}

// TestLoopsEnteredAside: a block that does not dominate what leads back to it is no loop's head.
func TestLoopsEnteredAside(t *testing.T) {
	g := newGraph(&document.Proc{Blocks: []document.Block{{Addr: 0}, {Addr: 1}, {Addr: 2}, {Addr: 3}}})
	for _, e := range [][2]image.Addr{{0, 1}, {0, 2}, {1, 2}, {2, 1}, {2, 3}} {
		g.link(e[0], e[1], 1, 1)
	}
	dom := g.dominators()
	for v, want := range []int{4, 0, 0, 2} {
		if dom.Idom[v] != want {
			t.Errorf("block %d: dominated by %d, want %d", v, dom.Idom[v], want)
		}
	}
	if dom.Dominates(1, 2) || !dom.Dominates(2, 3) || !dom.Dominates(0, 3) {
		t.Error("dominance does not follow dominators")
	}
}
