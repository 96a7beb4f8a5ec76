package layout

import (
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// sized makes a procedure at addr of a graph whose blocks have these sizes.
func sized(arcs string, addr image.Addr, sizes ...uint64) *infer.Result {
	g := graph(arcs)
	g.Nodes[0].N++ // it is entered once
	for i, size := range sizes {
		g.Nodes[i].Size = size
	}
	r := procedure(g, addr)
	r.Proc.Entries = []int{0}
	return r
}

func TestAlign(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    *infer.Result
		want []AlignItem // without what goes without saying
	}{
		// a 0..19, b 20..51: a loop of 32 bytes over two windows.
		{"a loop that fits a window", sized("a>b 1, b>b 99, b>c 1", 0, 20, 32, 4), []AlignItem{
			{Kind: LoopHead, Start: 20, End: 52, N: 100, Align: 32, Pad: 12, Now: Windows{1.99, 0.99}, Then: Windows{1, 0.99}},
		}},
		{"a loop that is aligned already", sized("a>b 1, b>b 99, b>c 1", 12, 20, 32, 4), nil},
		{"a loop that no alignment helps", sized("a>b 1, b>b 99, b>c 1", 0, 2, 94, 4), nil},
		{"a loop that fills a line", sized("a>b 1, b>b 99, b>c 1", 4, 12, 64, 4), []AlignItem{
			{Kind: LoopHead, Start: 16, End: 80, N: 100, Align: 64, Pad: 48, Now: Windows{2.99, 1.99}, Then: Windows{2.01, 1}},
		}},
		// b 50..69 crosses a line, too. At 64 it has one window of either size.
		{"a loop across a line", sized("a>b 1, b>b 99, b>c 1", 0, 50, 20, 4), []AlignItem{
			{Kind: LoopHead, Start: 50, End: 70, N: 100, Align: 32, Pad: 14, Now: Windows{1.99, 1.99}, Then: Windows{1, 1}},
		}},
		// a 16..35 jumps to c 60..71, which nothing falls into.
		{"a target of jumps", sized("a>c 100, a>b 1, b>d 1, c>d 100", 0, 20, 40, 12, 4), []AlignItem{
			{Kind: JumpTarget, Start: 60, End: 76, N: 100, Align: 32, Pad: 4, Now: Windows{2, 2}, Then: Windows{1, 1}},
		}},
	} {
		if tt.name == "a target of jumps" {
			tt.r.Block[0].N = 101
		}
		a := Align(&infer.ImageProfile{Procs: []*infer.Result{tt.r}})
		got := slices.Clone(a.Items)
		got = slices.DeleteFunc(got, func(i AlignItem) bool { return i.Kind == ProcEntry })
		for i := range got {
			got[i].Symbol = image.Symbol{}
		}
		if !slices.EqualFunc(got, tt.want, func(x, y AlignItem) bool {
			near := func(v, w Windows) bool { d := v.minus(w); return max(d.Of32, -d.Of32, d.Of64, -d.Of64) < 0.02 }
			return x.Kind == y.Kind && x.Start == y.Start && x.End == y.End && x.N == y.N && x.Align == y.Align && x.Pad == y.Pad && near(x.Now, y.Now) && near(x.Then, y.Then)
		}) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestInnermostLoops: loops are found by flow, not by address.
func TestInnermostLoops(t *testing.T) {
	for _, tt := range []struct {
		name, arcs string
		want       [][]int
	}{
		{"no loop", "a>b 1, a>c 1, b>d 1, c>d 1", nil},
		{"to itself", "a>b 1, b>b 1, b>c 1", [][]int{{1}}},
		{"with an arm", "a>b 1, b>c 1, b>d 1, c>e 1, d>e 1, e>b 1, e>f 1", [][]int{{1, 2, 3, 4}}},
		{"one in another", "a>b 1, b>c 1, c>c 1, c>d 1, d>b 1, d>e 1", [][]int{{2}}},
		{"two ways back", "a>b 1, b>c 1, c>b 1, b>d 1, d>b 1, d>e 1", [][]int{{1, 2, 3}}},
		{"turned round: the head lies behind", "a>c 1, c>b 1, b>c 1, c>d 1", [][]int{{2, 1}}},
		{"jumped into: no head", "a>b 1, a>c 1, b>c 1, c>b 1, c>d 1", nil},
	} {
		got := innermostLoops(sized(tt.arcs, 0).Proc)
		for _, l := range got {
			slices.Sort(l[1:])
		}
		if !slices.EqualFunc(got, tt.want, slices.Equal) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
