package stale

import (
	"slices"
	"testing"

	"backfeed/sample"
)

// TestCarryPaths: a path ends before the first branch that has no place in the newer build.
func TestCarryPaths(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
	app, lib := c.Image(sample.ImageID{Path: "/app"}), c.Image(sample.ImageID{Path: "/lib.so"})
	in := sample.Branch{From: sample.Frame{Image: app, Off: 8}, To: sample.Frame{Image: app, Off: 4}}
	out := sample.Branch{From: sample.Frame{Image: app, Off: 9}, To: sample.Frame{Image: lib, Off: 4}}
	c.AddPaths([]sample.Path{
		{Rank: 1, Insts: 30, Branches: []sample.Branch{in, in, out}},
		{Rank: 2, Insts: 10, Branches: []sample.Branch{out, in}},
		{Rank: 3, Insts: 10, Branches: []sample.Branch{in}},
	})
	rec := &sample.Recording{Counts: []*sample.Counts{c}}
	got, _ := Carry(rec, sample.ImageID{Path: "/new.so"}, map[sample.ImageID]*Builds{{Path: "/lib.so"}: nil})
	var ranks, insts []uint64
	for _, p := range got.Counts[0].Paths {
		ranks, insts = append(ranks, p.Rank), append(insts, p.Insts)
		for _, b := range p.Branches {
			if b != in {
				t.Errorf("path %d has branch %v", p.Rank, b)
			}
		}
	}
	if !slices.Equal(ranks, []uint64{1, 3}) || !slices.Equal(insts, []uint64{20, 10}) {
		t.Errorf("paths %v of %v instructions are left", ranks, insts)
	}
}
