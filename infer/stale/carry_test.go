package stale

import (
	"slices"
	"testing"

	"backfeed/sample"
)

// TestCarryPaths: a path ends before the first branch that has no place in the newer build; processes are of it.
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
	c.AddProcesses(app, 2)
	c.AddProcesses(lib, 3)
	rec := &sample.Recording{Counts: []*sample.Counts{c}}
	got, _ := Carry(rec, sample.ImageID{Path: "/new.so"}, map[sample.ImageID]*Builds{{Path: "/lib.so"}: nil})
	for i, want := range []sample.ImageCounts{{ID: sample.ImageID{Path: "/app"}, Processes: 2}, {ID: sample.ImageID{Path: "/new.so"}, Processes: 3}} {
		if ic := got.Counts[0].Images[i]; ic.ID != want.ID || ic.Processes != want.Processes {
			t.Errorf("%d processes of %s, want %d of %s", ic.Processes, ic.ID, want.Processes, want.ID)
		}
	}
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

// TestCarryReplayed: what models counted stays where code did, and is dropped with code that is gone.
func TestCarryReplayed(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
	other, lib := c.Image(sample.ImageID{Path: "/other"}), c.Image(sample.ImageID{Path: "/lib.so"})
	kept := sample.Replayed{Walks: 2, Branches: 9, Missed: 1, Fetches: 3, FarFetches: 1}
	c.AddReplayed(other, 8, kept)
	c.AddReplayed(lib, 4, sample.Replayed{Walks: 2, Accesses: 9, Near: 8})
	got, report := Carry(&sample.Recording{Counts: []*sample.Counts{c}}, sample.ImageID{Path: "/new.so"}, map[sample.ImageID]*Builds{{Path: "/lib.so"}: nil})
	n := 0
	for _, ic := range got.Counts[0].Images {
		if n += len(ic.Replayed); ic.ID.Path == "/other" && ic.Replayed[8] != kept {
			t.Errorf("%s has %+v", ic.ID, ic.Replayed)
		}
	}
	if n != 1 || report.Observed != [2]uint64{0, 1} {
		t.Errorf("%d places are left; %+v", n, report.Observed)
	}
}

// TestCarryTargets: of a branch whose source or target is gone, none is left.
func TestCarryTargets(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
	app, lib := c.Image(sample.ImageID{Path: "/app"}), c.Image(sample.ImageID{Path: "/lib.so"})
	kept := sample.Branch{From: sample.Frame{Image: app, Off: 8}, To: sample.Frame{Image: app, Off: 4}}
	c.AddTarget(kept, 5)
	c.AddTarget(sample.Branch{From: kept.From, To: sample.Frame{Image: lib, Off: 4}}, 6)
	c.AddTarget(sample.Branch{From: sample.Frame{Image: lib, Off: 4}, To: kept.To}, 7)
	got, _ := Carry(&sample.Recording{Counts: []*sample.Counts{c}}, sample.ImageID{Path: "/new.so"}, map[sample.ImageID]*Builds{{Path: "/lib.so"}: nil})
	if left := got.Counts[0].Targets; len(left) != 1 || left[kept] != 5 {
		t.Errorf("targets %v are left", left)
	}
}
