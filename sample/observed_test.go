package sample

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// exact is three with what was counted exactly, of one image in the samples and of
// one that has none.
func exact() *Recording {
	r := three()
	c := r.Counts[0]
	app := c.Image(ImageID{Build: id(0xb1, 0xd0)})
	c.AddProbed(app, 0x1150, Probed{Windows: 80, Covered: 313e6, Runs: 1 << 20, Variance: Square{1, 7},
		Outcomes: 5000, Taken: 4800, Spread: SquareOf(50 * 50)})
	c.AddProbed(app, 0x1160, Probed{Windows: 3, Outcomes: 9})
	only := &Counts{}
	app = only.Image(ImageID{Build: id(0xb1, 0xd0), Path: "/usr/bin/app"})
	only.AddCounted(app, 0x1139, 1<<40)
	only.AddCounted(app, 0x1200, 0)
	r.Add(only)
	return r
}

// walked is exact with what walks passed through.
func walked() *Recording {
	r := exact()
	c := r.Counts[0]
	app := c.Image(ImageID{Build: id(0xb1, 0xd0)})
	c.AddProbed(app, 0x1150, Probed{Windows: 12, Outcomes: 300, Taken: 280, Spread: SquareOf(90), Visits: 300})
	c.AddProbed(app, 0x1170, Probed{Windows: 12, Visits: 17})
	return r
}

// TestDumpWalked pins what walks add to the format.
func TestDumpWalked(t *testing.T) {
	checkDump(t, walked(), "testdata/walked.dump")
	if got, want := walked().Observed(nil), (ObservedPlaces{Probed: 2, Walked: 2, Counted: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	const w = 3
	for _, c := range Merge(walked()).Counts {
		for _, ic := range c.Images {
			if p, ok := ic.Probed[0x1170]; ok && p.scale(w).Visits != 17*w {
				t.Errorf("%g times as much is %+v", float64(w), p.scale(w))
			}
		}
	}
}

// TestDumpTimed pins what walks that are timed add to the format. They are scaled as what they cover is, and are none of
// windows.
func TestDumpTimed(t *testing.T) {
	r := walked()
	c := r.Counts[0]
	app := c.Image(ImageID{Build: id(0xb1, 0xd0)})
	timed := Probed{Windows: 12, Covered: 313e6, Runs: 1 << 30, Variance: SquareOf(1 << 50), Visits: 170, Timed: 313e6}
	c.AddProbed(app, 0x1180, timed)
	checkDump(t, r, "testdata/timed.dump")
	if got, want := r.Observed(nil), (ObservedPlaces{Probed: 2, Walked: 3, Counted: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if p := timed.scale(3); p.Timed != 3*timed.Timed || p.Covered != p.Timed {
		t.Errorf("three times as much is %+v", p)
	}
	timed.Timed++
	if timed.fault() == "" {
		t.Errorf("%+v has no fault", timed)
	}
}

// TestDumpObserved pins what observed counts add to the format.
func TestDumpObserved(t *testing.T) {
	checkDump(t, exact(), "testdata/exact.dump")
	both := Merge(exact(), touched())
	if got, err := Decode(both.Encode()); err != nil || !bytes.Equal(got.Encode(), both.Encode()) {
		t.Errorf("beside first touches: %v", err)
	}
	if got, want := both.Observed(nil), (ObservedPlaces{Probed: 2, Counted: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := both.Observed(func(id ImageID) bool { return id.Build.IsZero() }); got != (ObservedPlaces{}) {
		t.Errorf("%+v in an image that has none", got)
	}
}

func TestSquare(t *testing.T) {
	const word = 1 << 64
	largest := Square{math.MaxUint64, math.MaxUint64}
	for _, tt := range []struct {
		x    float64
		want Square
	}{
		{0, Square{}}, {-1, Square{}}, {math.NaN(), Square{}}, {math.Inf(-1), Square{}},
		{0.4, Square{}}, {0.5, Square{0, 1}}, {3, Square{0, 3}},
		{word - 2048, Square{0, math.MaxUint64 - 2047}}, {word, Square{1, 0}},
		{1.5 * word, Square{1, 1 << 63}}, {word * word / 2, Square{1 << 63, 0}},
		{word * word, largest}, {math.Inf(1), largest},
	} {
		got := SquareOf(tt.x)
		if got != tt.want {
			t.Errorf("SquareOf(%g) = %v, want %v", tt.x, got, tt.want)
		}
		if back := got.Float64(); tt.x >= 1 && tt.x < word*word && back != tt.x {
			t.Errorf("%g came back as %g", tt.x, back)
		}
	}
	for _, tt := range []struct{ a, b, want Square }{
		{Square{0, 1}, Square{0, 2}, Square{0, 3}},
		{Square{0, math.MaxUint64}, Square{0, 1}, Square{1, 0}},
		{Square{math.MaxUint64, 5}, Square{0, 7}, Square{math.MaxUint64, 12}},
		{Square{math.MaxUint64, math.MaxUint64}, Square{0, 1}, largest},
		{Square{1 << 63, 0}, Square{1 << 63, 0}, largest},
	} {
		if got := tt.a.Add(tt.b); got != tt.want {
			t.Errorf("%v + %v = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestCheckObserved(t *testing.T) {
	for _, tt := range []struct {
		p  Probed
		ok bool
	}{
		{Probed{Windows: 1}, true},
		{Probed{Windows: 1, Covered: 5}, true},
		{Probed{Windows: 1, Outcomes: 5, Taken: 5}, true},
		{Probed{Outcomes: 5}, false},
		{Probed{Windows: 1, Runs: 1}, false},
		{Probed{Windows: 1, Variance: Square{0, 1}}, false},
		{Probed{Windows: 1, Covered: 1, Variance: Square{0, 5}}, true},
		{Probed{Windows: 1, Outcomes: 4, Taken: 5}, false},
		{Probed{Windows: 1, Spread: Square{1, 0}}, false},
	} {
		c := NewCounts(CPU{}, Event{})
		c.AddProbed(c.Image(ImageID{Path: "/a"}), 1, tt.p)
		if err := c.Check(); err == nil != tt.ok {
			t.Errorf("%+v: %v", tt.p, err)
		}
	}
}

func TestAddProbed(t *testing.T) {
	const most = math.MaxUint64
	c := NewCounts(CPU{}, Event{})
	i := c.Image(ImageID{Path: "/a"})
	c.AddProbed(i, 1, Probed{})
	if c.Images[i].Probed != nil {
		t.Error("nothing was added, and there is something")
	}
	c.AddProbed(i, 1, Probed{Windows: 1, Covered: 2, Runs: 3, Variance: Square{0, most}, Outcomes: most - 1, Taken: 5, Spread: Square{most, 6}})
	c.AddProbed(i, 1, Probed{Windows: 10, Covered: 20, Runs: 30, Variance: Square{0, 1}, Outcomes: 40, Taken: 50, Spread: Square{1, 60}})
	want := Probed{Windows: 11, Covered: 22, Runs: 33, Variance: Square{1, 0}, Outcomes: most, Taken: 55, Spread: Square{most, most}}
	if got := c.Images[i].Probed[1]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestScaleObserved: sums of halves are the whole, as far as integers can be halved;
// rates and shares stay, and no estimate becomes certain.
func TestScaleObserved(t *testing.T) {
	c := NewCounts(CPU{}, Event{})
	i := c.Image(ImageID{Path: "/a"})
	c.AddProbed(i, 1, Probed{Windows: 7, Covered: 1e9, Runs: 4e6, Variance: SquareOf(1e8), Outcomes: 1000, Taken: 250, Spread: SquareOf(100)})
	c.AddProbed(i, 2, Probed{Windows: 7, Covered: 1e9})
	c.AddProbed(i, 3, Probed{Windows: 7, Outcomes: 4, Taken: 4, Spread: Square{0, 1}})
	c.AddProbed(i, 4, Probed{Windows: 7})
	c.AddCounted(i, 1, 1e6)
	c.AddCounted(i, 5, 1)
	c.AddCounted(i, 6, 0)
	r := &Recording{Counts: []*Counts{c}}
	for _, tt := range []struct {
		w       float64
		probed  map[Offset]Probed
		counted map[Offset]uint64
	}{
		{0.25, map[Offset]Probed{
			1: {Windows: 7, Covered: 25e7, Runs: 1e6, Variance: SquareOf(6250000), Outcomes: 250, Taken: 63, Spread: Square{0, 7}},
			2: {Windows: 7, Covered: 25e7},
			3: {Windows: 7, Outcomes: 1, Taken: 1, Spread: Square{0, 1}},
		}, map[Offset]uint64{1: 25e4, 6: 0}},
		{2, map[Offset]Probed{
			1: {Windows: 7, Covered: 2e9, Runs: 8e6, Variance: SquareOf(4e8), Outcomes: 2000, Taken: 500, Spread: SquareOf(400)},
			2: {Windows: 7, Covered: 2e9},
			3: {Windows: 7, Outcomes: 8, Taken: 8, Spread: Square{0, 4}},
		}, map[Offset]uint64{1: 2e6, 5: 2, 6: 0}},
		{1e-12, nil, nil},
	} {
		s := r.Scale(tt.w)
		check(t, s)
		want := NewCounts(CPU{}, Event{})
		i := want.Image(ImageID{Path: "/a"})
		want.Images[i].Probed, want.Images[i].Counted = tt.probed, tt.counted
		if got, want := s.Encode(), (&Recording{Counts: []*Counts{want}}).Encode(); !bytes.Equal(got, want) {
			t.Errorf("times %g:\n%s\nwant\n%s", tt.w, Dump(got), Dump(want))
		}
	}
}

// TestProbedSize: a thousand probed branches and as many counted places cost less
// than a thousand frames of stacks.
func TestProbedSize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 4))
	size := func(fill func(c *Counts, i int, off Offset)) int {
		c := NewCounts(CPU{}, Event{})
		i := c.Image(ImageID{Path: "/a"})
		for off := range Offset(1000) {
			fill(c, i, 0x1000+off*200)
		}
		return len((&Recording{Counts: []*Counts{c}}).Encode())
	}
	probed := size(func(c *Counts, i int, off Offset) {
		n := 1 + rnd.Uint64N(1e5)
		c.AddProbed(i, off, Probed{Windows: 80, Covered: 60e9, Runs: n * 1000, Variance: SquareOf(float64(n) * float64(n) * 1e4),
			Outcomes: n, Taken: n / 3, Spread: SquareOf(float64(n) * 10)})
	})
	counted := size(func(c *Counts, i int, off Offset) { c.AddCounted(i, off, 1+rnd.Uint64N(1e9)) })
	t.Logf("1000 places probed: %d bytes, counted: %d bytes", probed, counted)
	if probed > 40000 || counted > 8000 {
		t.Error("more than 40 bytes for a place probed, or 8 for one counted")
	}
}
