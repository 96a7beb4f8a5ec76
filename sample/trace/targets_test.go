package trace

import (
	"maps"
	"testing"

	"backfeed/sample"
)

// TestWalksTargets: walks tell where indirect calls and jumps between procedures go, also out of the code that
// is known, and nothing of other branches.
func TestWalksTargets(t *testing.T) {
	app, lib := sample.ImageID{Path: "/c"}, sample.ImageID{Path: "/l"}
	insts := callingImage()[0].Procs[0]
	insts[1].Op, insts[1].Target = Op{Kind: CallInd}, 0                                                 // operation 2
	insts = append(insts, Inst{Addr: 0x3000, Off: 0x3000, Proc: 0x3000, Op: Op{Kind: JumpInd}}, Inst{}) // operation 9
	c := NewCode([]Image{{ID: app, Procs: [][]Inst{insts}}, {ID: lib, Procs: [][]Inst{[]Inst{{Addr: 0x5000, Off: 0x1000, Proc: 0x5000, Op: Op{Kind: Ret}}, {}}}}})
	var w Walks
	w.SetCode(c)
	for _, p := range []path{
		{start: 2, steps: 3, outcomes: []via{0}, targets: []uint32{5}},                // into 0x2000 of the same image
		{start: 2, steps: 3, outcomes: []via{0}, targets: []uint32{5}},                //
		{start: 2, steps: 2, targets: []uint32{11}},                                   // into the other one
		{start: 2, steps: 1, end: EndOutside, left: 0x5800, pages: c.Ranges[1].Pages}, // to code of it that is not known
		{start: 2, steps: 1, end: EndOutside},                                         // to none
		{start: 9, steps: 2, targets: []uint32{1}},                                    // a jump to another procedure
		{start: 9, steps: 2, targets: []uint32{9}},                                    // to its own
		{start: 2, steps: 1}, // it is not said where
		{start: 6, steps: 3, outcomes: []via{0, viaTaken}, targets: []uint32{3}, end: EndOutside}, // a return
	} {
		w.add(&p, 0)
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{})
	w.AddTo(counts, nil)
	if err := counts.Check(); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	name := func(f sample.Frame) string {
		if f.Image == sample.Unknown {
			return "?"
		}
		return counts.Images[f.Image].ID.Path + sample.Frame{Off: f.Off}.String()[1:]
	}
	for b, n := range counts.Targets {
		got[name(b.From)+" "+name(b.To)] = n
	}
	want := map[string]uint64{"/c+0x1001 /c+0x2000": 2, "/c+0x1001 /l+0x1000": 1, "/c+0x1001 /l+0x1800": 1, "/c+0x1001 ?": 1, "/c+0x3000 /c+0x1000": 1}
	if !maps.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
	if n := counts.Images[counts.Image(app)].Probed[0x1001].Visits; n != 6 {
		t.Errorf("the call was passed %d times, want 6", n)
	}
}
