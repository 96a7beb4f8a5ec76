package sample

import (
	"math"
	"strings"
	"testing"
)

// id returns a build ID that starts with the given bytes.
func id(b ...byte) BuildID {
	var id BuildID
	copy(id[:], b)
	return id
}

// three is a small recording of two events, with something of everything.
func three() *Recording {
	cpu := CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 26, Model: 2, Stepping: 1, Name: "AMD EPYC 9755", MHz: 2700}
	c := NewCounts(cpu, Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	app := c.Image(ImageID{Build: id(0xb1, 0xd0), Path: "/usr/bin/app"})
	lib := c.Image(ImageID{Path: "/lib/libc.so.6"})
	c.AddSample(app, 0x1139, 7)
	c.AddSample(app, 0x1140, 300)
	c.AddSample(lib, 0x26d03, 1)
	c.Lose(LostKernel, 5)
	c.Lose(LostDropped, 2)
	c.Weight = 313 * 1000000
	c.AddStack([]Frame{{app, 0x1140}, {app, 0x1234}, {Unknown, 0}}, 200)
	c.AddStackTop([]Frame{{app, 0x1140}, {app, 0x1234}, {Unknown, 0}}, Frame{lib, 0x26e00}, 3)
	c.AddStack([]Frame{{lib, 0x26d03}, {app, 0x1234}}, 1)

	lbr := NewCounts(cpu, Event{Name: "cycles", Unit: "cycles"})
	app = lbr.Image(ImageID{Build: id(0xb1, 0xd0), Path: "/opt/app"})
	lbr.AddSample(app, 0x1150, 9)
	lbr.AddBranch(Branch{Frame{app, 0x1150}, Frame{app, 0x1139}}, 90, 3)
	lbr.AddBranch(Branch{Frame{app, 0x1160}, Frame{Image: Unknown}}, 2, 0)
	lbr.AddRange(Range{app, 0x1139, 0x1150}, 88)

	var r Recording
	r.Add(lbr)
	r.Add(c)
	return &r
}

func TestCheck(t *testing.T) {
	for _, c := range three().Counts {
		if err := c.Check(); err != nil {
			t.Errorf("sound counts: %v", err)
		}
	}
	for _, tt := range []struct {
		want  string
		spoil func(clock, lbr *Counts)
	}{
		{"316 samples in all, but 315", func(c, _ *Counts) { c.Total++ }},
		{"no samples", func(c, _ *Counts) { *c = Counts{Weight: 1} }},
		{"0 samples", func(c, _ *Counts) { c.Lost[LostGuest] = 0 }},
		{"0x9: 0 samples", func(c, _ *Counts) { c.Images[0].At[9] = 0 }},
		{"neither", func(c, _ *Counts) { c.Images = append(c.Images, &ImageCounts{}) }},
		{"listed twice", func(c, _ *Counts) {
			c.Images = append(c.Images, &ImageCounts{ID: ImageID{Build: id(0xb1, 0xd0), Path: "/elsewhere"}})
		}},
		{"0 frames", func(c, _ *Counts) { c.Stacks[0].Frames = nil }},
		{"no image 2", func(c, _ *Counts) { c.Stacks[0].Frames[1].Image = 2 }},
		{"no image -1", func(c, _ *Counts) { c.Stacks[0].Frames[2].Off = 8 }},
		{"in no image", func(c, _ *Counts) { c.Stacks[0].Frames[0] = Frame{Image: Unknown} }},
		{"top: frame 2+0x0: no image 2", func(c, _ *Counts) { c.Stacks[1].Top.Image = 2; c.Stacks[1].Top.Off = 0 }},
		{"listed twice", func(c, _ *Counts) { c.Stacks = append(c.Stacks, c.Stacks[0]) }},
		{"listed twice", func(c, _ *Counts) { c.Stacks[1].Top = c.Stacks[0].Top }},
		{"300 samples, but 301 with a stack", func(c, _ *Counts) { c.Stacks[0].N = 298 }},
		{"no image 7", func(_, c *Counts) { c.Branches[Branch{To: Frame{Image: 7}}] = BranchCount{N: 1} }},
		{"more mispredicted", func(_, c *Counts) {
			c.Images[0].Replayed = map[Offset]Replayed{8: {Walks: 1, Branches: 1, Missed: 2}}
		}},
		{"target {", func(_, c *Counts) { c.Targets = map[Branch]uint64{{}: 0} }},
		{"2 mispredicted", func(_, c *Counts) { c.Branches[Branch{}] = BranchCount{N: 1, Mispredicted: 2} }},
		{"no image -1", func(_, c *Counts) { c.Ranges[Range{Image: Unknown}] = 1 }},
		{"empty", func(_, c *Counts) { c.Ranges[Range{0, 8, 4}] = 1 }},
		{"negative", func(c, _ *Counts) { c.CPU.Model = -1 }},
	} {
		r := three()
		tt.spoil(r.Counts[0], r.Counts[1])
		err := r.Counts[0].Check()
		if err == nil {
			err = r.Counts[1].Check()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got error %v, want one about %q", err, tt.want)
		}
	}
}

func TestImage(t *testing.T) {
	c := NewCounts(CPU{}, Event{})
	build := id(1)
	for _, tt := range []struct {
		id   ImageID
		want int
		path string // of the image found, afterwards
	}{
		{ImageID{}, Unknown, ""},
		{ImageID{Build: build}, 0, ""},
		{ImageID{Build: build, Path: "/b"}, 0, "/b"},
		{ImageID{Path: "/b"}, 1, "/b"},
		{ImageID{Build: build, Path: "/c"}, 0, "/b"},
		{ImageID{Build: build, Path: "/a"}, 0, "/a"},
		{ImageID{Build: build}, 0, "/a"},
		{ImageID{Path: "/a"}, 2, "/a"},
	} {
		i := c.Image(tt.id)
		if i != tt.want || i != Unknown && c.Images[i].ID.Path != tt.path {
			t.Errorf("Image(%v) = %d, want %d with path %q", tt.id, i, tt.want, tt.path)
		}
	}
}

// TestIndexes adds to Counts whose private indexes are missing, as they are
// where somebody else put the images and stacks in place.
func TestIndexes(t *testing.T) {
	old := three().Counts[0]
	c := &Counts{CPU: old.CPU, Event: old.Event, Total: 308, Images: old.Images, Stacks: old.Stacks}
	if i := c.Image(ImageID{Path: "/lib/libc.so.6"}); i != 1 {
		t.Errorf("known image has index %d, want 1", i)
	}
	c.AddStack([]Frame{{0, 0x1140}, {0, 0x1234}, {Unknown, 0}}, 5)
	if len(c.Stacks) != 3 || c.Stacks[0].N != 205 {
		t.Errorf("known stack was not found: %v", c.Stacks)
	}
	c.Lose(LostKernel, 7)
	c.AddBranch(Branch{}, 1, 0)
	c.AddRange(Range{}, 1)
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestSaturation(t *testing.T) {
	c := NewCounts(CPU{}, Event{Name: "cycles"})
	i := c.Image(ImageID{Path: "/a"})
	c.AddSample(i, 1, math.MaxUint64-1)
	c.AddSample(i, 2, 3)
	c.AddSample(i, 2, math.MaxUint64)
	c.Lose(LostKernel, math.MaxUint64)
	c.AddStack([]Frame{{i, 2}}, math.MaxUint64)
	c.AddBranch(Branch{Frame{i, 1}, Frame{i, 2}}, math.MaxUint64, math.MaxUint64)
	c.AddRange(Range{i, 1, 2}, math.MaxUint64)
	for what, n := range map[string]uint64{"total": c.Total, "delivered": c.Delivered(), "at 2": c.Images[i].At[2], "lost": c.Lost[LostKernel], "with a stack": c.Stacks[0].N,
		"records of a branch": c.Branches[Branch{Frame{i, 1}, Frame{i, 2}}].N, "records of a range": c.Ranges[Range{i, 1, 2}]} {
		if n != MostSamples {
			t.Errorf("%s: %d, want %d", what, n, uint64(MostSamples))
		}
	}
	// What a sum may be, a file may hold.
	rec := Merge(&Recording{Counts: []*Counts{c}}, &Recording{Counts: []*Counts{c}})
	if again, err := Decode(rec.Encode()); err != nil || again.Samples() != MostSamples {
		t.Errorf("the merge cannot be read: %v", err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestMeanPeriod(t *testing.T) {
	for _, tt := range []struct {
		name    string
		period  uint64
		weights []uint64 // of Counts with 4 samples each, merged
		want    float64
	}{
		{"fixed", 100, []uint64{0}, 100},
		{"varied", 0, []uint64{400, 800}, 150},
		{"one unknown", 0, []uint64{400, 0}, 0},
		{"one unknown of fixed", 7, []uint64{28, 0}, 7},
		{"too large to hold", 9, []uint64{math.MaxUint64, 2}, 9},
	} {
		var r Recording
		for _, w := range tt.weights {
			c := NewCounts(CPU{}, Event{Period: tt.period})
			c.AddSample(c.Image(ImageID{Path: "/a"}), 1, 3)
			c.Lose(LostKernel, 1)
			c.Lose(LostDropped, 5)
			c.Weight = w
			r.Add(c)
		}
		if got := r.Counts[0].MeanPeriod(); got != tt.want {
			t.Errorf("%s: mean period %g, want %g", tt.name, got, tt.want)
		}
	}
}
