package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// codeAt is where laidOut procedures lie; callers and callees are below.
const codeAt, elsewhere = 0x1000, 0x100

// laidOut makes a procedure of n blocks whose edges fit its addresses: falls go to
// the next block only. Some blocks call in their middle or at their end.
func laidOut(rng *rand.Rand, n int) *image.Proc {
	p := &image.Proc{Symbol: image.Symbol{Addr: codeAt}, Complete: true, Entries: []int{0}}
	a := image.Addr(codeAt)
	edge := func(from, to int, k image.Kind) {
		p.Blocks[from].Out = append(p.Blocks[from].Out, len(p.Edges))
		p.Edges = append(p.Edges, image.Edge{From: from, To: to, Kind: k})
	}
	p.Blocks = make([]image.Block, n)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		b.Insts = 2 + rng.IntN(6)
		b.Start, b.Last, b.End = a, a+image.Addr(4*(b.Insts-1)), a+image.Addr(4*b.Insts)
		a = b.End
		if rng.IntN(4) == 0 {
			call(p, i, b.Start)
		}
		last := i == n-1
		switch k := rng.IntN(12); {
		case last || k == 0:
			b.Exit = image.Return
		case k < 6:
			edge(i, i+1, image.FallThrough)
			edge(i, rng.IntN(n), image.Taken)
		case k == 6:
			edge(i, i+1, image.Taken)
		case k == 7: // a conditional tail call
			edge(i, i+1, image.FallThrough)
			b.Exit = image.TailCall
		case k == 8: // a jump table, in part to other procedures
			edge(i, i+1, image.Indirect)
			if to := rng.IntN(n); to != i+1 {
				edge(i, to, image.Indirect)
			}
			b.Exit = image.TailCall
		default:
			edge(i, i+1, image.FallThrough)
			if k == 9 {
				call(p, i, b.Last)
			}
		}
	}
	for e, x := range p.Edges {
		p.Blocks[x.To].In = append(p.Blocks[x.To].In, e)
	}
	return p
}

func call(p *image.Proc, b int, site image.Addr) {
	p.Blocks[b].Calls = append(p.Blocks[b].Calls, len(p.Calls))
	p.Calls = append(p.Calls, image.Call{Block: b, Site: site, Return: site + 4, To: elsewhere})
}

// A lbr is a processor that records its last branches.
type lbr struct {
	stack  []transfer // the oldest first
	depth  int
	period int
	left   int // events until the next sample
	rng    *rand.Rand
	any    bool // events are all branches, not only those taken
	counts *sample.Counts
}

func (l *lbr) branch(from, to image.Addr) {
	l.stack = append(l.stack, transfer{from: from, to: to})
	l.stack = l.stack[max(0, len(l.stack)-l.depth):]
	l.event()
}

func (l *lbr) event() {
	if l.left--; l.left > 0 {
		return
	}
	// Nothing in a program keeps step with the samples.
	l.left = 1 + l.rng.IntN(2*l.period-1)
	c := l.counts
	im := c.Image(sample.ImageID{Path: "a.out"})
	c.AddSample(im, 1, 1)
	c.Weight += uint64(l.period)
	at := func(a image.Addr) sample.Frame { return sample.Frame{Image: im, Off: sample.Offset(a)} }
	for i, t := range l.stack {
		c.AddBranch(sample.Branch{From: at(t.from), To: at(t.to)}, 1, 0)
		if i > 0 && l.stack[i-1].to <= t.from {
			c.AddRange(sample.Range{Image: im, First: at(l.stack[i-1].to).Off, Last: at(t.from).Off}, 1)
		}
	}
}

// A run is what truly happened to a procedure.
type run struct{ block, edge, call, exit []float64 }

// walk runs p until it has made so many steps, with random but fixed
// probabilities of its branches.
func walk(rng *rand.Rand, p *image.Proc, l *lbr, steps int) *run {
	r := &run{make([]float64, len(p.Blocks)), make([]float64, len(p.Edges)), make([]float64, len(p.Calls)), make([]float64, len(p.Blocks))}
	weight := make([]float64, len(p.Edges))
	for e := range weight {
		weight[e] = math.Exp(2 * rng.NormFloat64())
	}
	b := -1
	for range steps {
		if b < 0 {
			l.branch(elsewhere+0x80, p.Addr)
			b = 0
		}
		bl := &p.Blocks[b]
		r.block[b]++
		for _, c := range bl.Calls {
			if p.Calls[c].Tail || p.Calls[c].NoReturn {
				continue // it is the exit of the block
			}
			r.call[c]++
			l.branch(p.Calls[c].Site, elsewhere)
			l.branch(elsewhere+0x10, p.Calls[c].Return)
		}
		e := draw(rng, bl, weight)
		if e < 0 {
			r.exit[b]++
			l.branch(bl.Last, elsewhere+0x84)
			if i := slices.IndexFunc(bl.Calls, func(c int) bool { return p.Calls[c].Site == bl.Last }); i >= 0 {
				r.call[bl.Calls[i]]++
			}
			b = -1
			continue
		}
		r.edge[e]++
		switch x := &p.Edges[e]; {
		case x.Kind != image.FallThrough:
			l.branch(bl.Last, p.Blocks[x.To].Start)
		case l.any && (len(bl.Out) > 1 || bl.Exit != image.NoExit):
			l.event()
		}
		b = p.Edges[e].To
	}
	return r
}

// draw returns the edge that control takes out of b, or -1 if it leaves.
func draw(rng *rand.Rand, b *image.Block, weight []float64) int {
	var sum float64
	if b.Exit != image.NoExit {
		sum = 1
	}
	for _, e := range b.Out {
		sum += weight[e]
	}
	x := rng.Float64() * sum
	for _, e := range b.Out {
		if x -= weight[e]; x < 0 {
			return e
		}
	}
	return -1
}

func newLBR(ev sample.Event, depth int, any bool) *lbr {
	return &lbr{depth: depth, period: int(ev.Period), rng: rand.New(rand.NewPCG(1, 1)), any: any, counts: sample.NewCounts(sample.CPU{}, ev)}
}

func (l *lbr) records() *branchRecords {
	return newBranchRecords([]*sample.Counts{l.counts}, sample.ImageID{Path: "a.out"}, func(o sample.Offset) (image.Addr, bool) {
		return image.Addr(o), true
	})
}

var takenBranches = sample.Event{Name: "br_inst_retired.near_taken", Period: 211, Unit: "branches"}

// TestBranchCounts: every execution is worth the same, wherever it is.
func TestBranchCounts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	for _, depth := range []int{16, 32} {
		for range 20 {
			checkBranchCounts(t, rng, laidOut(rng, 2+rng.IntN(20)), depth)
		}
		im := loadMix(t).image
		for i := range im.Symbols() {
			if p, err := im.Proc(i); err == nil && p.Complete && len(p.Blocks) > 1 {
				checkBranchCounts(t, rng, p, depth)
			}
		}
	}
}

func checkBranchCounts(t *testing.T, rng *rand.Rand, p *image.Proc, depth int) {
	t.Helper()
	l := newLBR(takenBranches, depth, false)
	r := walk(rng, p, l, 200_000)
	if err := l.counts.Check(); err != nil {
		t.Fatal(err)
	}
	o := l.records().observe(p)
	check := func(what string, got, want []float64) {
		t.Helper()
		for i := range got {
			n := got[i] * o.records.perRecord
			// Each stack may be full of the same branch.
			stack := float64(depth) * o.records.perRecord
			if tol := 5*math.Sqrt(want[i]*stack) + 5*stack; math.Abs(n-want[i]) > tol {
				t.Errorf("%s, depth %d: %s %d: %.0f executions, want %.0f (+-%.0f)", p.Name, depth, what, i, n, want[i], tol)
			}
		}
	}
	check("block", o.block, r.block)
	check("edge", o.edge, r.edge)
	check("call", o.call, r.call)
	check("exit", o.exit, r.exit)
	check("entry", o.entry[:1], []float64{sumOf(r.exit)})
	for b, n := range o.entry[1:] {
		if n != 0 {
			t.Errorf("%s, depth %d: %g records enter block %d", p.Name, depth, n, b+1)
		}
	}
}

// TestBranchErrors: observations are as sure as they say.
func TestBranchErrors(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	for _, depth := range []int{16, 32} {
		var n, within1, within2 int
		var chi float64
		for range 200 {
			p := laidOut(rng, 2+rng.IntN(20))
			l := newLBR(takenBranches, depth, false)
			r := walk(rng, p, l, 20_000+rng.IntN(200_000))
			f := newFlow(p, 0)
			for _, ob := range l.records().observe(p).observations(p, f, classesOf(p)) {
				truth := r.block[ob.block]
				if ob.out >= 0 {
					if e := f.outs[ob.out].edge; e >= 0 {
						truth = r.edge[e]
					} else {
						truth = r.exit[ob.block]
					}
				}
				if truth < float64(takenBranches.Period) {
					continue // hardly a record expected: the prior speaks
				}
				z := (math.Log(truth) - ob.logN) / ob.sd
				n++
				chi += min(z*z, 16)
				if math.Abs(z) < 1 {
					within1++
				}
				if math.Abs(z) < 2 {
					within2++
				}
			}
		}
		one, two := float64(within1)/float64(n), float64(within2)/float64(n)
		t.Logf("depth %d: %d observations, %.3f within one standard deviation, %.3f within two, mean square %.2f", depth, n, one, two, chi/float64(n))
		if one < 0.65 || two < 0.93 || one > 0.9 {
			t.Errorf("depth %d: %.3f within one standard deviation, %.3f within two", depth, one, two)
		}
	}
}

// TestBranchesDecide: with branch records, the search gives the executions of blocks
// and edges however the samples lie in the code that ran.
func TestBranchesDecide(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 16))
	var blocks, edges, graphs float64
	for range 40 {
		p := laidOut(rng, 4+rng.IntN(20))
		l := newLBR(takenBranches, 32, false)
		r := walk(rng, p, l, 300_000)
		if sumOf(r.edge) == 0 {
			continue // the first block returns
		}
		samples := make([]uint64, len(p.Blocks))
		for b := range samples {
			if r.block[b] > 0 {
				samples[b] = rng.Uint64N(1000)
			}
		}
		q := newProblem(p, samples, func(*image.Block) float64 { return 1e-3 }, &outOfOrder)
		q.known = l.records().observe(p).observations(p, q.flow, classesOf(p))
		x := make([]float64, q.unknowns())
		copy(x, q.center)
		minimize(q.objective, x, 1000, 1e-9)
		q.forward(x)
		taken := make([]float64, len(p.Edges))
		for b, n := range q.n {
			for i, w := range q.flow.outsOf(b) {
				if w.edge >= 0 {
					taken[w.edge] = n * q.prob[int(q.flow.first[b])+i]
				}
			}
		}
		blocks += shared(q.n, r.block)
		edges += shared(taken, r.edge)
		graphs++
	}
	t.Logf("%g procedures: overlap of blocks %.3f, of edges %.3f", graphs, blocks/graphs, edges/graphs)
	if blocks < 0.97*graphs || edges < 0.97*graphs {
		t.Errorf("%g procedures: overlap of blocks %.3f, of edges %.3f", graphs, blocks/graphs, edges/graphs)
	}
}

// shared is the sum of the smaller shares.
func shared(a, b []float64) float64 {
	var o float64
	x, y := sumOf(a), sumOf(b)
	for i := range a {
		o += min(a[i]/x, b[i]/y)
	}
	return o
}

// TestBranchScale: executions are absolute where the event counts branches, and
// only then.
func TestBranchScale(t *testing.T) {
	for _, tt := range []struct {
		event string
		unit  string
		want  float64 // estimated over true executions; 0: not known
	}{
		{"br_inst_retired.near_taken", "branches", 1},
		{"branches", "branches", 1},
		{"br_inst_retired.not_taken", "branches", 1},
		{"cycles", "cycles", 0},
	} {
		rng := rand.New(rand.NewPCG(11, 12))
		p := laidOut(rng, 12)
		l := newLBR(sample.Event{Name: tt.event, Period: 211, Unit: tt.unit}, 32, tt.event != "br_inst_retired.near_taken")
		r := walk(rng, p, l, 300_000)
		rec := l.records()
		o := rec.observe(p)
		if rec.untaken {
			rec.perRecord *= takenShare([]*image.Proc{p}, []*observed{o})
		}
		if got := sumOf(o.block) * rec.perRecord / sumOf(r.block); math.Abs(got-tt.want) > 0.05 {
			t.Errorf("%s: %.3f of the true executions, want %g", tt.event, got, tt.want)
		}
	}
}

// TestBranchOddities: what an LBR may report besides plain code.
func TestBranchOddities(t *testing.T) {
	// Blocks of four instructions of 4 bytes: a at 0x1000, b at 0x1010, c at 0x1020.
	p := graph("a4>b a>c b4>c c4!")
	p.Calls = []image.Call{{Block: 0, Site: 0x100c, To: 0x5000, Return: 0x1010}, {Block: 2, Site: 0x102c, To: 0x1000, Tail: true}, {Block: 2, Site: 0x102c, Tail: true}}
	p.Blocks[0].Calls, p.Blocks[2].Calls = []int{0}, []int{1, 2}
	p.Blocks[2].Exit = image.TailCall
	type counts struct{ a, b, c, ab, ac, bc, entry, exit, known, other float64 }
	for _, tt := range []struct {
		name string
		r    branchRecords
		want counts
	}{
		{"a jump along an edge", branchRecords{from: []transfer{{0x100c, 0x1020, 5}}, to: []transfer{{0x100c, 0x1020, 5}}}, counts{ac: 5}},
		{"a range through all", branchRecords{ranges: []straight{{0x1000, 0x102c, 3}}}, counts{a: 3, b: 3, c: 3, ab: 3, bc: 3}},
		{"a range from the middle", branchRecords{ranges: []straight{{0x1008, 0x1014, 3}}}, counts{b: 3, ab: 3}},
		{"a range from the code before", branchRecords{ranges: []straight{{0xf00, 0x1004, 3}}}, counts{a: 3, entry: 3}},
		{"a range into the code behind", branchRecords{ranges: []straight{{0x1020, 0x2000, 3}}}, counts{c: 3, exit: 3}},
		{"back from a call at the end of a block", branchRecords{to: []transfer{{0x5000, 0x1010, 2}}}, counts{ab: 2}},
		{"back from the kernel", branchRecords{to: []transfer{{0, 0x1014, 2}}}, counts{}},
		{"a call from elsewhere", branchRecords{to: []transfer{{0, 0x1000, 2}}}, counts{entry: 2}},
		{"a tail call to itself", branchRecords{from: []transfer{{0x102c, 0x1000, 2}}, to: []transfer{{0x102c, 0x1000, 2}}}, counts{entry: 2, exit: 2, known: 2}},
		{"a tail call to anywhere", branchRecords{from: []transfer{{0x102c, 0x7000, 2}}}, counts{exit: 2, other: 2}},
	} {
		tt.r.perRange = 1
		tt.r.sort()
		o := tt.r.observe(p)
		got := counts{o.block[0], o.block[1], o.block[2], o.edge[0], o.edge[1], o.edge[2], o.entry[0], o.exit[2], o.call[1], o.call[2]}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	// Nothing falls out of b where it ends in a jump.
	q := graph("a4>b b4! c4!")
	r := branchRecords{ranges: []straight{{0x1000, 0x1024, 3}}, perRange: 1}
	r.sort()
	if o := r.observe(q); o.any || sumOf(o.block) != 0 {
		t.Errorf("a range across a return counts: %v", o.block)
	}
	if obs := r.observe(q).observations(q, newFlow(q, 0), classesOf(q)); obs != nil {
		t.Errorf("observations of nothing: %v", obs)
	}
}

// TestBranchGarbage: records of other code than this give numbers all the same.
func TestBranchGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	at := func() image.Addr {
		if rng.IntN(8) == 0 {
			return 0
		}
		return codeAt - 40 + image.Addr(rng.IntN(600))
	}
	for range 2000 {
		p := laidOut(rng, 1+rng.IntN(20))
		r := &branchRecords{perRange: 1 + rng.Float64()}
		for range rng.IntN(20) {
			x := transfer{at(), at(), float64(1 + rng.IntN(1000))}
			r.from, r.to = append(r.from, x), append(r.to, x)
			a, b := at(), at()
			r.ranges = append(r.ranges, straight{min(a, b), max(a, b), float64(1 + rng.IntN(1000))})
		}
		r.sort()
		o := r.observe(p)
		for _, ns := range [][]float64{o.block, o.edge, o.exit, o.entry, o.call} {
			for i, n := range ns {
				if n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
					t.Fatalf("%v: %g records of item %d", r, n, i)
				}
			}
		}
		for _, ob := range o.observations(p, newFlow(p, 0), classesOf(p)) {
			if !(ob.sd > 0) || math.IsNaN(ob.logN) || math.IsInf(ob.logN, 0) || math.IsInf(ob.sd, 0) {
				t.Fatalf("%v: observation %+v", r, ob)
			}
		}
	}
}

func TestLogGamma(t *testing.T) {
	for _, tt := range []struct{ a, mean, variance float64 }{
		{0.5, -1.9635100, math.Pi * math.Pi / 2}, // -gamma - 2 log 2
		{1, -0.5772157, math.Pi * math.Pi / 6},
		{100.5, 4.6051744, 0.0099999},
	} {
		if mean, variance := logGamma(tt.a); math.Abs(mean-tt.mean) > 1e-6 || math.Abs(variance-tt.variance) > 1e-6 {
			t.Errorf("logGamma(%g) = %.7f, %.7f, want %.7f, %.7f", tt.a, mean, variance, tt.mean, tt.variance)
		}
	}
}
