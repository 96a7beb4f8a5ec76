package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// TestMachineGraph: a function of two parts, f at 0x1000 and its cold part at
// 0x2000, in the code's blocks (left) and the compiler's (right):
//
//	0 [1000,1010) jcc to 2          #0 [1000,1014)
//	1 [1010,1014) jmp to 4
//	2 [1014,1030) a call that may   #7 [1014,1020)
//	    throw in the middle         #3 [1020,1030)
//	3 [1030,1040) tail call         #9 [1030,1030) without code
//	    to 0x2000                   #4 [1030,1040)
//	4 [1040,1050) to 0, a nop last  #2 [1040,104c)
//	5 [2000,2010) in the other part #5 [2000,2010)
func TestMachineGraph(t *testing.T) {
	f := &image.MachineFunc{
		Parts: []image.Addr{0x1000, 0x2000},
		Blocks: []image.MachineBlock{
			{ID: 0, Start: 0x1000, End: 0x1014}, {ID: 7, Start: 0x1014, End: 0x1020}, {ID: 3, Start: 0x1020, End: 0x1030},
			{ID: 9, Start: 0x1030, End: 0x1030}, {ID: 4, Start: 0x1030, End: 0x1040}, {ID: 2, Start: 0x1040, End: 0x104c},
			{ID: 5, Start: 0x2000, End: 0x2010},
		},
	}
	block := func(lo, hi image.Addr) image.Block { return image.Block{Start: lo, End: hi, Last: hi - 4} }
	hot := &infer.Result{
		Proc: &image.Proc{
			Symbol:   image.Symbol{Addr: 0x1000, Size: 0x50},
			Complete: true,
			Blocks:   []image.Block{block(0x1000, 0x1010), block(0x1010, 0x1014), block(0x1014, 0x1030), block(0x1030, 0x1040), block(0x1040, 0x1050)},
			Edges:    []image.Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 1, To: 4}, {From: 2, To: 3}, {From: 4, To: 0}},
			Calls:    []image.Call{{Block: 3, Site: 0x103c, To: 0x2000, Tail: true}, {Block: 2, Site: 0x101c, To: 0x2000}},
		},
		Block: []infer.Freq{{N: 100}, {N: 60}, {N: 40}, {N: 40}, {N: 60}},
		Edge:  []infer.Freq{{N: 60}, {N: 40}, {N: 60}, {N: 40}, {N: 59}},
		Call:  []infer.Freq{{N: 40}, {N: 40}},
	}
	cold := &infer.Result{
		Proc:  &image.Proc{Symbol: image.Symbol{Addr: 0x2000, Size: 0x10}, Complete: true, Blocks: []image.Block{block(0x2000, 0x2010)}},
		Block: []infer.Freq{{N: 40}}, Cold: []bool{true},
	}
	g, complete := machineGraph([]*infer.Result{hot, cold}, newMachineMap(f))
	var nodes, arcs []string
	for i, n := range g.Nodes {
		nodes = append(nodes, fmt.Sprintf("%d:%g", f.Blocks[i].ID, n.N))
	}
	for _, a := range g.Arcs {
		arcs = append(arcs, fmt.Sprintf("%d>%d:%g", f.Blocks[a.From].ID, f.Blocks[a.To].ID, a.N))
	}
	slices.Sort(arcs)
	if got, want := strings.Join(nodes, " "), "0:100 7:40 3:40 9:40 4:40 2:60 5:0"; got != want || !complete {
		t.Errorf("nodes %s, complete %v, want %s", got, complete, want)
	}
	if got, want := strings.Join(arcs, " "), "0>2:60 0>7:40 2>0:59 3>9:40 4>5:40 7>3:40 9>4:40"; got != want {
		t.Errorf("arcs %s, want %s", got, want)
	}
	hot.Proc.Complete = false
	if _, complete := machineGraph([]*infer.Result{hot, cold}, newMachineMap(f)); complete {
		t.Error("complete, though the code is not")
	}
}

func TestWriteClusters(t *testing.T) {
	c := &Clusters{
		Order: &Order{Symbols: []image.Symbol{{Name: "main"}, {Name: "twice", Local: true}, {Name: "leaf"}}, same: map[string]int{"twice": 2}},
		funcs: []clustered{
			{name: "main", clones: [][2]uint32{{0, 3}, {7, 3}}, hot: []blockID{{0, 0}, {3, 1}, {1, 0}, {3, 0}, {3, 2}}, cold: true},
			{name: "twice", file: "b.c", hot: []blockID{{0, 0}, {2, 0}}, cold: true},
			{name: "twice", file: "a.c", hot: []blockID{{0, 0}}, cold: true},
			{name: "leaf", hot: []blockID{{0, 0}}},
		},
	}
	var blocks, symbols strings.Builder
	if err := c.WriteBlocks(&blocks); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSymbols(&symbols); err != nil {
		t.Fatal(err)
	}
	if got, want := blocks.String(), "v1\nf leaf\nc 0\nf main\np 0 3\np 7 3\nc 0 3.1 1 3 3.2\nm a.c\nf twice\nc 0\nm b.c\nf twice\nc 0 2\n"; got != want {
		t.Errorf("blocks:\n%s\nwant:\n%s", got, want)
	}
	if got, want := symbols.String(), "main\n# 2 local symbols of this name, which all move\ntwice\nleaf\nmain.cold\ntwice.cold\n"; got != want {
		t.Errorf("symbols:\n%s\nwant:\n%s", got, want)
	}
}
