package truth

import (
	"math"
	"slices"
	"testing"

	"backfeed/infer/document"
	"backfeed/infer/image"
)

// worked is a case that can be followed by hand. The document is of ten runs,
// the truth of one: its 550 executed instructions are 55 there, scale 0.1. The median
// factor, by samples, is that of D: 5/49.
//
//	block  insns  count  truth  error  samples  confidence
//	A 100  2      124    10     +24 %  6        high
//	B 104  1      57     4      +42 %  3        medium
//	C 108  2      0      2      -100 % 1        none
//	D 118  1      49     5      -2 %   8        high
//	E 11c  1      108    10     +8 %   4        high
//	F 120  1      88     10     -12 %  6        low
//	- 200  1      -      2      -100 % 2
//
//	edge            count  truth                      confidence
//	A > C taken     65     6                +8 %      high
//	A > B falls     40     10 - 6 taken     0         medium
//	B > D taken     10     0                          low
//	C > A indirect  0      2                -100 %    none
//	E > F falls     100    10               0         low
//	D > 500         -      5, a tail call
//	200 > 100       -      2, from no block -100 %
func worked() (*document.Counts, *Counts, SamplesByAddr) {
	const none, low, medium, high = document.None, document.Low, document.Medium, document.High
	block := func(addr document.Addr, size uint64, insns int, n document.Count, conf document.Confidence) document.Block {
		return document.Block{Addr: addr, Size: size, Insns: insns, Count: n, Confidence: conf, Within: conf}
	}
	edge := func(from, to document.Addr, kind image.Kind, n document.Count, conf document.Confidence) document.Edge {
		return document.Edge{From: from, To: to, Kind: kind.String(), Count: n, Confidence: conf, Within: conf}
	}
	c := block(0x108, 8, 2, 0, none)
	c.Cold = true
	doc := &document.Counts{Images: []document.Image{{ImageHeader: document.ImageHeader{Path: "/usr/bin/app"}, Procs: []document.Proc{{
		Procedure: "f", Addr: 0x100, Size: 0x40, Entries: 124, Confidence: low,
		Blocks: []document.Block{
			block(0x100, 4, 2, 124, high), block(0x104, 4, 1, 57, medium), c,
			block(0x118, 4, 1, 49, high), block(0x11c, 4, 1, 108, high), block(0x120, 4, 1, 88, low),
		},
		Edges: []document.Edge{
			edge(0x100, 0x108, image.Taken, 65, high), edge(0x100, 0x104, image.FallThrough, 40, medium), edge(0x104, 0x118, image.Taken, 10, low),
			edge(0x108, 0x100, image.Indirect, 0, none), edge(0x11c, 0x120, image.FallThrough, 100, low),
		},
	}}}}}
	truth := &Counts{Images: map[string]*Image{"/bin/app": {
		Insts: map[image.Addr]uint64{
			0x100: 10, 0x102: 10, 0x104: 4, 0x108: 2, 0x10c: 2, 0x118: 5, 0x11c: 10, 0x120: 10, 0x200: 2,
		},
		Jumps: map[Transfer]uint64{{0x102, 0x108}: 6, {0x10c, 0x100}: 2, {0x118, 0x500}: 5, {0x200, 0x100}: 2},
	}}}
	samples := SamplesByAddr{
		"/srv/app": {0x100: 6, 0x104: 3, 0x108: 1, 0x118: 8, 0x11c: 4, 0x120: 6, 0x200: 2, 0x300: 5},
		"/srv/lib": {0x100: 99},
	}
	return doc, truth, samples
}

// nearly reports whether two shares are equal but for rounding.
func nearly(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestCompare(t *testing.T) {
	doc, truth, samples := worked()
	a := Compare(doc, truth, samples)
	plain := Compare(doc, truth, nil)
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"scale", a.Scale, 0.1},
		// The smaller share of each: of A, B and E it is the true one, of D and F the estimated one.
		{"overlap", a.Overlap, 34./55 + 137./550},
		{"block overlap", a.BlockOverlap, 24/41.5 + 137./426},
		{"edge overlap", a.EdgeOverlap, 6. / 15},
		{"within 5 %", a.Within5, 8. / 30},
		{"within 10 %", a.Within10, 12. / 30},
		{"within 15 %", a.Within15, 18. / 30},
		{"edges within 10 %", a.EdgeWithin10, 6. / 15},
		{"within 5 % by executions", plain.Within5, 5. / 55},
		{"within 10 % by executions", plain.Within10, 15. / 55},
		{"within 15 % by executions", plain.Within15, 25. / 55},
		{"given 0", a.Zero, 4. / 55},
		{"in no block", a.NoBlock, 2. / 55},
		{"samples where nothing ran", a.Unrun, 5. / 35},
		{"no samples where nothing ran", plain.Unrun, 0},
		{"called cold", a.Cold, 2 / 41.5},
		{"never ran and called cold", a.ColdUnrun, 0},
	} {
		if !nearly(tt.got, tt.want) {
			t.Errorf("%s: %.6f, want %.6f", tt.name, tt.got, tt.want)
		}
	}
}

// TestFactorPromises: what entries may be off by is held to its word, up and down, of procedures that ran and were told to.
func TestFactorPromises(t *testing.T) {
	doc, truth := &document.Counts{}, &Counts{Images: map[string]*Image{"/bin/app": {Insts: map[image.Addr]uint64{}}}}
	procs := []struct {
		entries document.Count
		ran     uint64
		factor  float64
	}{{120, 10, 12}, {10, 120, 12}, {130, 10, 12}, {10, 130, 12}, {400, 1, 500}, {0, 10, 500}, {10, 0, 500}, {7, 7, 0}}
	var im document.Image
	im.Path = "/bin/app"
	for i, p := range procs {
		addr := document.Addr(0x1000 * (i + 1))
		im.Procs = append(im.Procs, document.Proc{
			Addr: addr, Size: 4, Entries: p.entries, EntriesFactor: p.factor, Blocks: []document.Block{{Addr: addr, Size: 4, Insns: 1, Count: p.entries}},
		})
		if p.ran > 0 {
			truth.Images["/bin/app"].Insts[image.Addr(addr)] = p.ran
		}
	}
	doc.Images = []document.Image{im}
	want := []FactorPromise{{12, 4, 0.5}, {500, 1, 1}}
	if got := CompareRuns(doc, truth, nil, 1).Factors; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := CompareRuns(doc, truth, nil, 10).Factors; !slices.Equal(got, []FactorPromise{{12, 4, 0.5}, {500, 1, 1}}) { // of ten runs: the first ones are right
		t.Errorf("of ten runs: %+v", got)
	}
}

func TestHistograms(t *testing.T) {
	doc, truth, samples := worked()
	a := Compare(doc, truth, samples)
	for _, tt := range []struct {
		name string
		h    Histogram
		want map[float64]float64 // weight by lower bound of the bucket, of total
		all  float64
	}{
		{"instructions", a.InstErrors, map[float64]float64{math.Inf(-1): 3, -15: 6, -5: 8, 5: 4, 20: 6, 40: 3}, 30},
		{"edges", a.EdgeErrors, map[float64]float64{math.Inf(-1): 4, 0: 14, 5: 6}, 24},
	} {
		for i := range tt.h {
			low, high := tt.h.Bounds(i)
			if want := tt.want[low] / tt.all; !nearly(tt.h.Share(i), want) {
				t.Errorf("%s: from %g to %g %%: %.4f, want %.4f", tt.name, low, high, tt.h.Share(i), want)
			}
		}
	}
	// The factor is 0.1: of ten runs, the executions themselves are off by the same.
	if ten := CompareRuns(doc, truth, samples, 10); ten.InstAbsolute != a.InstErrors || ten.EdgesAbsolute != a.EdgeErrors {
		t.Errorf("of ten runs: instructions %v, edges %v; want %v, %v", ten.InstAbsolute, ten.EdgesAbsolute, a.InstErrors, a.EdgeErrors)
	}
	if one := CompareRuns(doc, truth, samples, 1); nearly(one.InstAbsolute.Between(-45, 45), a.InstErrors.Between(-45, 45)) {
		t.Errorf("of one run, as much is within 45 %% as of ten")
	}
	if got := a.InstErrors[14][document.High]; !nearly(got, 6./30) {
		t.Errorf("instructions of high confidence, 20 to 25 %% off: %.4f, want %.4f", got, 6./30)
	}
}

func TestHistogramAdd(t *testing.T) {
	for _, tt := range []struct{ err, low, high float64 }{
		{-1, math.Inf(-1), -45},
		{-0.46, math.Inf(-1), -45},
		{-0.44, -45, -40},
		{-0.01, -5, 0},
		{0, 0, 5},
		{0.44, 40, 45},
		{0.46, 45, math.Inf(1)},
		{1e300, 45, math.Inf(1)},
	} {
		var h Histogram
		h.add(tt.err, document.Low, 1)
		for i := range h {
			low, high := h.Bounds(i)
			if in := low == tt.low && high == tt.high; in != (h.Share(i) == 1) {
				t.Errorf("error %g: share %g between %g and %g %%", tt.err, h.Share(i), low, high)
			}
		}
	}
}

func TestCalibration(t *testing.T) {
	doc, truth, samples := worked()
	a, ten, one := Compare(doc, truth, samples), CompareRuns(doc, truth, samples, 10), CompareRuns(doc, truth, samples, 1)
	for _, tt := range []struct {
		name      string
		got, want Calibration
	}{
		{"blocks, high", a.BlockProgramWide[document.High], Calibration{3, Kept{18. / 30, 8. / 18, 1}, Kept{25 / 41.5, 5. / 25, 1}}},
		{"blocks, medium", a.BlockProgramWide[document.Medium], Calibration{1, Kept{3. / 30, 0, 1}, Kept{4 / 41.5, 0, 1}}},
		{"blocks, low", a.BlockProgramWide[document.Low], Calibration{1, Kept{6. / 30, 0, 1}, Kept{10 / 41.5, 0, 1}}},
		{"blocks, none", a.BlockProgramWide[document.None], Calibration{1, Kept{1. / 30, 0, 0}, Kept{2 / 41.5, 0, 0}}},
		{"edges, high", a.EdgeProgramWide[document.High], Calibration{1, Kept{}, Kept{6. / 24, 0, 1}}},
		{"edges, medium", a.EdgeProgramWide[document.Medium], Calibration{1, Kept{}, Kept{4. / 24, 1, 1}}},
		{"edges, low", a.EdgeProgramWide[document.Low], Calibration{2, Kept{}, Kept{10. / 24, 1, 1}}},
		{"edges, none", a.EdgeProgramWide[document.None], Calibration{1, Kept{}, Kept{2. / 24, 0, 0}}},
		{"procedures, low", a.ProcProgramWide[document.Low], Calibration{1, Kept{1, 0, 1}, Kept{1, 0, 1}}},
		{"blocks, high, of ten runs", ten.BlockAbsolute[document.High], Calibration{3, Kept{18. / 30, 12. / 18, 1}, Kept{25 / 41.5, 15. / 25, 1}}},
		{"edges, high, of ten runs", ten.EdgeAbsolute[document.High], Calibration{1, Kept{}, Kept{6. / 24, 1, 1}}},
		{"blocks, high, of one run", one.BlockAbsolute[document.High], Calibration{3, Kept{18. / 30, 0, 0}, Kept{25 / 41.5, 0, 0}}},
		{"edges, high, of one run", one.EdgeAbsolute[document.High], Calibration{1, Kept{}, Kept{6. / 24, 0, 0}}},
		{"blocks, high, of a number of runs that is not known", a.BlockAbsolute[document.High], Calibration{}},
	} {
		if tt.got.N != tt.want.N || !tt.got.Samples.nearly(tt.want.Samples) || !tt.got.Executions.nearly(tt.want.Executions) {
			t.Errorf("%s: got %+v, want %+v", tt.name, tt.got, tt.want)
		}
	}
}

// TestFactors: confidence is a promise about all counts of the program, shape about
// those of one procedure.
func TestFactors(t *testing.T) {
	proc := func(at document.Addr, count document.Count, conf document.Confidence) document.Proc {
		return document.Proc{Addr: at, Size: 8, Confidence: conf, Blocks: []document.Block{
			{Addr: at, Size: 4, Insns: 1, Count: count, Confidence: conf, Within: conf},
			{Addr: at + 4, Size: 4, Insns: 1, Count: 2 * count, Confidence: conf, Within: conf},
		}}
	}
	truth := &Counts{Images: map[string]*Image{"app": {Insts: map[image.Addr]uint64{
		0x100: 1000, 0x104: 2000, 0x200: 10, 0x204: 20,
	}}}}
	for _, conf := range []document.Confidence{document.Medium, document.High} {
		doc := &document.Counts{Images: []document.Image{{ImageHeader: document.ImageHeader{Path: "app"}, Procs: []document.Proc{
			proc(0x100, 1000, conf), proc(0x200, 100, conf),
		}}}}
		a := Compare(doc, truth, nil)
		if got, want := a.BlockProgramWide[conf].Samples.Within10, 3000./3030; !nearly(got, want) {
			t.Errorf("blocks of confidence %v: %.4f within 10 %%, want %.4f", conf, got, want)
		}
		if got := a.BlockWithinProc[conf].Samples.Within10; !nearly(got, 1) {
			t.Errorf("blocks of shape %v: %.4f within 10 %%, want 1", conf, got)
		}
		if got, want := a.ProcProgramWide[conf].Samples.Within2x, 3000./3030; !nearly(got, want) {
			t.Errorf("procedures: %.4f within a factor 2, want %.4f", got, want)
		}
	}
}

func (k Kept) nearly(o Kept) bool {
	return nearly(k.Weight, o.Weight) && nearly(k.Within10, o.Within10) && nearly(k.Within2x, o.Within2x)
}

// TestCompareNothing: shares of nothing are 0, not NaN.
func TestCompareNothing(t *testing.T) {
	doc, truth, _ := worked()
	for name, a := range map[string]*Accuracy{
		"empty document": Compare(&document.Counts{}, truth, nil),
		"empty truth":    Compare(doc, &Counts{}, nil),
		"another image":  Compare(doc, &Counts{Images: map[string]*Image{"/bin/other": {}}}, nil),
	} {
		for _, v := range []float64{a.Scale, a.Overlap, a.BlockOverlap, a.EdgeOverlap, a.Within10, a.EdgeWithin10} {
			if v != 0 {
				t.Errorf("%s: %+v, want 0 everywhere", name, a)
				break
			}
		}
	}
}
