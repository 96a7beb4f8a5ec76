package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestUnseenAtMost holds the bound to what it promises: of code that runs so often, 1
// in 20 has no sample, if its cost is uncertain as claimed.
func TestUnseenAtMost(t *testing.T) {
	if got := unseenAtMost(0); math.Abs(got-math.Log(20)) > 1e-6 {
		t.Errorf("with a known cost it is %g, want log 20", got)
	}
	for _, sd := range []float64{0.3, 1, 2} {
		rnd := rand.New(rand.NewPCG(1, 2))
		expected := unseenAtMost(sd)
		none, n := 0.0, 200000
		for range n {
			none += math.Exp(-expected * math.Exp(sd*rnd.NormFloat64()))
		}
		if share := none / float64(n); math.Abs(share-0.05) > 0.003 {
			t.Errorf("sd %g: %.4f of code at the bound has no sample, want 0.05", sd, share)
		}
	}
}

func TestAtMost(t *testing.T) {
	block := func(insts int, exit image.Exit, out ...int) image.Block {
		return image.Block{Insts: insts, Exit: exit, Out: out}
	}
	// The short way through it is block 0 and 2: 12 instructions.
	p := &image.Proc{
		Blocks:  []image.Block{block(4, image.NoExit, 0, 1), block(100, image.NoExit, 2), block(8, image.Return)},
		Edges:   []image.Edge{{From: 0, To: 1}, {From: 0, To: 2, Kind: image.Taken}, {From: 1, To: 2}},
		Entries: []int{0},
	}
	loop := &image.Proc{Blocks: []image.Block{block(12, image.NoExit, 0)}, Edges: []image.Edge{{}}, Entries: []int{0}}
	prof := &Profile{Event: sample.Event{Unit: "instructions", Period: 1000}}
	sd := math.Sqrt(skidding.blockVar/12 + skidding.levelSD*skidding.levelSD)
	for _, tt := range []struct {
		name string
		p    *image.Proc
		lost uint64 // of 100 samples
		want float64
	}{
		{"the cheapest way counts", p, 0, unseenAtMost(sd) * 1000 / 12},
		{"dropped samples might have been there", p, 50, unseenAtMost(sd) * 1000 / 12 * 2},
		{"code without an exit", loop, 0, unseenAtMost(sd) * 1000 / 12},
		{"no code", &image.Proc{}, 0, math.Inf(1)},
	} {
		prof.Samples = Samples{Total: 100, Lost: map[sample.Loss]uint64{sample.LostDropped: tt.lost}}
		if got := prof.Absence().AtMost(tt.p); !(math.Abs(got/tt.want-1) < 1e-9) && got != tt.want {
			t.Errorf("%s: at most %g, want %g", tt.name, got, tt.want)
		}
	}
}
