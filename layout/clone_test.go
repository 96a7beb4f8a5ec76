package layout

import (
	"math"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// TestClones: of a block that two others lead to, the one that does not fall through gets a clone if that saves enough.
func TestClones(t *testing.T) {
	// 1 and 2 lead to 3, which goes on to 4 or 5; these end in 6.
	diamonds := func() *Graph {
		g := &Graph{}
		for _, n := range []float64{100, 60, 40, 100, 60, 40, 100} {
			g.Nodes = append(g.Nodes, Node{Size: 16, N: n})
		}
		for _, a := range [][3]int{{0, 1, 60}, {0, 2, 40}, {1, 3, 60}, {2, 3, 40}, {3, 4, 60}, {3, 5, 40}, {4, 6, 60}, {5, 6, 40}} {
			g.Arcs = append(g.Arcs, Arc{From: a[0], To: a[1], N: float64(a[2])})
		}
		return g
	}
	any := func(cloning) bool { return true }
	for _, tt := range []struct {
		name  string
		size  uint64 // of block 3
		least float64
		may   func(cloning) bool
		want  int // clones
	}{
		{"worth it", 16, 20, any, 1},
		{"too little", 16, 61, any, 0},
		{"too large", mostClonedSize + 1, 20, any, 0},
		{"not to be cloned", 16, 20, func(cloning) bool { return false }, 0},
	} {
		g := diamonds()
		g.Nodes[3].Size, g.Nodes[6].Size = tt.size, mostClonedSize+1
		before, arcs := g.jumps(orderBlocks(g)), slices.Clone(g.Arcs)
		got, clones := g.clones(tt.least, tt.may)
		if len(clones) != tt.want || len(got.Nodes) != len(g.Nodes)+tt.want || !slices.Equal(g.Arcs, arcs) {
			t.Errorf("%s: clones %v in %d nodes, want %d", tt.name, clones, len(got.Nodes), tt.want)
			continue
		}
		if saved := before - got.jumps(orderBlocks(got)); saved < float64(len(clones))*tt.least {
			t.Errorf("%s: %d clones save %.0f taken branches", tt.name, len(clones), saved)
		}
		// What ran before runs now, the clone for the block.
		block := func(i int) int {
			if i >= len(g.Nodes) {
				return clones[i-len(g.Nodes)].block
			}
			return i
		}
		ran, want := map[[2]int]float64{}, map[[2]int]float64{}
		for _, a := range got.Arcs {
			ran[[2]int{block(a.From), block(a.To)}] += a.N
		}
		for _, a := range g.Arcs {
			want[[2]int{a.From, a.To}] += a.N
		}
		for k, n := range want {
			if math.Abs(ran[k]-n) > 1e-9 || len(ran) != len(want) {
				t.Errorf("%s: %v: %.1f executions, want %.1f", tt.name, k, ran[k], n)
			}
		}
		for i := range got.Nodes {
			var in, out float64
			for _, a := range got.Arcs {
				if a.To == i {
					in += a.N
				}
				if a.From == i {
					out += a.N
				}
			}
			if n := got.Nodes[i].N; i != 0 && math.Abs(in-n) > 1e-9 || i != 6 && math.Abs(out-n) > 1e-9 {
				t.Errorf("%s: node %d runs %.1f times, %.1f come and %.1f go", tt.name, i, n, in, out)
			}
		}
	}
}

// TestCloneNeverLeft: a block that nothing leaves, as one that returns, may be cloned too.
func TestCloneNeverLeft(t *testing.T) {
	g := &Graph{Nodes: []Node{{16, 100, 0}, {16, 60, 0}, {16, 40, 0}, {16, 100, 0}, {16, 0, 0}}}
	g.Arcs = []Arc{{From: 0, To: 1, N: 60}, {From: 0, To: 2, N: 40}, {From: 1, To: 3, N: 60}, {From: 2, To: 3, N: 40}, {From: 3, To: 4}}
	got, clones := g.clones(1, func(cloning) bool { return true })
	if len(clones) != 1 || clones[0].block != 3 {
		t.Errorf("clones %v", clones)
	}
	for _, a := range got.Arcs {
		if math.IsNaN(a.N) {
			t.Errorf("arc %+v", a)
		}
	}
}

// TestCloneable: what clang does not clone is left alone.
func TestCloneable(t *testing.T) {
	f := &image.MachineFunc{
		Parts: []image.Addr{0x1000},
		Blocks: []image.MachineBlock{
			{ID: 0, Start: 0x1000, End: 0x1010}, {ID: 1, Start: 0x1010, End: 0x1020, Indirect: true}, {ID: 2, Start: 0x1020, End: 0x1030},
			{ID: 3, Start: 0x1030, End: 0x1040, Pad: true}, {ID: 4, Start: 0x1040, End: 0x1050},
		},
	}
	r := &infer.Result{Proc: &image.Proc{Symbol: image.Symbol{Addr: 0x1000, Size: 0x50}, Calls: []image.Call{{Site: 0x1028}, {Site: 0x1048, Tail: true}}}}
	for _, tt := range []struct {
		cloning
		want, without bool // and in a function without pads
	}{
		{cloning{0, 2}, false, true}, // has a call
		{cloning{0, 3}, false, true}, // is a pad
		{cloning{0, 4}, true, true},
		{cloning{1, 4}, false, false}, // after a table
		{cloning{2, 1}, true, true},
	} {
		f.Blocks[3].Pad = true
		if got := newMachineMap(f).cloneable([]*infer.Result{r})(tt.cloning); got != tt.want {
			t.Errorf("%v: %t", tt.cloning, got)
		}
		f.Blocks[3].Pad = false
		if got := newMachineMap(f).cloneable([]*infer.Result{r})(tt.cloning); got != tt.without {
			t.Errorf("%v, without pads: %t", tt.cloning, got)
		}
	}
}

// TestCloneNumbers: clones in a map are one block with what they were made of.
func TestCloneNumbers(t *testing.T) {
	m := newMachineMap(&image.MachineFunc{
		Parts: []image.Addr{0x1000},
		Blocks: []image.MachineBlock{
			{ID: 0, Start: 0x1000, End: 0x1010}, {ID: 2, Start: 0x1010, End: 0x1020}, {ID: 1, Start: 0x1020, End: 0x1030}, {ID: 2, Start: 0x1030, End: 0x1040},
		},
	})
	for i, want := range []int{0, 1, 2, 1} {
		if got := m.number(i); got != want {
			t.Errorf("block %d is number %d, want %d", i, got, want)
		}
	}
}
