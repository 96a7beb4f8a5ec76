package sample

import "testing"

// TestWithout: samples of an image go as if they had not been taken, or are lost; the rest, and what it stands for, stays.
func TestWithout(t *testing.T) {
	c := NewCounts(CPU{Arch: "x86_64"}, Event{Name: "cpu-clock", Period: 100, Unit: "ns"})
	app, kernel := c.Image(ImageID{Path: "/app"}), c.Image(ImageID{Path: "[kernel]"})
	c.AddSample(app, 8, 6)
	c.AddSample(kernel, 16, 3)
	c.Lose(LostKernel, 1)
	c.Lose(LostDropped, 10)
	c.AddStack([]Frame{{app, 8}, {app, 4}}, 2)
	c.AddStack([]Frame{{kernel, 16}, {app, 8}}, 3)
	c.AddBranch(Branch{Frame{app, 8}, Frame{kernel, 16}}, 5, 1)
	c.AddBranch(Branch{Frame{kernel, 16}, Frame{kernel, 20}}, 5, 1)
	c.AddRange(Range{kernel, 16, 20}, 5)
	c.AddOrigin(Origin{Process: "app"}, 10)
	c.AddMoment(kernel, 16, c.SliceAt(1e9), 3)
	c.Weight = 1000
	r := Merge(&Recording{Counts: []*Counts{c}})
	is := func(id ImageID) bool { return id.Path == "[kernel]" }
	for _, tt := range []struct {
		name                           string
		lost, as                       Loss
		total, kernel, dropped, weight uint64
	}{
		{"gone", LostKernel, "", 12, 0, 6, 600},
		{"lost", "", LostKernel, 20, 4, 10, 1000},
	} {
		got := r.Without("cpu-clock", is, tt.lost, tt.as)
		d := got.Counts[0]
		if err := d.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if d.Total != tt.total || d.Lost[LostKernel] != tt.kernel || d.Lost[LostDropped] != tt.dropped || d.Weight != tt.weight || len(d.Images) != 1 || len(d.Stacks) != 1 || len(d.Branches) != 1 || len(d.Ranges) != 0 || d.Origins != nil {
			t.Errorf("%s: %+v", tt.name, d)
		}
		if _, err := Decode(got.Encode()); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if other := r.Without("cycles", is, LostKernel, ""); other.Samples() != r.Samples() {
		t.Errorf("of another event %d of %d samples stay", other.Samples(), r.Samples())
	}
}
