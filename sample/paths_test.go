package sample

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// withPaths is walked with paths, of which one leads through two images and out of them.
func withPaths() *Recording {
	r := walked()
	c := r.Counts[0]
	app, lib := c.Image(ImageID{Build: id(0xb1, 0xd0)}), c.Image(ImageID{Path: "/lib/libc.so.6"})
	loop := Branch{Frame{app, 0x1170}, Frame{app, 0x1150}}
	c.AddPaths([]Path{
		{Rank: 1 << 40, Insts: 512, Branches: []Branch{loop, loop, {Frame{app, 0x1174}, Frame{lib, 0x26d00}}, {Frame{lib, 0x26d03}, Frame{Image: Unknown}}}},
		{Rank: 7, Insts: 9, Branches: []Branch{loop}},
	})
	return r
}

// TestDumpPaths pins what paths add to the format.
func TestDumpPaths(t *testing.T) {
	r := withPaths()
	check(t, r)
	checkDump(t, r, "testdata/paths.dump")
}

// longPaths returns counts with more paths than are kept, by their number or by their branches.
func longPaths(rnd *rand.Rand, n, most int) *Counts {
	c := NewCounts(CPU{}, Event{Name: "cycles"})
	var paths []Path
	a, b := c.Image(ImageID{Path: "/a"}), c.Image(ImageID{Build: id(byte(1 + rnd.IntN(3)))})
	for range n {
		p := Path{Rank: rnd.Uint64N(1 << 10)}
		for range 1 + rnd.IntN(most) {
			p.Branches = append(p.Branches, Branch{Frame{a, Offset(rnd.IntN(4))}, Frame{b, Offset(rnd.IntN(4))}})
		}
		paths = append(paths, p)
	}
	c.AddPaths(paths)
	return c
}

// TestPathsKept: of more paths than are kept, the same are in any order and grouping, and they
// have the smallest ranks of all.
func TestPathsKept(t *testing.T) {
	for _, tt := range []struct {
		name          string
		n, most, want int // of each part; 0: as many as have MostBranches branches
	}{
		{"many", 900, 2, MaxPaths},
		{"long", 120, MaxPathBranches, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(tt.n)))
			var parts []*Recording
			var ranks []uint64
			for range 4 {
				c := longPaths(rnd, tt.n, tt.most)
				parts = append(parts, &Recording{Counts: []*Counts{c}})
				for _, p := range c.Paths {
					ranks = append(ranks, p.Rank)
				}
			}
			sum := Merge(parts...)
			check(t, sum)
			want := sum.Encode()
			if got := Merge(Merge(parts[2], parts[0]), Merge(parts[3], parts[1])).Encode(); !bytes.Equal(got, want) {
				t.Error("another grouping keeps other paths")
			}
			if got := Merge(parts[3], parts[2], Merge(parts[1], parts[0])).Encode(); !bytes.Equal(got, want) {
				t.Error("another order keeps other paths")
			}
			slices.Sort(ranks)
			kept := sum.Counts[0].Paths
			branches := 0
			for i, p := range kept {
				if p.Rank != ranks[i] {
					t.Fatalf("path %d has rank %d, want %d", i, p.Rank, ranks[i])
				}
				branches += len(p.Branches)
			}
			if tt.want > 0 && len(kept) != tt.want {
				t.Errorf("%d paths, want %d", len(kept), tt.want)
			}
			if tt.want == 0 && (branches < MostBranches || branches > MostBranches+MaxPathBranches) {
				t.Errorf("%d branches in %d paths, want %d to %d", branches, len(kept), MostBranches, MostBranches+MaxPathBranches)
			}
		})
	}
}

// TestScalePaths: what counts for less is the first to go.
func TestScalePaths(t *testing.T) {
	r := withPaths().Scale(0.25)
	check(t, r)
	for i, want := range []uint64{28, 1 << 42} {
		if got := r.Counts[0].Paths[i].Rank; got != want {
			t.Errorf("path %d has rank %d, want %d", i, got, want)
		}
	}
}
