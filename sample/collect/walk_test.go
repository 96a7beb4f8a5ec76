package collect

import (
	"math"
	"testing"

	"backfeed/sample"
)

// Two images; of the first, an address has two operations, and one operation is no
// instruction. What is counted are branches.
func twoWalkImages() []WalkImage {
	return []WalkImage{
		{ID: sample.ImageID{Path: "/a"}, Ops: []WalkOp{
			{Addr: 0x401000, Off: 0x1000, Kind: 1},
			{Addr: 0x401003, Off: 0x1003, Kind: 1, Target: 0x401010, Counts: true, Conditional: true},
			{},
			{Addr: 0x401010, Off: 0x1010, Kind: 1},
			{Addr: 0x401003, Off: 0x1003, Kind: 1, Target: 0x401000, Counts: true, Conditional: true},
			{Addr: 0x401012, Off: 0x1012, Kind: 1, Target: 0x500000, Counts: true},
		}},
		{ID: sample.ImageID{Path: "/empty"}},
		{ID: sample.ImageID{Path: "/b"}, Ops: []WalkOp{
			{Addr: 0x1400, Off: 0x400, Kind: 1, Target: 0x1300, Counts: true},
			{Addr: 0x1300, Off: 0x300, Kind: 1, Target: 0x1400, Counts: true, Conditional: true},
		}},
	}
}

func TestNewWalkCode(t *testing.T) {
	images := twoWalkImages()
	c := newWalkCode(images)
	// at is what bpf/walker.c does to find an operation.
	at := func(image int, addr uint64) uint32 {
		r := &c.images[image]
		p := (addr - r.first) / walkPage
		if p >= uint64(r.many) {
			return 0
		}
		p = uint64(c.pages[uint64(r.pages)+p])
		if p == 0 {
			return 0
		}
		return c.starts[p*walkPage+addr%walkPage]
	}
	for _, tt := range []struct {
		image int
		addr  uint64
		want  uint32
	}{
		{0, 0x401000, 1}, {0, 0x401003, 2}, {0, 0x401010, 4}, {0, 0x401012, 6},
		{0, 0x401001, 0}, {0, 0x400fff, 0}, {0, 0x402003, 0}, {2, 0x1fff, 0}, {2, 0x2300, 0}, {2, 0x300, 0},
		{2, 0x1400, 7}, {2, 0x1300, 8}, {2, 0x1301, 0}, {2, 0x1401, 0},
	} {
		if got := at(tt.image, tt.addr); got != tt.want {
			t.Errorf("image %d, %#x: operation %d, want %d", tt.image, tt.addr, got, tt.want)
		}
	}
	if len(c.ops) != 9 || len(c.targets) != len(c.ops) || len(c.image) != len(c.ops) {
		t.Fatalf("%d operations, %d targets, %d images of them; want 9 of each", len(c.ops), len(c.targets), len(c.image))
	}
	for op, want := range []uint32{0, 0, 4, 0, 0, 1, 0, 8, 7} {
		if c.targets[op] != want {
			t.Errorf("operation %d goes to %d, want %d", op, c.targets[op], want)
		}
	}
	for k, want := range []uint32{2, 5, 6, 7, 8} {
		if len(c.counted) != 5 || c.counted[k] != want {
			t.Fatalf("counted are %v", c.counted)
		}
	}
	for i, want := range []struct {
		lo, hi sample.Offset
		delta  uint64
	}{{0x1000, 0x1013, 0x400000}, {}, {0x300, 0x401, 0x1000}} {
		if r := c.images[i]; r.lo != want.lo || r.hi != want.hi || r.delta != want.delta {
			t.Errorf("image %d: offsets %#x to %#x, addresses %#x more; want %#x", i, r.lo, r.hi, r.delta, want)
		}
	}
}

func TestWalkedPlace(t *testing.T) {
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
		var p walkedPlace
		var n, taken float64
		for _, b := range tt.batches {
			p.add(walkTally{n: uint32(b[0]), taken: uint32(b[1])})
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
	if got := (&walkedPlace{}).probed(0, true); got.Outcomes != 0 || got.Windows != 1 {
		t.Errorf("nothing seen: %+v", got)
	}
}

// TestWalkedInner: calls that began in a walk tell where branches go, but no surer than they
// are like all others.
func TestWalkedInner(t *testing.T) {
	tally := func(n, taken, inner, innerTaken uint32) walkTally {
		return walkTally{n: n + inner, taken: taken + innerTaken, inner: inner, innerTaken: innerTaken}
	}
	for _, tt := range []struct {
		name         string
		seen         walkTally
		least, most  float64 // share that is taken
		sure, unsure float64 // least and most standard deviation of its logit
	}{
		{"one kind", tally(10000, 1000, 0, 0), 0.0999, 0.1001, 0.06, 0.07},
		{"calls only", tally(0, 0, 10000, 1000), 0.0999, 0.1001, innerSD, innerSD * 1.01},
		{"few calls", tally(0, 0, 100, 10), 0.0999, 0.1001, 0.6, 0.7},
		{"both, much of each", tally(15000, 1500, 3000, 1000), 0.1, 0.12, 0.04, 0.06},
		{"both, little of one", tally(20, 10, 100000, 10000), 0.09, 0.2, 0.15, innerSD},
		{"always", tally(100, 100, 100, 100), 1, 1, 0, math.Inf(1)},
	} {
		var p walkedPlace
		p.add(tt.seen)
		got := p.probed(1, true)
		n := float64(got.Outcomes)
		share := float64(got.Taken) / n
		if got.Outcomes != uint64(tt.seen.n) || got.Visits != got.Outcomes || share < tt.least || share > tt.most {
			t.Errorf("%s: %+v, a share of %.4f", tt.name, got, share)
		}
		if sd := math.Sqrt(got.Spread.Float64()) / n / (share * (1 - share)); sd < tt.sure || sd > tt.unsure {
			t.Errorf("%s: a logit known to %.3f", tt.name, sd)
		}
	}
}

func TestWalkTallyNext(t *testing.T) {
	var last walkTally
	for i, tt := range []struct{ now, want walkTally }{
		{walkTally{10, 4, 3, 2}, walkTally{10, 4, 3, 2}},
		{walkTally{10, 5, 3, 2}, walkTally{}}, // one that was taken is not counted in n yet
		{walkTally{11, 5, 4, 3}, walkTally{1, 1, 1, 1}},
		{walkTally{13, 6, 5, 3}, walkTally{2, 1, 1, 0}},
		{walkTally{2, 6, 5, 3}, walkTally{1<<32 - 11, 0, 0, 0}}, // a count that wraps goes on
	} {
		if got := last.next(tt.now); got != tt.want {
			t.Errorf("look %d: %+v, want %+v", i, got, tt.want)
		}
	}
}

func TestWalked(t *testing.T) {
	images := twoWalkImages()
	code := newWalkCode(images)
	var w walked
	w.batch(code, images, []walkTally{{}, {}, {}, {}, {}})
	w.batch(code, images, []walkTally{{n: 100, taken: 50}, {n: 20, taken: 0}, {n: 7, taken: 0}, {}, {}})
	w.batch(code, images, []walkTally{{n: 80, taken: 50}, {}, {}, {n: 9, taken: 0}, {n: 40, taken: 10}})
	counts := sample.NewCounts(sample.CPU{}, sample.Event{})
	w.addTo(counts)
	got := map[string]map[sample.Offset]sample.Probed{}
	for _, ic := range counts.Images {
		got[ic.ID.Path] = ic.Probed
	}
	if len(got) != 2 || len(got["/a"]) != 2 || len(got["/b"]) != 2 {
		t.Fatalf("seen: %v", got)
	}
	for _, tt := range []struct {
		path                    string
		off                     sample.Offset
		visits, outcomes, taken uint64
	}{
		{"/a", 0x1003, 200, 200, 100}, // two operations at one address add up
		{"/a", 0x1012, 7, 0, 0},
		{"/b", 0x400, 9, 0, 0},
		{"/b", 0x300, 40, 40, 10},
	} {
		p := got[tt.path][tt.off]
		// A batch in which nothing ran is none.
		if p.Visits != tt.visits || p.Outcomes != tt.outcomes || p.Taken != tt.taken || p.Windows != 2 {
			t.Errorf("%s at %#x: %+v, want %+v", tt.path, tt.off, p, tt)
		}
	}
	if err := counts.Check(); err != nil {
		t.Error(err)
	}

	w.forget()
	counts = sample.NewCounts(sample.CPU{}, sample.Event{})
	w.addTo(counts)
	if len(counts.Images) != 0 {
		t.Errorf("%d images are not forgotten", len(counts.Images))
	}
	w.batch(code, images, []walkTally{{n: 3, taken: 1}, {}, {}, {}, {}})
	w.addTo(counts)
	if p := counts.Images[0].Probed[0x1003]; p.Windows != 1 || p.Outcomes != 3 || p.Taken != 1 {
		t.Errorf("after it was forgotten: %+v", p)
	}
}
