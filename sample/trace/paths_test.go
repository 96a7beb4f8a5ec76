package trace

import (
	"slices"
	"testing"

	"backfeed/sample"
)

// TestPaths: the branches that a walk took are kept in order, up to the first that was guessed, with where
// the last one left the code that is known.
func TestPaths(t *testing.T) {
	c := NewCode(callingImage())
	two := twoImages()
	outside := NewCode(two)
	place := func(image int, offs ...sample.Offset) (bs []sample.Branch) {
		for i := 0; i+1 < len(offs); i += 2 {
			bs = append(bs, sample.Branch{From: sample.Frame{Image: image, Off: offs[i]}, To: sample.Frame{Image: image, Off: offs[i+1]}})
		}
		return bs
	}
	nowhere := sample.Branch{From: sample.Frame{Image: 0, Off: 0x2003}, To: sample.Frame{Image: sample.Unknown}}
	for _, tt := range []struct {
		name string
		code *Code
		path
		insts uint64
		want  []sample.Branch
	}{
		{"a loop", c, path{start: 1, steps: 12, outcomes: []via{0, viaTaken, viaTaken, 0}, targets: []uint32{3, 3}}, 10,
			place(0, 0x1001, 0x2000, 0x2003, 0x1006, 0x1006, 0x1000, 0x1001, 0x2000, 0x2001, 0x2000)},
		{"a guess", c, path{start: 2, steps: 6, outcomes: []via{viaTaken, viaGuessed}, targets: []uint32{3}}, 3,
			place(0, 0x1001, 0x2000, 0x2001, 0x2000)},
		{"a return to nowhere", c, path{start: 6, steps: 5, outcomes: []via{0}}, 2, []sample.Branch{nowhere}},
		{"an operation that there is not", c, path{start: 7, steps: 5, targets: []uint32{99}}, 1, []sample.Branch{nowhere}},
		{"no branch", c, path{start: 1, steps: 1}, 0, nil},
		{"a jump out of the code", outside, path{start: 6, steps: 1, end: EndOutside}, 1, place(0, 0x1012, 0x100000)},
	} {
		var w Walks
		w.SetCode(tt.code)
		w.KeepPaths()
		w.add(&tt.path, 0)
		counts := sample.NewCounts(sample.CPU{}, sample.Event{})
		w.AddTo(counts, nil)
		if err := counts.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.want == nil {
			if len(counts.Paths) > 0 {
				t.Errorf("%s: %v", tt.name, counts.Paths)
			}
			continue
		}
		if len(counts.Paths) != 1 || counts.Paths[0].Insts != tt.insts || !slices.Equal(counts.Paths[0].Branches, tt.want) {
			t.Errorf("%s: %v, want %d instructions, %v", tt.name, counts.Paths, tt.insts, tt.want)
		}
	}
}

// TestPathsBounded: a long walk is several paths, and of many walks so many are kept that their
// branches stay within bounds.
func TestPathsBounded(t *testing.T) {
	var w Walks
	w.SetCode(NewCode(callingImage()))
	const each = 2*sample.MaxPathBranches + 52
	steps := slices.Repeat([]Step{{3, 1}}, each)
	counts := func() *sample.Counts {
		c := sample.NewCounts(sample.CPU{}, sample.Event{})
		w.addPaths(c)
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		return c
	}
	w.keep(w.code, steps, 10*each, nil)
	branches, insts := 0, uint64(0)
	for _, p := range counts().Paths {
		branches += len(p.Branches)
		insts += p.Insts
	}
	if n := len(counts().Paths); n != 3 || branches != each || insts != 10*each {
		t.Errorf("a walk of %d branches: %d paths of %d branches, %d instructions", each, n, branches, insts)
	}
	for range 3 * sample.MostBranches / each {
		w.keep(w.code, steps, 10*each, nil)
	}
	branches = 0
	for _, p := range counts().Paths {
		branches += len(p.Branches)
	}
	if branches < sample.MostBranches || branches > sample.MostBranches+sample.MaxPathBranches {
		t.Errorf("%d branches are kept", branches)
	}
	w.Forget()
	if n := len(counts().Paths); n != 0 {
		t.Errorf("%d paths are not forgotten", n)
	}
}
