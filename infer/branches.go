package infer

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"backfeed/infer/image"
	"backfeed/sample"
)

// An observation is what is known of the executions of a block or an out-edge from
// elsewhere than samples of time.
type observation struct {
	block int32
	out   int32   // index into flow.outs, or -1 for the block itself
	logN  float64 // logarithm of the executions
	sd    float64 // standard deviation of logN

	none bool // there were none: logN is not set, and less than one is as good
	real bool // the executions are those of the recording, not of another run up to a factor

	steady bool // they are told by the samples of this block alone; see problem.steady

	common float64 // least standard deviation of what all of a procedure have in common

	// Where of > 0, it is the share of one of the two out-edges of a block that is
	// known, and no executions: as well as if of so many executions, part took it.
	of, part float64
}

// branchRecords are the branch records in one image. A sample brings a stack of
// the last taken branches; between them control ran straight on. Records count the
// taken branches, and the ranges between them count blocks and all other edges.
type branchRecords struct {
	from   []transfer   // branches that start in the image, by from, to
	to     []transfer   // branches that end in it, by to, from
	ranges []straight   // by first, last
	reach  []image.Addr // by range: the largest last up to here

	// perRecord is the executions that one record stands for; 0 if that cannot
	// be known, and the counts only compare with each other.
	perRecord float64
	// perRange is the records that one range stands for: a stack of d branches
	// has only d-1 ranges.
	perRange float64
	// untaken: the event also counts branches that are not taken, of which there
	// are no records. perRecord must be multiplied by takenShare.
	untaken bool
}

// A transfer is a branch; an end in another image is 0.
type transfer struct {
	from, to image.Addr
	n        float64 // records
}

// A straight is a range, from the target of a branch to the next one, both included.
type straight struct {
	first, last image.Addr
	n           float64 // ranges
}

// newBranchRecords collects what counts, all of one event, say of the image id.
func newBranchRecords(counts []*sample.Counts, id sample.ImageID, addrOf func(sample.Offset) (image.Addr, bool)) *branchRecords {
	r := &branchRecords{}
	r.setScale(counts)
	// Records that were scaled up tell as much as fewer, each of more executions.
	each := sample.Dispersion(counts)
	r.perRecord *= each
	for _, c := range counts {
		self := slices.IndexFunc(c.Images, func(ic *sample.ImageCounts) bool { return ic.ID.Key() == id.Key() })
		if self < 0 {
			continue
		}
		addr := func(im int, off sample.Offset) image.Addr {
			if im != self {
				return 0
			}
			a, _ := addrOf(off)
			return a
		}
		for b, n := range c.Branches {
			t := transfer{addr(b.From.Image, b.From.Off), addr(b.To.Image, b.To.Off), float64(n.N) / each}
			if t.from != 0 {
				r.from = append(r.from, t)
			}
			if t.to != 0 {
				r.to = append(r.to, t)
			}
		}
		for g, n := range c.Ranges {
			s := straight{addr(g.Image, g.First), addr(g.Image, g.Last), float64(n) / each}
			if s.first != 0 && s.first <= s.last {
				r.ranges = append(r.ranges, s)
			}
		}
	}
	r.sort()
	return r
}

func (r *branchRecords) sort() {
	slices.SortFunc(r.from, func(a, b transfer) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	slices.SortFunc(r.to, func(a, b transfer) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from)) })
	slices.SortFunc(r.ranges, func(a, b straight) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
	})
	r.reach = make([]image.Addr, len(r.ranges))
	var top image.Addr
	for i, s := range r.ranges {
		top = max(top, s.last)
		r.reach[i] = top
	}
}

// setScale finds what records and ranges stand for. A sample is taken once a
// period, and its stack holds the last d branches: if the period is one of taken
// branches, d of every period are recorded.
func (r *branchRecords) setScale(counts []*sample.Counts) {
	var records, ranges, delivered, events float64
	for _, c := range counts {
		n := float64(c.Delivered())
		delivered += n
		events += n * c.MeanPeriod()
		for _, b := range c.Branches {
			records += float64(b.N)
		}
		for _, n := range c.Ranges {
			ranges += float64(n)
		}
	}
	if records == 0 {
		return
	}
	// The depth is not recorded, but follows in two ways. Samples without a stack
	// make the first too small, gaps between records the second.
	depth := records / max(1, delivered)
	if ranges < records {
		depth = max(depth, records/(records-ranges))
	}
	r.perRange = 1
	if depth > 1 {
		r.perRange = depth / (depth - 1)
	}
	if ev := counts[0].Event; ev.Unit == "branches" && delivered > 0 {
		r.perRecord = events / delivered / depth
		name := strings.ToLower(ev.Name)
		r.untaken = !strings.Contains(name, "taken") || strings.Contains(name, "not_taken")
	}
}

// observed is what branch records say of one procedure. All numbers are in records
// of branches, perRecord executions each.
type observed struct {
	records *branchRecords
	any     bool      // something of the procedure was recorded
	taken   float64   // branches that start in it
	block   []float64 // by block
	edge    []float64 // by edge
	exit    []float64 // by block: transfers at its end that leave the procedure
	entry   []float64 // by block: transfers to it from outside, returns not included
	call    []float64 // by call
}

// observe counts the records of p.
func (r *branchRecords) observe(p *image.Proc) *observed {
	o := &observed{
		records: r,
		block:   make([]float64, len(p.Blocks)),
		edge:    make([]float64, len(p.Edges)),
		exit:    make([]float64, len(p.Blocks)),
		entry:   make([]float64, len(p.Blocks)),
		call:    make([]float64, len(p.Calls)),
	}
	if len(p.Blocks) == 0 {
		return o
	}
	lo, hi := p.Blocks[0].Start, p.Blocks[len(p.Blocks)-1].End
	for _, t := range r.from[sort.Search(len(r.from), func(i int) bool { return r.from[i].from >= lo }):] {
		if t.from >= hi {
			break
		}
		o.departure(p, t)
	}
	for _, t := range r.to[sort.Search(len(r.to), func(i int) bool { return r.to[i].to >= lo }):] {
		if t.to >= hi {
			break
		}
		o.arrival(p, t)
	}
	o.straights(p, lo, hi)
	return o
}

// departure counts a branch at its start: along an edge, out of p, or to a callee.
func (o *observed) departure(p *image.Proc, t transfer) {
	i := p.BlockAt(t.from)
	if i < 0 {
		return
	}
	o.any = true
	o.taken += t.n
	if e := jump(p, i, t); e >= 0 {
		o.edge[e] += t.n
		return
	}
	b := &p.Blocks[i]
	if t.from >= b.Last && b.Exit != image.NoExit {
		o.exit[i] += t.n
	}
	// Of several calls at one place (a jump table of tail calls) it is the one
	// with this target, else one whose target is not known.
	best := -1
	for _, c := range b.Calls {
		if call := &p.Calls[c]; call.Site == t.from && (best < 0 || call.To == t.to || p.Calls[best].To != t.to && call.To == 0) {
			best = c
		}
	}
	if best >= 0 {
		o.call[best] += t.n
	}
}

// jump returns the edge that t follows out of block i, or -1.
func jump(p *image.Proc, i int, t transfer) int {
	if t.from >= p.Blocks[i].Last {
		for _, e := range p.Blocks[i].Out {
			if x := &p.Edges[e]; x.Kind != image.FallThrough && p.Blocks[x.To].Start == t.to {
				return e
			}
		}
	}
	return -1
}

// arrival counts a branch at its end, unless departure has counted an edge.
func (o *observed) arrival(p *image.Proc, t transfer) {
	i := p.BlockAt(t.to)
	if i < 0 {
		return
	}
	o.any = true
	if p.Blocks[i].Start != t.to {
		return // back from a call
	}
	if from := p.BlockAt(t.from); from >= 0 && jump(p, from, t) >= 0 {
		return
	}
	// What comes back after the last instruction of a block, from a call or from
	// the kernel, goes on to the next block as if it had fallen through.
	if e := fallInto(p, i); e >= 0 && returns(p, p.Edges[e].From, t.to) {
		o.edge[e] += t.n
		return
	}
	o.entry[i] += t.n
}

// fallInto returns the edge by which control falls into block i, or -1.
func fallInto(p *image.Proc, i int) int {
	for _, e := range p.Blocks[i].In {
		if p.Edges[e].Kind == image.FallThrough {
			return e
		}
	}
	return -1
}

// returns reports whether what arrives at a, right after block i, comes back from
// there: i ends in a call, or nothing else is known to come to a.
func returns(p *image.Proc, i int, a image.Addr) bool {
	for _, c := range p.Blocks[i].Calls {
		if call := &p.Calls[c]; call.Return == a && !call.Tail && !call.NoReturn {
			return true
		}
	}
	return !slices.ContainsFunc(p.Entries, func(b int) bool { return p.Blocks[b].Start == a })
}

// straights counts blocks and falls from one to the next, over the ranges in [lo, hi).
func (o *observed) straights(p *image.Proc, lo, hi image.Addr) {
	r, nb := o.records, len(p.Blocks)
	falls := make([]int, nb)    // edge by which control falls out of the block, or -1
	broken := make([]int, nb+1) // blocks before this one that nothing falls out of
	for i := range p.Blocks {
		falls[i] = -1
		for _, e := range p.Blocks[i].Out {
			if x := &p.Edges[e]; x.Kind == image.FallThrough && x.To == i+1 {
				falls[i] = e
			}
		}
		broken[i+1] = broken[i]
		if falls[i] < 0 {
			broken[i+1]++
		}
	}
	// Ranges, by their differences from block to block: sums of integers are exact.
	begun, fallen := make([]float64, nb+1), make([]float64, nb+1)
	// No range before this one reaches p.
	at := sort.Search(len(r.ranges), func(i int) bool { return r.reach[i] >= lo })
	for _, s := range r.ranges[at:] {
		if s.first >= hi {
			break
		}
		first := sort.Search(nb, func(i int) bool { return p.Blocks[i].End > s.first })
		end := sort.Search(nb, func(i int) bool { return p.Blocks[i].Start > s.last })
		// A range across a place that control does not fall through is false:
		// records are missing, or the code was changed while it ran.
		if first >= end || broken[end-1] != broken[first] {
			continue
		}
		o.any = true
		if s.first < lo {
			o.entry[0] += s.n * r.perRange
		}
		if s.last >= hi && p.Blocks[nb-1].Exit != image.NoExit {
			o.exit[nb-1] += s.n * r.perRange
		}
		fallen[first] += s.n
		fallen[end-1] -= s.n
		if p.Blocks[first].Start < s.first {
			first++
		}
		begun[first] += s.n
		begun[end] -= s.n
	}
	var runs, passes float64
	for i := range nb {
		runs += begun[i]
		passes += fallen[i]
		o.block[i] = runs * r.perRange
		if falls[i] >= 0 {
			o.edge[falls[i]] += passes * r.perRange
		}
	}
}

// takenShare returns the share of executed branches that were taken, by what was
// recorded of procs.
func takenShare(procs []*image.Proc, os []*observed) float64 {
	var taken, not float64
	for i, p := range procs {
		taken += os[i].taken
		for e, n := range os[i].edge {
			b := &p.Blocks[p.Edges[e].From]
			if p.Edges[e].Kind == image.FallThrough && (len(b.Out) > 1 || b.Exit != image.NoExit) {
				not += n
			}
		}
	}
	if taken == 0 {
		return 1
	}
	return taken / (taken + not)
}

// clump is how many records of one place come together: the branches of a loop
// fill a stack. It is ours. In TestBranchErrors the mean square error of a
// logarithm is 1.1 (depth 16) to 1.5 (depth 32) times what independent records
// would give; runs through phases make it larger.
const clump = 2

// observations returns what o knows, one for each class of c and one for each exit
// that is not the only out-edge of its block. Members of a class are seen by much
// the same records, so that more of them do not make it surer.
//
// Where perRecord is 0, the logarithms lack a common summand.
func (o *observed) observations(p *image.Proc, f *flow, c *classes) []observation {
	if !o.any {
		return nil
	}
	sums := make([]struct{ n, members float64 }, c.n)
	add := func(class int32, n float64) {
		// With ranges every execution had its chance to be recorded, so that no
		// record means few executions. Without, branches may have been filtered.
		if n > 0 || len(o.records.ranges) > 0 {
			sums[class].n += n
			sums[class].members++
		}
	}
	for b, n := range o.block {
		add(c.block[b], n)
	}
	for e, n := range o.edge {
		add(c.edge[e], n)
	}
	var obs []observation
	done := make([]bool, c.n)
	note := func(class int32, b, w int) {
		if s := sums[class]; !done[class] && s.members > 0 {
			obs = append(obs, o.observation(b, w, s.n/s.members))
		}
		done[class] = true
	}
	for b := range p.Blocks {
		note(c.block[b], b, -1)
		for i, w := range f.outsOf(b) {
			switch at := int(f.first[b]) + i; {
			case int(w.edge) >= len(o.edge): // to or from a dispatch
			case w.edge >= 0:
				note(c.edge[w.edge], b, at)
			case len(f.outsOf(b)) > 1 && p.Blocks[b].Exit != image.NoExit && (o.exit[b] > 0 || len(o.records.ranges) > 0):
				obs = append(obs, o.observation(b, at, o.exit[b]))
			}
		}
	}
	return obs
}

// observation turns n records into executions. With an uninformed prior (Jeffreys),
// the mean of a Poisson number seen to be k has a gamma distribution of shape
// k+1/2; its logarithm is known even for k = 0.
func (o *observed) observation(b, out int, n float64) observation {
	scale := o.records.perRecord
	if scale == 0 {
		scale = 1
	}
	mean, variance := logGamma(n/clump + 0.5)
	return observation{block: int32(b), out: int32(out), logN: mean + math.Log(clump*scale), sd: math.Sqrt(variance)}
}

// logGamma returns mean and variance of the logarithm of a gamma variable of shape
// a: the digamma and trigamma functions, by recurrence to where their asymptotic
// series (Abramowitz and Stegun 6.3.18, 6.4.12) are good to 1e-7.
func logGamma(a float64) (mean, variance float64) {
	for ; a < 8; a++ {
		mean -= 1 / a
		variance += 1 / (a * a)
	}
	i := 1 / (a * a)
	mean += math.Log(a) - 1/(2*a) - i*(1./12-i*(1./120-i/252))
	variance += 1/a + i/2 + i/a*(1./6-i*(1./30-i/42))
	return mean, variance
}
