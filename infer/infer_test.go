package infer

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// plainCost is one sample per 100 cycles, of which a block takes the power 0.6 of
// its instructions.
func plainCost(*Result) func(*image.Block) float64 {
	return func(b *image.Block) float64 { return math.Pow(float64(b.Insts), 0.6) / 100 }
}

// solved infers one procedure from samples by block.
func solved(t *testing.T, p *image.Proc, samples ...uint64) *Result {
	t.Helper()
	r := newResult(p)
	copy(r.BlockSamples, samples)
	for _, n := range samples {
		r.Samples += n
	}
	pose([]*Result{r}, plainCost, &outOfOrder, nil).run(false)
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSolve(t *testing.T) {
	for _, tt := range []struct {
		name    string
		g       string
		samples []uint64
		claim   func(n []float64) bool
	}{
		{"a silent block between sampled ones runs as often", "a5>b b2>c c5!", []uint64{100, 0, 100},
			func(n []float64) bool { return near(n[0], n[1], 1e-6) && near(n[1], n[2], 1e-6) }},
		{"the hot arm of a diamond carries the flow", "a4>b a>c b9>d c9>d d4!", []uint64{100, 300, 3, 100},
			func(n []float64) bool { return n[1] > 10*n[2] && near(n[1]+n[2], n[0], 1e-6) }},
		{"a loop runs more often than what leads to it", "a4>b b8>b b>c c4!", []uint64{2, 5000, 2},
			func(n []float64) bool { return n[1] > 200*n[0] && near(n[0], n[2], 1e-6) }},
		{"code that cannot return is believed cold", "a4>b a>c b4! c4*", []uint64{50, 50, 0},
			func(n []float64) bool { return n[2] < 0.02*n[0] }},
		{"what is likely follows without a jump", "a4>b a>c b4>d c4>d d4!", []uint64{50, 0, 0, 50},
			func(n []float64) bool { return n[1] > 1.5*n[2] }},
		{"one stalled block does not make its neighbours hot", "a6>b b6>c c6>d d6>e e6!", []uint64{100, 100, 9000, 100, 100},
			func(n []float64) bool { return n[2] < 4*100*100/math.Pow(6, 0.6) }},
	} {
		r := solved(t, graph(tt.g), tt.samples...)
		n := make([]float64, len(r.Block))
		for i, f := range r.Block {
			n[i] = f.N
		}
		if !tt.claim(n) {
			t.Errorf("%s: %.4g", tt.name, n)
		}
	}
}

// followed returns what follow takes of the only image of a program.
func followed(ip *ImageProfile) (*ImageProfile, *links) {
	return ip, newLinks([]*ImageProfile{ip}, false)
}

// TestCallsTie: a procedure without samples of its own runs as often as it is called.
func TestCallsTie(t *testing.T) {
	caller, callee := graph("a9>b b9>c c9!"), graph("a2!")
	callee.Addr = 0x2000
	caller.Calls = []image.Call{{Block: 1, To: callee.Addr}}
	a, b := newResult(caller), newResult(callee)
	a.BlockSamples, a.Samples = []uint64{500, 500, 500}, 1500
	pr := pose([]*Result{a, b}, plainCost, &outOfOrder, nil)
	pr.run(false)
	pr.follow(followed(&ImageProfile{Image: loadMix(t).image, Procs: []*Result{a, b}, Counts: &sample.ImageCounts{}}))
	if r := b.Entries.N / a.Block[1].N; r < 0.8 || r > 1.25 {
		t.Errorf("called %.4g times, ran %.4g times", a.Block[1].N, b.Entries.N)
	}
}

// TestPromises holds every result on random graphs and samples to Check, and to
// being the same twice.
func TestPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		p := randomGraph(rng, 1+rng.IntN(14))
		s := make([]uint64, len(p.Blocks))
		for b := range s {
			s[b] = uint64(math.Exp(rng.Float64()*12)) - 1
		}
		a, b := solved(t, p, s...), solved(t, p, s...)
		if !slices.Equal(a.Block, b.Block) || !slices.Equal(a.Edge, b.Edge) {
			t.Fatalf("%s: two runs differ", p.Name)
		}
	}
}

// TestSpread: the spread of a block's estimate shrinks with the blocks that say
// the same, and grows where samples are silent.
func TestSpread(t *testing.T) {
	par := outOfOrder
	par.levelSD, par.procSD = 0, 0 // nothing that all blocks have in common
	sd := func(g string, samples ...uint64) []float64 {
		q := newProblem(graph(g), samples, func(b *image.Block) float64 { return 0.01 }, &par)
		x := make([]float64, q.unknowns())
		newProgram([]*problem{q}, nil, 0.1).solve(x, false)
		s := q.spread(x, callers{}, false)
		for b, own := range s.block {
			s.block[b] = s.of(own)
		}
		return s.block
	}
	one := sd("a4!", 100)
	many := sd("a4>b b4>c c4>d d4>e e4>f f4>g g4>h h4!", 100, 100, 100, 100, 100, 100, 100, 100)
	if many[0] > 0.8*one[0] {
		t.Errorf("eight equal blocks: %.2f, one: %.2f", many[0], one[0])
	}
	arms := sd("a9>b a>c b2>d c2>d d9!", 500, 5, 0, 500)
	if arms[2] < 2*arms[0] {
		t.Errorf("silent arm %.2f, block before it %.2f", arms[2], arms[0])
	}
}

// TestSpreadOfRecursion: nobody else calling it, a procedure is entered as often as it calls itself, in disturbed searches,
// too: what leads to the call and the entry vary together. The derivatives are those of the value.
func TestSpreadOfRecursion(t *testing.T) {
	// As fib: a is the entry, b the loop around the call of itself, c the end of it, d what calls nothing.
	q := newProblem(graph("a6>b a>d b6>b b>c c6! d5!"), []uint64{11215, 4926, 4697, 13129}, func(b *image.Block) float64 { return float64(b.Insts) / 1e6 }, &outOfOrder)
	call := site{q: q, block: 1, out: -1, share: 1}
	pr := newProgram([]*problem{q}, []tie{{callee: 0, sites: []site{call}, sd: 0.1, above: 0.1}}, 0.1)
	x := make([]float64, q.unknowns())
	pr.solve(x, false)
	own := pr.spread(x, false)[0]
	pr.ties = nil
	free := pr.spread(x, false)[0]
	if a, b := own.block[0], own.block[1]; a > 0.2 || b > 0.2 || free.block[1] < 2*b {
		t.Errorf("standard deviations of entry and call are %.2f and %.2f, without calls of itself %.2f and %.2f", a, b, free.block[0], free.block[1])
	}

	by := callers{others: 1000, own: &tie{callee: 0, sites: []site{call}, sd: 0.3, above: 0.3}}
	f := q.recursive(by, rand.New(rand.NewPCG(1, 2)))
	g, h := make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		x[i] += 0.3 * float64(i+1) // the tie pulls
	}
	f(x, g)
	for i := range x {
		const d = 1e-5
		x[i] += d
		up := f(x, h)
		x[i] -= 2 * d
		down := f(x, h)
		x[i] += d
		if want := (up - down) / (2 * d); math.Abs(g[i]-want) > 1e-4*(1+math.Abs(want)) {
			t.Errorf("derivative %d is %g, want %g", i, g[i], want)
		}
	}
}

// TestAllowed: counts that are sure with 80 % confidence are allowed where surer ones make up for them, and those that more is
// asked of are not.
func TestAllowed(t *testing.T) {
	sure, half, hot := certain{weight: 1, own: 0.1, ask: 1}, certain{weight: 1, own: 0.5, ask: 1}, certain{weight: 1, own: 0.31, ask: 1 + asked}
	if p := half.likely(); math.Abs(p-0.834) > 0.001 { // of a normal variable within ln 2 / 0.5
		t.Fatalf("%.3f of what has a standard deviation of 0.5 is within a factor 2", p)
	}
	of := func(c certain, weight float64) certain { c.weight = weight; return c }
	for _, tt := range []struct {
		name       string
		of         []certain
		half, hot  bool
		atMost     float64 // standard deviations
		atLeastOne bool
	}{
		{name: "none", atMost: fourInFive},
		{"no surer ones", []certain{half}, false, false, mostly, false},
		{"too few of these", []certain{of(sure, 0.6), of(half, 0.4)}, false, false, mostly, true},
		{"enough of these", []certain{of(sure, 0.8), of(half, 0.2)}, true, false, fourInFive, true},
		{"a hot loop", []certain{of(sure, 0.8), of(hot, 0.2)}, true, false, fourInFive, true},
		{"the surer of two kinds", []certain{of(sure, 0.6), of(half, 0.3), {0.1, 0.43, 1}}, false, false, mostly, true},
	} {
		by := allowed(tt.of)
		if by > tt.atMost || by < fourInFive {
			t.Errorf("%s: %.3f standard deviations", tt.name, by)
		}
		if tt.name != "none" && (half.holds(by) != tt.half || hot.holds(by) != tt.hot) {
			t.Errorf("%s: by %.3f standard deviations, 0.5 holds: %t, a hot loop's: %t", tt.name, by, half.holds(by), hot.holds(by))
		}
		if tt.atLeastOne && !sure.holds(by) {
			t.Errorf("%s: what is sure does not hold by %.3f", tt.name, by)
		}
	}
}

// TestSkewed: what is asked with 90 % confidence, or of a normal variable, is as it was; with more, a tail on one side asks
// for more: 95 in 100 exponential variables, whose standard deviation is 1, are below 3.0 and 99 below 4.6.
func TestSkewed(t *testing.T) {
	const draws = 1e4
	for _, tt := range []struct{ ask, skew, want float64 }{{1, 2, 1}, {1.6, 0, 1.6}, {1.6, -0.02, 1.6}} {
		if got := skewed(tt.ask, tt.skew*draws, draws, draws); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%g standard deviations at a skewness of %g: %g, want %g", tt.ask, tt.skew, got, tt.want)
		}
	}
	const normal = 2.326 // 99 in 100 are below
	if got := mostly * (skewed(normal/mostly, 2*draws, draws, draws) - 1); math.Abs(got-1.6) > 0.1 {
		t.Errorf("from 95 to 99 in 100 exponential variables it is %.2f, want 1.6", got)
	}
	if got := skewed(1.6, 2*30, 30, 30); got > skewed(1.6, 2*draws, draws, draws) {
		t.Errorf("few draws ask for %g", got)
	}
}

// TestRetiredInstructions: samples of retired instructions are frequencies already,
// so the search has little to add to them, and is sure of what it says.
func TestRetiredInstructions(t *testing.T) {
	p := graph("a9>b a>c b4>d c12>d d3>a d>e e6!")
	truth := []float64{100000, 80000, 20000, 100000, 1000}
	par, costOf := costModel(&Profile{Event: sample.Event{Name: "instructions", Period: 100, Unit: "instructions"}}, nil)
	r := newResult(p)
	for b, n := range truth {
		r.BlockSamples[b] = uint64(math.Round(n * float64(p.Blocks[b].Insts) / 100))
		r.Samples += r.BlockSamples[b]
	}
	pose([]*Result{r}, costOf, par, nil).run(false)
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	for b, n := range truth {
		if got := r.Block[b].N; math.Abs(got/n-1) > 0.1 {
			t.Errorf("block %d: %.0f executions, want %.0f", b, got, n)
		}
	}
	if r.Block[0].Conf < Medium {
		t.Errorf("%d samples of retired instructions give confidence %v", r.BlockSamples[0], r.Block[0].Conf)
	}
}

// TestChoose: page faults recorded beside a timer are not what counts are inferred from.
func TestChoose(t *testing.T) {
	event := func(name, unit string, n uint64) *sample.Counts {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: name, Period: 1, Unit: unit})
		c.Total = n
		return c
	}
	precise, other := event("instructions:pp", "instructions", 5), event("instructions:p", "instructions", 5)
	faults, clock, cycles := event("page-faults", "events", 100), event("cpu-clock", "ns", 10), event("cycles", "cycles", 10)
	for _, tt := range []struct {
		name, asked, want string
		counts            []*sample.Counts
	}{
		{"the most", "", "page-faults", []*sample.Counts{faults}},
		{"time before events", "", "cpu-clock", []*sample.Counts{faults, clock}},
		{"the first name of two", "", "cpu-clock", []*sample.Counts{cycles, faults, clock}},
		{"as asked", "page-faults", "page-faults", []*sample.Counts{faults, clock}},
		{"without its modifiers", "instructions", "instructions:pp", []*sample.Counts{precise, clock}},
		{"one of several by all of its name", "instructions:p", "instructions:p", []*sample.Counts{precise, other}},
	} {
		cs, err := choose(&sample.Recording{Counts: tt.counts}, tt.asked, nil, false)
		if err != nil || len(cs) != 1 || cs[0].Event.Name != tt.want {
			t.Errorf("%s: got %v, %v, want %s", tt.name, cs, err, tt.want)
		}
	}
	if cs, err := choose(&sample.Recording{Counts: []*sample.Counts{precise, other}}, "instructions", nil, false); !errors.Is(err, ErrNothing) {
		t.Errorf("of two that may be meant, %v, %v", cs, err)
	}
}

// TestChooseMixed: of hosts with timers and a few with branch records, the records say how often code ran, where they cover
// it; the model is that of most samples.
func TestChooseMixed(t *testing.T) {
	counts := func(cpu, event string, samples, records uint64, paths ...string) *sample.Counts {
		c := sample.NewCounts(sample.CPU{Name: cpu}, sample.Event{Name: event, Period: 1, Unit: "branches"})
		for _, path := range paths {
			i := c.Image(sample.ImageID{Path: path})
			c.AddSample(i, 1, samples)
			c.AddBranch(sample.Branch{From: sample.Frame{Image: i}, To: sample.Frame{Image: i, Off: 1}}, records, 0)
		}
		return c
	}
	clock := counts("a", "cpu-clock", 100000, 0, "/app")
	for _, tt := range []struct {
		name, want string
		executions bool
		others     []*sample.Counts
	}{
		{"records of few hosts", "branches", true, []*sample.Counts{counts("b", "branches", 2000, 64000, "/app")}},
		{"where the time went", "cpu-clock", false, []*sample.Counts{counts("b", "branches", 2000, 64000, "/app")}},
		{"too few", "cpu-clock", true, []*sample.Counts{counts("b", "branches", 900, 28800, "/app")}},
		{"of another program", "cpu-clock", true, []*sample.Counts{counts("b", "branches", 2000, 64000, "/other")}},
		{"without records", "cpu-clock", true, []*sample.Counts{counts("b", "cycles", 2000, 0, "/app")}},
		{"the most records", "cycles", true, []*sample.Counts{counts("b", "branches", 2000, 64000, "/app"), counts("b", "cycles", 3000, 96000, "/app")}},
	} {
		rec := &sample.Recording{Counts: append([]*sample.Counts{clock}, tt.others...)}
		if cs, err := choose(rec, "", nil, tt.executions); err != nil || len(cs) != 1 || cs[0].Event.Name != tt.want {
			t.Errorf("%s: %v, %v; want %s", tt.name, cs, err, tt.want)
		}
		if cs, err := choose(rec, "cpu-clock", nil, tt.executions); err != nil || cs[0].Event.Name != "cpu-clock" {
			t.Errorf("%s: asked for cpu-clock, %v, %v", tt.name, cs, err)
		}
	}
	if cpu := mostSampled([]*sample.Counts{counts("a", "x", 1, 0, "/app"), counts("b", "x", 3, 0, "/app"), counts("c", "x", 2, 0, "/app")}); cpu.Name != "b" {
		t.Errorf("the model is that of processor %s", cpu.Name)
	}
}

// TestOnly: no image is opened but those that are asked for, and the samples of others are neither used nor lost.
func TestOnly(t *testing.T) {
	s := loadSet(t, "../testdata/mix")
	asked, ran := func(id sample.ImageID) bool { return filepath.Base(id.Path) == "mix" }, uint64(0)
	others := 0
	for _, c := range s.Rec.Counts {
		c.Lose(sample.LostKernel, 100)
		c.AddSample(c.Image(sample.ImageID{Path: "/lib/other"}), 1, 1000)
		for _, ic := range c.Images {
			if asked(ic.ID) {
				ran += ic.Samples()
			} else {
				others++
			}
		}
	}
	p, err := Infer(t.Context(), s.Rec, func(id sample.ImageID) (*image.Image, error) {
		if !asked(id) {
			t.Errorf("%s is opened", id)
		}
		return s.Open(id)
	}, Options{Only: asked})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if len(p.Images) != 1 || p.Samples.Total != ran || p.Samples.Lost[sample.LostKernel] != 0 || p.Samples.Lost[LostNoImage] != 0 || others == 0 || ran == 0 {
		t.Errorf("%d images, %+v, want one with all %d samples", len(p.Images), p.Samples, ran)
	}
	if _, err := Infer(t.Context(), s.Rec, s.Open, Options{Only: func(sample.ImageID) bool { return false }}); !errors.Is(err, ErrNothing) {
		t.Errorf("of no image: %v", err)
	}
}

// TestPart: of each image, no more procedures are decoded than have the part of its samples that is enough, those with the most first, and
// the samples of others are lost.
func TestPart(t *testing.T) {
	s := loadSet(t, "../testdata/mix")
	place := func(part float64) (samples []uint64, p *Profile) {
		placed, err := PlaceSamples(t.Context(), s.Rec, s.Open, Options{NoCallers: true, Part: part})
		if err != nil {
			t.Fatal(err)
		}
		p = placed.Profile
		sum := p.Samples.Used
		for _, n := range p.Samples.Lost {
			sum += n
		}
		if sum != p.Samples.Total {
			t.Errorf("%v: %+v do not add up", part, p.Samples)
		}
		for _, r := range p.Images[0].Procs {
			samples = append(samples, r.Samples)
		}
		slices.SortFunc(samples, func(a, b uint64) int { return cmp.Compare(b, a) })
		return samples, p
	}
	all, whole := place(0)
	if len(whole.Images) != 1 || len(all) < 4 || whole.Samples.Lost[LostAside] != 0 {
		t.Fatalf("%d images, %d procedures with samples, %+v", len(whole.Images), len(all), whole.Samples)
	}
	total := whole.Images[0].Samples
	for _, part := range []float64{0.01, 0.5, 0.9, 1} {
		some, p := place(part)
		want, have := 0, uint64(0)
		for float64(have) < part*float64(total) {
			have += all[want]
			want++
		}
		if !slices.Equal(some, all[:want]) || p.Samples.Used != have || p.Samples.Lost[LostAside] != total-have {
			t.Errorf("%v of %d samples: procedures with %v, %+v; want those with %v", part, total, some, p.Samples, all[:want])
		}
	}
}

// TestManySamples: a thousand times the samples give the same counts, as near as
// searches come.
func TestManySamples(t *testing.T) {
	s := loadSet(t, "../testdata/mix")
	few := s.compare(s.infer(t, s.Rec, Options{})).BlockOverlap
	const times = 1000
	for _, c := range s.Rec.Counts {
		for _, ic := range c.Images {
			for off := range ic.At {
				ic.At[off] *= times
			}
		}
		for why := range c.Lost {
			c.Lost[why] *= times
		}
		c.Total, c.Weight = times*c.Total, times*c.Weight
	}
	if many := s.compare(s.infer(t, s.Rec, Options{})).BlockOverlap; many < few-0.05 {
		t.Errorf("block overlap %.3f with %d times the samples, %.3f without", many, times, few)
	}
}

// TestSamplesBeyond: so many samples that sums of them would wrap are refused, and the most that
// are not are all used.
func TestSamplesBeyond(t *testing.T) {
	const path = "../testdata/mix/mix"
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	var at []sample.Offset
	for i := range im.Symbols() {
		if p, err := im.Proc(i); err == nil && len(p.Blocks) > 8 {
			for b := range 2 {
				off, _ := im.OffsetOf(p.Blocks[b].Start)
				at = append(at, off)
			}
			break
		}
	}
	for _, tt := range []struct {
		name string
		n    [][2]uint64 // of each Counts, at two places
		ok   bool
	}{
		{"2^64-1", [][2]uint64{{math.MaxUint64, 1}}, false},
		{"2^63", [][2]uint64{{1 << 63, 1}}, false},
		{"2^53 in two", [][2]uint64{{1 << 52, 1}, {1 << 52, 1}}, false},
		{"2^53 less one", [][2]uint64{{1<<53 - 2, 1}}, true},
	} {
		rec := &sample.Recording{}
		for i, n := range tt.n {
			c := sample.NewCounts(sample.CPU{Model: i}, sample.Event{Name: "cpu-clock", Unit: "ns", Period: 1e6})
			for k, off := range at {
				c.AddSample(c.Image(sample.ImageID{Path: path}), off, n[k])
			}
			rec.Add(c)
		}
		prof, err := Infer(t.Context(), rec, func(sample.ImageID) (*image.Image, error) { return im, nil }, Options{})
		if tt.ok != (err == nil) || err != nil && !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if err := prof.Check(); err != nil || prof.Samples.Used != prof.Samples.Total {
			t.Errorf("%s: %+v, %v", tt.name, prof.Samples, err)
		}
		for _, ip := range prof.Images {
			for _, r := range ip.Procs {
				for b, f := range r.Block {
					if math.IsNaN(f.N) || math.IsInf(f.N, 0) || f.N < 0 {
						t.Errorf("%s: block %d runs %v times", tt.name, b, f.N)
					}
				}
			}
		}
	}
}
