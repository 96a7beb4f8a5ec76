package truth

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"
	"sort"

	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/sample"
)

// SamplesByAddr are the samples of instructions, by path of their image as in
// the Counts, or by a path with the same last element.
type SamplesByAddr map[string]map[image.Addr]uint64

// An Accuracy says how near a document comes to the truth. Both may be of any
// number of runs: before counts are compared, those of the document are
// multiplied by one factor. Where errors are counted it is Scale, which makes the
// executed instructions equal in number; where promises are held, it is one that no
// single loop can spoil. Shares and overlaps run from 0 to 1; those of nothing are 0.
//
// Instructions are weighted by their samples, or for want of samples by their
// executions: what matters is code that takes time.
type Accuracy struct {
	Scale float64 // executions in the truth per execution in the document

	// The overlap of two distributions is the sum over their elements of the
	// smaller of both shares. Executed instructions outside all blocks count as
	// a quarter of a block each.
	BlockOverlap float64 // of the executions of blocks
	Overlap      float64 // of the executions of instructions
	EdgeOverlap  float64 // of the executions of taken branches

	Within5, Within10, Within15 float64 // share of instructions with a count that is off by at most so many percent
	EdgeWithin10                float64 // share of executions of taken branches, likewise

	InstErrors Histogram // of instructions: figure 8 of the DCPI paper (Anderson et al., SOSP 1997)
	EdgeErrors Histogram // of edges within procedures, fall-throughs too, by executions: its figure 9

	// The same after the factors that promises are held after: one for all counts, by program-wide confidence; one for
	// each procedure, by confidence within it.
	InstProgramWide, EdgesProgramWide Histogram
	InstWithinProc, EdgesWithinProc   Histogram

	// The same by program-wide confidence, the executions themselves with no factor: of CompareRuns only.
	InstAbsolute, EdgesAbsolute Histogram

	// Program-wide promises about the executions themselves, with no factor: of CompareRuns only.
	BlockAbsolute, EdgeAbsolute [document.High + 1]Calibration

	// Promises by confidence. Those of program-wide confidence are held after one factor for all counts, since
	// the truth may be of more runs or fewer; those of confidence within procedures after one for each
	// procedure. A factor is the median, by weight, of what the counts of blocks would have to be multiplied by.
	BlockProgramWide, BlockWithinProc [document.High + 1]Calibration // of blocks
	EdgeProgramWide, EdgeWithinProc   [document.High + 1]Calibration // of edges; they have no samples
	ProcProgramWide                   [document.High + 1]Calibration // of the entries of procedures

	// Factors holds what the document says that entries of procedures may be off by (document.Proc.EntriesFactor) to its word: after Scale, or, of
	// CompareRuns, as they are. By increasing factor.
	Factors []FactorPromise

	Entries FactorErrors // of the entries of procedures that ran, after Scale: weighted by their samples
	Trips   FactorErrors // of the iterations of loops for each time they are entered, by the samples in no loop within them

	Cold      float64 // share of the executions of blocks that were called cold
	ColdUnrun float64 // share of the blocks that never ran that were called cold

	Zero    float64 // share of executed instructions in blocks that were given count 0
	NoBlock float64 // share of executed instructions in no block of the document
	Unrun   float64 // share of samples on instructions that never ran in the truth; no other figure has them

	entries []pairing
}

// A Calibration holds one confidence to its promise.
type Calibration struct {
	N          int // blocks or edges with this confidence
	Samples    Kept
	Executions Kept
}

// A FactorPromise is a factor that is said of some procedures, which ran and were told to have run.
type FactorPromise struct {
	Factor float64
	N      int     // procedures
	Kept   float64 // share of N that are off by no more, up or down; 90 % is promised
}

// Kept says how often a promise was kept, each element weighted by its samples
// or its executions.
type Kept struct {
	Weight   float64 // share of all that has this confidence
	Within10 float64 // share of Weight that is within 10 % of the truth
	Within2x float64 // share of Weight that is within a factor of 2 of the truth
}

// Buckets is the number of buckets of a Histogram: steps of 5 % from -45 % to
// 45 %, and one beyond on each side.
const Buckets = 20

// A Histogram holds shares of all weight by error of the estimate and by its
// confidence, None where there is no estimate.
type Histogram [Buckets][document.High + 1]float64

// Bounds returns the errors that bucket i is for: at least low, less than high,
// both in percent.
func (h *Histogram) Bounds(i int) (low, high float64) {
	low, high = float64(5*i-50), float64(5*i-45)
	if i == 0 {
		low = math.Inf(-1)
	}
	if i == Buckets-1 {
		high = math.Inf(1)
	}
	return low, high
}

// Share is the part of all weight in bucket i, of any confidence.
func (h *Histogram) Share(i int) float64 {
	var sum float64
	for _, v := range h[i] {
		sum += v
	}
	return sum
}

// Between is the part of all weight with errors from low on, and less than high: in percent, multiples of 5 or
// beyond 45.
func (h *Histogram) Between(low, high float64) (sum float64) {
	for i := range h {
		if l, r := h.Bounds(i); (l >= low || low < -50) && (r <= high || high > 50) {
			sum += h.Share(i)
		}
	}
	return sum
}

// add puts weight in the bucket of an error, which is 0 for a correct estimate
// and -1 for one of 0.
func (h *Histogram) add(err float64, conf document.Confidence, weight float64) {
	i := math.Floor(err*20) + Buckets/2
	h[int(max(0, min(i, Buckets-1)))][conf] += weight
}

// A pairing is an estimate with the truth about it.
type pairing struct {
	est, truth float64 // executions, not scaled
	samples    float64
	conf       document.Confidence // program-wide
	own        document.Confidence // within the procedure
	known      bool                // there is an estimate
	proc       *document.Proc
	cold       bool
}

// err is the relative error of the estimate, for a truth that is not 0.
func (p *pairing) err(scale float64) float64 { return p.est*scale/p.truth - 1 }

// within reports whether the estimate is off by at most tol.
func (p *pairing) within(scale, tol float64) bool {
	return p.truth > 0 && math.Abs(p.err(scale)) <= tol
}

// A comparison holds a document and the truth side by side, in an order that
// depends on nothing but them.
type comparison struct {
	insts, blocks []pairing
	procs         []pairing // their first blocks, with all of their samples and the confidence of their entries
	branches      []pairing // taken, tail calls too
	edges         []pairing // within procedures: taken branches and fall-throughs
	entries       []pairing // of procedures
	factored      []pairing // those of which it is said what they may be off by, and which ran
	trips         []pairing // of loops
	estInsts      float64   // executions of instructions in the document
	unrun         float64   // samples where the truth has no execution
	beside        float64   // the common factor that those of procedures are beside
}

// Compare holds a document to the truth. Without samples, instructions are
// weighted by their executions.
func Compare(doc *document.Counts, truth *Counts, samples SamplesByAddr) *Accuracy {
	return CompareRuns(doc, truth, samples, 0)
}

// CompareRuns is Compare of a document that is of so many runs for each one of the truth; 0 is unknown.
func CompareRuns(doc *document.Counts, truth *Counts, samples SamplesByAddr, runs float64) *Accuracy {
	c := comparison{beside: 1}
	if document.Seen(doc.CommonFactor) {
		c.beside = doc.CommonFactor
	}
	for _, p := range slices.Sorted(maps.Keys(truth.Images)) {
		var at map[image.Addr]uint64
		if len(samples) > 0 {
			if at = samples.find(p); at == nil {
				at = map[image.Addr]uint64{}
			}
		}
		c.add(newDocumentCode(doc, p), truth.Images[p], at)
	}
	return c.accuracy(runs)
}

// Add adds the samples of an image, which im is.
func (s SamplesByAddr) Add(ic *sample.ImageCounts, im *image.Image) {
	at := s[ic.ID.Path]
	if at == nil {
		at = map[image.Addr]uint64{}
		s[ic.ID.Path] = at
	}
	for off, n := range ic.At {
		if a, ok := im.AddrOf(off); ok {
			at[a] += n
		}
	}
}

func (s SamplesByAddr) find(p string) map[image.Addr]uint64 {
	if at := s[p]; at != nil {
		return at
	}
	for _, q := range slices.Sorted(maps.Keys(s)) {
		if SamePath(p, q) {
			return s[q]
		}
	}
	return nil
}

// SamePath reports whether two paths may name the same image, which need not lie
// in the same directory wherever it is used.
func SamePath(p, q string) bool { return p == q || path.Base(p) == path.Base(q) }

// documentCode is what a document says of the images of one path.
type documentCode struct {
	blocks   []codeBlock // by address
	branches map[Transfer]*pairing
	falls    []fallThrough
	procs    []*document.Proc
}

// A fallThrough is one, and from comparison.addFalls on, what ran of it.
type fallThrough struct {
	document.Edge
	proc  *document.Proc
	truth float64
}

// A codeBlock is a block, and from comparison.add on, what ran of it.
type codeBlock struct {
	document.Block
	proc *document.Proc
	last image.Addr // the last instruction that ran; 0 if none did
	pair pairing
}

func newDocumentCode(doc *document.Counts, p string) *documentCode {
	code := &documentCode{branches: map[Transfer]*pairing{}}
	for i := range doc.Images {
		if im := &doc.Images[i]; SamePath(im.Path, p) {
			for j := range im.Procs {
				code.add(&im.Procs[j])
			}
		}
	}
	slices.SortStableFunc(code.blocks, func(a, b codeBlock) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Count, b.Count))
	})
	return code
}

func (code *documentCode) add(p *document.Proc) {
	code.procs = append(code.procs, p)
	for _, b := range p.Blocks {
		pair := pairing{est: float64(b.Count), conf: b.Confidence, own: b.Within, known: true, proc: p, cold: b.Cold}
		code.blocks = append(code.blocks, codeBlock{b, p, 0, pair})
	}
	for _, e := range p.Edges {
		if e.Kind == image.FallThrough.String() {
			code.falls = append(code.falls, fallThrough{e, p, 0})
			continue
		}
		t := Transfer{image.Addr(e.From), image.Addr(e.To)}
		old := code.branches[t]
		if old == nil {
			old = &pairing{conf: e.Confidence, own: e.Within, known: true, proc: p}
			code.branches[t] = old
		}
		old.est += float64(e.Count)
		old.conf, old.own = min(old.conf, e.Confidence), min(old.own, e.Within)
	}
}

// find returns the block that contains a, or nil. Where blocks of several images
// start at one address, it is the last of them.
func (code *documentCode) find(a image.Addr) *codeBlock {
	i := sort.Search(len(code.blocks), func(i int) bool { return image.Addr(code.blocks[i].Addr) > a }) - 1
	if i < 0 || uint64(a)-uint64(code.blocks[i].Addr) >= code.blocks[i].Size {
		return nil
	}
	return &code.blocks[i]
}

// add compares the code of one image. Without samples, executions stand in.
func (c *comparison) add(code *documentCode, truth *Image, samples map[image.Addr]uint64) {
	for _, a := range slices.Sorted(maps.Keys(truth.Insts)) {
		n := float64(truth.Insts[a])
		inst := pairing{truth: n, samples: n}
		if samples != nil {
			inst.samples = float64(samples[a])
		}
		if b := code.find(a); b != nil {
			inst.est, inst.conf, inst.own, inst.known, inst.proc = b.pair.est, b.pair.conf, b.pair.own, true, b.proc
			b.pair.truth = max(b.pair.truth, n)
			b.pair.samples += inst.samples
			b.last = a
		} else {
			// Blocks have about four instructions.
			c.blocks = append(c.blocks, pairing{truth: n / 4, samples: inst.samples})
		}
		c.insts = append(c.insts, inst)
	}
	of := map[*document.Proc]float64{} // samples
	for i := range code.blocks {
		b := &code.blocks[i]
		b.pair.truth = code.find(image.Addr(b.Addr)).pair.truth
		of[b.proc] += b.pair.samples
		c.blocks = append(c.blocks, b.pair)
		c.estInsts += b.pair.est * float64(b.Insns)
	}
	for i := range code.blocks {
		if b := &code.blocks[i]; b.Addr == b.proc.Addr {
			p := b.pair
			p.samples, p.conf = of[b.proc], b.proc.Confidence
			c.procs = append(c.procs, p)
		}
	}
	for a, n := range samples {
		if truth.Insts[a] == 0 {
			c.unrun += float64(n)
		}
	}
	c.addBranches(code, truth)
	c.addFalls(code, truth)
	c.addEntries(code, truth, of)
	c.addTrips(code)
}

// addBranches pairs the taken branches. Those of the truth lead from an
// instruction, those of the document from its block.
func (c *comparison) addBranches(code *documentCode, truth *Image) {
	tail := map[Transfer]bool{} // jumps to another procedure are tail calls, not edges
	for _, j := range slices.SortedFunc(maps.Keys(truth.Jumps), Transfer.Compare) {
		n := float64(truth.Jumps[j])
		b := code.find(j.From)
		if b == nil { // no edge of the document can be meant
			c.branches = append(c.branches, pairing{truth: n})
			c.edges = append(c.edges, pairing{truth: n})
			continue
		}
		t := Transfer{image.Addr(b.Addr), j.To}
		tail[t] = uint64(j.To)-uint64(b.proc.Addr) >= b.proc.Size
		if code.branches[t] == nil {
			code.branches[t] = &pairing{}
		}
		code.branches[t].truth += n
	}
	for _, t := range slices.SortedFunc(maps.Keys(code.branches), Transfer.Compare) {
		c.branches = append(c.branches, *code.branches[t])
		if !tail[t] {
			c.edges = append(c.edges, *code.branches[t])
		}
	}
}

// addFalls pairs the fall-through edges: control falls through as often as the
// last instruction of the block runs, less the jumps that it takes.
func (c *comparison) addFalls(code *documentCode, truth *Image) {
	jumps := map[image.Addr]uint64{} // taken, by source
	for j, n := range truth.Jumps {
		jumps[j.From] += n
	}
	for i := range code.falls {
		e := &code.falls[i]
		p := pairing{est: float64(e.Count), conf: e.Confidence, own: e.Within, known: true, proc: e.proc}
		if b := code.find(image.Addr(e.From)); b != nil {
			p.truth = max(0, float64(truth.Insts[b.last])-float64(jumps[b.last]))
		}
		e.truth = p.truth
		c.edges = append(c.edges, p)
	}
}

func (c *comparison) accuracy(runs float64) *Accuracy {
	a := &Accuracy{}
	insts, blocks, branches := total(c.insts), total(c.blocks), total(c.branches)
	a.Scale = ratio(insts.truth, c.estInsts)
	a.Overlap = overlap(c.insts, c.estInsts, insts.truth)
	a.BlockOverlap = overlap(c.blocks, blocks.est, blocks.truth)
	a.EdgeOverlap = overlap(c.branches, branches.est, branches.truth)

	bySamples := func(p *pairing) float64 { return p.samples }
	byTruth := func(p *pairing) float64 { return p.truth }
	a.Within5 = within(c.insts, a.Scale, .05, bySamples)
	a.Within10 = within(c.insts, a.Scale, .10, bySamples)
	a.Within15 = within(c.insts, a.Scale, .15, bySamples)
	a.EdgeWithin10 = within(c.branches, a.Scale, .10, byTruth)
	f := newFactors(c.blocks)
	scaled := func(p *pairing) (document.Confidence, float64) { return p.conf, a.Scale }
	a.InstErrors, a.EdgeErrors = histogram(c.insts, scaled, bySamples), histogram(c.edges, scaled, byTruth)
	a.InstProgramWide, a.EdgesProgramWide = histogram(c.insts, f.programWide, bySamples), histogram(c.edges, f.programWide, byTruth)
	a.InstWithinProc, a.EdgesWithinProc = histogram(c.insts, f.withinProc, bySamples), histogram(c.edges, f.withinProc, byTruth)
	if runs > 0 {
		absolute := func(p *pairing) (document.Confidence, float64) { return p.conf, 1 / runs }
		a.InstAbsolute, a.EdgesAbsolute = histogram(c.insts, absolute, bySamples), histogram(c.edges, absolute, byTruth)
		a.BlockAbsolute, a.EdgeAbsolute = calibrate(c.blocks, absolute), calibrate(c.edges, absolute)
	}
	a.BlockProgramWide, a.BlockWithinProc = calibrate(c.blocks, f.programWide), calibrate(c.blocks, f.withinProc)
	a.EdgeProgramWide, a.EdgeWithinProc = calibrate(c.edges, f.programWide), calibrate(c.edges, f.withinProc)
	a.ProcProgramWide = calibrate(c.procs, f.programWide)
	a.Entries, a.Trips = newFactorErrors(c.entries, a.Scale), newFactorErrors(c.trips, 1)
	a.entries = c.entries
	if a.Factors = promised(c.factored, a.Scale, 1); runs > 0 {
		a.Factors = promised(c.factored, 1/runs, c.beside)
	}

	var cold, unrun, coldUnrun float64
	for _, p := range c.blocks {
		if p.truth == 0 {
			unrun++
		}
		if p.cold {
			cold += p.truth
			if p.truth == 0 {
				coldUnrun++
			}
		}
	}
	a.Cold, a.ColdUnrun = ratio(cold, blocks.truth), ratio(coldUnrun, unrun)

	var zero, noBlock float64
	for _, p := range c.insts {
		if !p.known {
			noBlock += p.truth
		} else if p.est == 0 {
			zero += p.truth
		}
	}
	a.Zero, a.NoBlock = ratio(zero, insts.truth), ratio(noBlock, insts.truth)
	a.Unrun = ratio(c.unrun, c.unrun+insts.samples)
	return a
}

// within returns the share of weight that is off by at most tol.
func within(ps []pairing, scale, tol float64, weight func(*pairing) float64) float64 {
	var good, all float64
	for i := range ps {
		all += weight(&ps[i])
		if ps[i].within(scale, tol) {
			good += weight(&ps[i])
		}
	}
	return ratio(good, all)
}

// promised holds the factors of entries to their word, beside a common one.
func promised(entries []pairing, scale, common float64) (all []FactorPromise) {
	by := map[float64]*FactorPromise{}
	for i := range entries {
		p := &entries[i]
		f := by[p.proc.EntriesFactor]
		if f == nil {
			f = &FactorPromise{Factor: p.proc.EntriesFactor}
			by[f.Factor] = f
		}
		f.N++
		off := f.Factor
		if common > 1 {
			off = math.Exp(math.Hypot(math.Log(f.Factor), math.Log(common)))
		}
		if est := p.est * scale; est <= p.truth*off && est*off >= p.truth {
			f.Kept++
		}
	}
	for _, factor := range slices.Sorted(maps.Keys(by)) {
		f := by[factor]
		f.Kept /= float64(f.N)
		all = append(all, *f)
	}
	return all
}

// histogram puts the weight of everything that ran into buckets.
func histogram(ps []pairing, promise func(*pairing) (conf document.Confidence, factor float64), weight func(*pairing) float64) (h Histogram) {
	var all float64
	for i := range ps {
		if ps[i].truth > 0 {
			all += weight(&ps[i])
		}
	}
	for i := range ps {
		if p := &ps[i]; p.truth > 0 {
			conf, factor := promise(p)
			h.add(p.err(factor), conf, ratio(weight(p), all))
		}
	}
	return h
}

// The factors are what counts have in common to be wrong by: all of a program's, and
// those of each procedure.
type factors struct {
	all  float64
	proc map[*document.Proc]float64
}

func newFactors(blocks []pairing) factors {
	f := factors{middle(blocks), map[*document.Proc]float64{}}
	by := map[*document.Proc][]pairing{}
	for _, p := range blocks {
		if p.proc != nil {
			by[p.proc] = append(by[p.proc], p)
		}
	}
	for proc, ps := range by {
		f.proc[proc] = middle(ps)
	}
	return f
}

// programWide returns the program-wide confidence of p, and the factor that it is a promise after.
func (f *factors) programWide(p *pairing) (document.Confidence, float64) { return p.conf, f.all }

// withinProc does so for the confidence of p within its procedure.
func (f *factors) withinProc(p *pairing) (document.Confidence, float64) {
	if v := f.proc[p.proc]; v > 0 {
		return p.own, v
	}
	return p.own, f.all
}

// middle is the median of truth over estimate, weighted by samples or, where there
// are none, by executions; 0 if nothing ran that was thought to.
func middle(ps []pairing) float64 {
	ps = slices.DeleteFunc(slices.Clone(ps), func(p pairing) bool { return p.est == 0 || p.truth == 0 })
	slices.SortFunc(ps, func(a, b pairing) int { return cmp.Compare(a.truth/a.est, b.truth/b.est) })
	all := total(ps)
	weight := func(p pairing) float64 { return p.samples / all.samples }
	if all.samples == 0 {
		weight = func(p pairing) float64 { return p.truth / all.truth }
	}
	var sum float64
	for _, p := range ps {
		if sum += weight(p); sum >= 0.5 {
			return p.truth / p.est
		}
	}
	return 0
}

// calibrate holds each confidence to its promise.
func calibrate(ps []pairing, promise func(*pairing) (conf document.Confidence, factor float64)) (cal [document.High + 1]Calibration) {
	all := total(ps)
	for i := range ps {
		p := &ps[i]
		if !p.known {
			continue // nothing was promised
		}
		conf, factor := promise(p)
		c := &cal[conf]
		c.N++
		c.Samples.add(p, factor, ratio(p.samples, all.samples))
		c.Executions.add(p, factor, ratio(p.truth, all.truth))
	}
	for i := range cal {
		cal[i].Samples.normalize()
		cal[i].Executions.normalize()
	}
	return cal
}

func (k *Kept) add(p *pairing, scale, weight float64) {
	k.Weight += weight
	right := p.est == 0 && p.truth == 0
	if right || p.within(scale, .10) {
		k.Within10 += weight
	}
	if est := p.est * scale; right || p.truth > 0 && est >= p.truth/2 && est <= p.truth*2 {
		k.Within2x += weight
	}
}

// normalize turns shares of all into shares of Weight.
func (k *Kept) normalize() {
	k.Within10 = ratio(k.Within10, k.Weight)
	k.Within2x = ratio(k.Within2x, k.Weight)
}

// total adds up pairings.
func total(ps []pairing) (sum pairing) {
	for _, p := range ps {
		sum.est += p.est
		sum.truth += p.truth
		sum.samples += p.samples
	}
	return sum
}

// overlap is the sum of the smaller share of each pairing, of all estimates and
// of all truth.
func overlap(ps []pairing, est, truth float64) float64 {
	var sum float64
	for _, p := range ps {
		sum += min(ratio(p.est, est), ratio(p.truth, truth))
	}
	return sum
}

// ratio is a/b, or 0 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
