package trace

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"unsafe"

	"backfeed/sample"
)

// encodeTrail is what bpf/walker.c writes.
func encodeTrail(t *path) []byte {
	raw := trail{start: t.start, steps: t.steps, end: uint32(t.end), outcomes: uint32(len(t.outcomes)), targets: uint32(len(t.targets)),
		pages: t.pages, left: t.left}
	for i, how := range t.outcomes {
		raw.taken[i/64] |= uint64(how/viaTaken&1) << (i % 64)
		raw.guessed[i/64] |= uint64(how/viaGuessed&1) << (i % 64)
	}
	copy(raw.target[:], t.targets)
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), trailSize+4*len(t.targets)))
}

func TestDecodeTrail(t *testing.T) {
	all := make([]via, mostOutcomes)
	for i := range all {
		all[i] = via(i%4) * viaTaken
	}
	for _, want := range []path{
		{start: 7, steps: 512},
		{start: 1, steps: 3, end: 2, outcomes: []via{viaTaken, viaGuessed, viaTaken | viaGuessed}, targets: []uint32{9, 1 << 31}},
		{start: 1, steps: 3, outcomes: all},
		{start: 1, steps: 3, end: EndOutside, left: 1 << 40, pages: 5, outcomes: []via{0}},
	} {
		b := encodeTrail(&want)
		got, err := decodeTrail(b)
		if err != nil || got.start != want.start || got.steps != want.steps || got.end != want.end || got.left != want.left || got.pages != want.pages ||
			!slices.Equal(got.outcomes, want.outcomes) || !slices.Equal(got.targets, want.targets) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		for _, cut := range []int{0, 4, trailSize - 1} {
			if _, err := decodeTrail(b[:cut]); !errors.Is(err, errTrail) {
				t.Errorf("%d bytes: %v", cut, err)
			}
		}
	}
	for _, bad := range []path{{end: Ends}, {targets: []uint32{1}}} {
		b := encodeTrail(&bad)[:trailSize]
		if _, err := decodeTrail(b); !errors.Is(err, errTrail) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func FuzzDecodeTrail(f *testing.F) {
	f.Add(encodeTrail(&path{start: 2, steps: 9, outcomes: []via{viaTaken, viaGuessed}, targets: []uint32{4, 7}}))
	c := NewCode(twoImages())
	f.Fuzz(func(t *testing.T, b []byte) {
		if tr, err := decodeTrail(b); err == nil {
			tr.steps &= 1<<16 - 1
			c.follow(&tr, func(b passed) {
				if int(b.op) >= len(c.Ops) || !c.Ops[b.op].Kind.Branch() || int(b.to) >= len(c.Ops) {
					t.Fatalf("%+v is no branch", b)
				}
			})
			var w Walks
			w.SetCode(c)
			w.KeepPaths()
			w.add(&tr, 0)
			counts := sample.NewCounts(sample.CPU{}, sample.Event{})
			w.AddTo(counts, nil)
			if err := counts.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// callingImage has a loop (operations 1 to 3) that calls a procedure (5 to 7) with a
// branch of its own.
func callingImage() []Image {
	return []Image{{ID: sample.ImageID{Path: "/c"}, Procs: [][]Inst{{
		{Addr: 0x1000, Off: 0x1000, Proc: 0x1000},
		{Addr: 0x1001, Off: 0x1001, Proc: 0x1000, Target: 0x2000, Op: Op{Kind: Call}},
		{Addr: 0x1006, Off: 0x1006, Proc: 0x1000, Target: 0x1000, Op: Op{Kind: CondJump}},
		{},
		{Addr: 0x2000, Off: 0x2000, Proc: 0x2000},
		{Addr: 0x2001, Off: 0x2001, Proc: 0x2000, Target: 0x2000, Op: Op{Kind: CondJump}},
		{Addr: 0x2003, Off: 0x2003, Proc: 0x2000, Op: Op{Kind: Ret}},
		{},
	}}}}
}

func TestFollow(t *testing.T) {
	type step struct {
		op  uint32
		how via
	}
	c := NewCode(callingImage())
	for _, tt := range []struct {
		name string
		path
		want []step
		last uint32
	}{
		{"a call from outside", path{start: 2, steps: 6, outcomes: []via{viaTaken, viaGuessed}, targets: []uint32{3}},
			[]step{{2, viaTaken}, {6, viaTaken | viaInner}, {6, viaInner | viaGuessed}, {7, viaTaken | viaInner}}, 7},
		{"back to the caller", path{start: 6, steps: 4, outcomes: []via{0, viaTaken}, targets: []uint32{3}},
			[]step{{6, 0}, {7, viaTaken}, {3, viaTaken}}, 1},
		{"a return to nowhere", path{start: 7, steps: 5}, []step{{7, viaTaken}}, 7},
		{"an outcome that is missing", path{start: 5, steps: 5}, nil, 6},
		{"no instruction", path{start: 4, steps: 2}, nil, 5},
		{"nowhere", path{start: 0, steps: 2}, nil, 0},
		{"no operation", path{start: 99, steps: 2}, nil, 0},
	} {
		var got []step
		last := c.follow(&tt.path, func(b passed) { got = append(got, step{b.op, b.how}) })
		if !slices.Equal(got, tt.want) || last != tt.last {
			t.Errorf("%s: %v to %d, want %v to %d", tt.name, got, last, tt.want, tt.last)
		}
	}
}

func TestBranchSum(t *testing.T) {
	for _, tt := range []struct {
		name    string
		batches [][2]float64 // executions, and those that were taken
		chance  bool         // no batch differs from others by more than chance
	}{
		{"alike", [][2]float64{{100, 30}, {100, 30}, {200, 60}}, true},
		{"phases", [][2]float64{{1000, 0}, {1000, 1000}}, false},
		{"always", [][2]float64{{10, 10}, {7, 7}}, true},
		{"never", [][2]float64{{10, 0}}, true},
		{"once", [][2]float64{{1, 1}}, true},
	} {
		var p branchSum
		var n, taken float64
		for _, b := range tt.batches {
			p.outer.add(b[0], b[1])
			n, taken = n+b[0], taken+b[1]
		}
		got := p.probed(len(tt.batches), true)
		share := taken / n
		chance := n * share * (1 - share)
		spread := got.Spread.Float64()
		if got.Taken > got.Outcomes || got.Windows != uint64(len(tt.batches)) || got.Visits != got.Outcomes {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if spread < chance {
			t.Errorf("%s: a spread of %.1f, less than the %.1f of chance", tt.name, spread, chance)
		}
		if most := 2*clump*chance + 1; (spread <= most) != tt.chance {
			t.Errorf("%s: a spread of %.1f; that of chance is %.1f", tt.name, spread, chance)
		}
		if got := p.probed(len(tt.batches), false); got.Outcomes != 0 || got.Taken != 0 || got.Visits == 0 && n >= 1 {
			t.Errorf("%s, no condition: %+v", tt.name, got)
		}
	}
	if got := (&branchSum{}).probed(0, true); got.Outcomes != 0 || got.Windows != 1 {
		t.Errorf("nothing seen: %+v", got)
	}
}

// TestInner: calls that began in a walk tell where branches go, but no surer than they
// are like all others.
func TestInner(t *testing.T) {
	for _, tt := range []struct {
		name         string
		outer, inner [2]float64 // executions, and those that were taken
		least, most  float64    // share that is taken
		sure, unsure float64    // least and most standard deviation of its logit
	}{
		{"one kind", [2]float64{10000, 1000}, [2]float64{0, 0}, 0.0999, 0.1001, 0.06, 0.07},
		{"calls only", [2]float64{0, 0}, [2]float64{10000, 1000}, 0.0999, 0.1001, innerSD, innerSD * 1.01},
		{"few calls", [2]float64{0, 0}, [2]float64{100, 10}, 0.0999, 0.1001, 0.6, 0.7},
		{"both, much of each", [2]float64{15000, 1500}, [2]float64{3000, 1000}, 0.1, 0.12, 0.04, 0.06},
		{"both, little of one", [2]float64{20, 10}, [2]float64{100000, 10000}, 0.09, 0.2, 0.15, innerSD},
		{"always", [2]float64{100, 100}, [2]float64{100, 100}, 1, 1, 0, math.Inf(1)},
	} {
		var p branchSum
		p.outer.add(tt.outer[0], tt.outer[1])
		p.inner.add(tt.inner[0], tt.inner[1])
		got := p.probed(1, true)
		n := float64(got.Outcomes)
		share := float64(got.Taken) / n
		if got.Outcomes != uint64(tt.outer[0]+tt.inner[0]) || got.Visits != got.Outcomes || share < tt.least || share > tt.most {
			t.Errorf("%s: %+v, a share of %.4f", tt.name, got, share)
		}
		if sd := math.Sqrt(got.Spread.Float64()) / n / (share * (1 - share)); sd < tt.sure || sd > tt.unsure {
			t.Errorf("%s: a logit known to %.3f", tt.name, sd)
		}
	}
}

func TestWalks(t *testing.T) {
	code := NewCode(callingImage())
	var w Walks
	w.SetCode(code)
	// Twice around the loop, and in another batch once, cut short, with a way that was guessed.
	w.add(&path{start: 1, steps: 12, outcomes: []via{0, viaTaken, viaTaken, 0}, targets: []uint32{3, 3}}, 3)
	w.add(&path{start: 1, steps: 7, end: 1, outcomes: []via{viaTaken, viaGuessed}}, 5)
	w.add(&path{start: 0, steps: 7}, 6) // nowhere: as if it had not been
	check := func(when string, want map[sample.Offset]sample.Probed) {
		t.Helper()
		counts := sample.NewCounts(sample.CPU{}, sample.Event{})
		w.AddTo(counts, nil)
		if err := counts.Check(); err != nil {
			t.Error(err)
		}
		got := counts.Images[0].Probed
		if len(counts.Images) != 1 || len(got) != len(want) {
			t.Fatalf("%s: %v", when, got)
		}
		for off, want := range want {
			p := got[off]
			p.Spread = sample.Square{}
			if p != want {
				t.Errorf("%s, at %#x: %+v, want %+v", when, off, p, want)
			}
		}
	}
	want := map[sample.Offset]sample.Probed{
		0x1001: {Windows: 2, Visits: 3},
		0x1006: {Windows: 2, Visits: 1, Outcomes: 1, Taken: 1},
		0x2001: {Windows: 2, Visits: 5, Outcomes: 4, Taken: 2},
		0x2003: {Windows: 2, Visits: 2},
	}
	check("kept", want)
	check("once more", want)

	w.Forget()
	counts := sample.NewCounts(sample.CPU{}, sample.Event{})
	w.AddTo(counts, nil)
	if len(counts.Images) != 0 {
		t.Errorf("%d images are not forgotten", len(counts.Images))
	}

	// So many walks that the first are not kept one by one.
	for range mostWalks + 10 {
		w.add(&path{start: 3, steps: 1, outcomes: []via{0}}, 0)
	}
	if len(w.walks) != 10 {
		t.Errorf("%d walks are kept", len(w.walks))
	}
	check("summed up", map[sample.Offset]sample.Probed{0x1006: {Windows: 2, Visits: mostWalks + 10, Outcomes: mostWalks + 10}})
}

// TestWhereLeft: walks that leave the code that is known tell where they went on to, by direct
// branches and by others.
func TestWhereLeft(t *testing.T) {
	images := twoImages()
	c := NewCode(images)
	var w Walks
	w.SetCode(c)
	for _, tr := range []path{
		{start: 6, steps: 1, end: EndOutside},                                         // jumps to 0x500000
		{start: 6, steps: 1, end: EndOutside, left: 0x1234, pages: c.Ranges[2].Pages}, // likewise
		{start: 4, steps: 1, end: EndOutside, left: 0x1234, pages: c.Ranges[2].Pages}, // no branch: as far as is known
		{start: 4, steps: 1, end: EndOutside},                                         // nowhere that is known
		{start: 4, steps: 1, left: 0x1234, pages: c.Ranges[2].Pages},                  // to its full length
		{start: 0, steps: 0, end: EndOutside, left: 0x1234, pages: c.Ranges[2].Pages}, // without an operation
	} {
		w.add(&tr, 0)
	}
	got, n := w.Left()
	want := map[Left]int{{images[0].ID.Key(), 0x500000}: 2, {images[2].ID.Key(), 0x1234}: 1}
	if !maps.Equal(got, want) || n != 6 {
		t.Errorf("%v of %d walks, want %v", got, n, want)
	}
	w.SetCode(c)
	if got, n := w.Left(); len(got) != 0 || n != 0 {
		t.Errorf("%v of %d walks through other code", got, n)
	}
}
