package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/infer/stale"
	"backfeed/sample"
)

// A Side is one of two recordings, and what was inferred of it.
type Side struct {
	Recording *sample.Recording
	Profile   *infer.Profile
	Named     map[Named]uint64 // samples that are known by name alone; losses to the profile
}

// counts are of the event that is compared.
func (s *Side) counts() (cs []*sample.Counts) {
	for _, c := range s.Recording.Counts {
		if c.Event.Name == s.Profile.Event.Name {
			cs = append(cs, c)
		}
	}
	return cs
}

// What says what Recordings compares.
type What struct {
	Proc    func(name string) bool // the blocks of procedures with such a name; nil is all procedures
	ByBlock bool                   // compare blocks, which a Proc implies
	Work    *Work                  // amounts for each unit of work are compared; nil: shares
}

// A Difference is what differs between two recordings.
type Difference struct {
	Event   string
	Samples [2]uint64 // before, after
	ByBlock bool
	Blocks  Blocks // if ByBlock is set
	Rows    []Row  // real differences first, the largest first
	Real    int    // how many of Rows chance does not explain
	Work    *Work  // nil if shares are compared

	Dispersion Each // of the samples
}

// Work is what two recordings have done, and how much for each unit of that.
type Work struct {
	Done  [2]float64          // before, after
	Unit  string              // of what is told for each: "s", or the event
	Each  [2]float64          // what a sample stands for, in Unit, for each unit of work
	All   Row                 // all samples; of a Difference
	Spent [2]*explain.Summary // where their time went, likewise; nil where samples do not tell that

	UserOnly bool        // as the function of that name has it, of both recordings
	Used     *[2]float64 // seconds of processor time that the recorded commands used by the kernel's account, for each unit of work; nil: unknown
}

// Blocks counts the blocks of the procedures that were compared by block.
type Blocks struct {
	Tied  int
	Moved int // of those tied: elsewhere in the procedure
	Gone  int
	New   int
}

// A Row is one procedure, one block, or samples that have neither, before and after.
type Row struct {
	Old, New   Part
	Difference float64 // of the shares; of the amounts for each unit of work, if that is compared
	Low, High  float64 // of Difference, with 95 % confidence: what chance of sampling allows, not what runs differ by
	Z, P       float64 // as in a Change
	Real       bool    // chance does not explain the difference
	Image      string  // path; "" of what has none
	Proc       string
	Tie        string // of a block: what ties the two, "new", "gone", or "not seen" with its procedure
	Moved      bool   // of a block: it is elsewhere in the procedure
	Lost       string // why samples have no procedure

	Images [2]*infer.ImageProfile // before, after; nil where there is none
	Procs  [2]*infer.Result       // likewise
}

// A Part is what one recording says of a Row.
type Part struct {
	Samples    uint64
	Share      float64          // of the samples of the recording
	Amount     float64          // for each unit of work, if that is compared
	Executions *float64         // nil is unknown
	Confidence infer.Confidence // of the executions; CPI has the same
	CPI        *float64         // cycles per instruction; nil is unknown
	Addr       *image.Addr      // of a block; nil if it is not there
}

// A differ compares two inferences.
type differ struct {
	*Difference
	proc  func(name string) bool
	sides [2]Side
	time  [2]*explain.Explainer              // nil where samples do not tell time
	spent [2]map[*infer.Result]explain.Ideal // of the procedures with samples, likewise
}

// Recordings compares where time went in two recordings of the same event, whose images are
// open: procedures of two builds of a program are matched by package stale. Samples without
// a procedure are rows, too, unless one procedure is asked for.
func Recordings(before, after Side, what What) *Difference {
	d := &differ{Difference: &Difference{Event: before.Profile.Event.Name, ByBlock: what.ByBlock || what.Proc != nil}, proc: what.Proc, sides: [2]Side{before, after}}
	if what.Work != nil {
		w := *what.Work // which stays the caller's
		d.Work = &w
	}
	for i, s := range d.sides {
		d.Samples[i] = s.Profile.Samples.Total
		d.Dispersion[i] = sample.Dispersion(s.counts())
		if x, err := explain.New(s.Profile, s.Recording); err == nil {
			d.time[i], d.spent[i] = x, map[*infer.Result]explain.Ideal{}
			if d.ByBlock { // whose time is asked for block by block
				continue
			}
			var sum explain.Summary
			for _, e := range x.All() {
				d.spent[i][e.Result] = e.Ideal()
				sum.Add(&e.Summary)
			}
			if d.Work != nil {
				sum.Add(x.Rest())
				d.Work.Spent[i] = &sum
			}
		}
	}
	for _, pair := range d.images() {
		d.image(pair[0], pair[1])
	}
	if d.proc == nil {
		d.lost()
	}
	d.judge()
	return d.Difference
}

// NewWork finds out what a sample of either recording stands for, where so much was done before and after, such as requests.
func NewWork(before, after Side, done [2]float64) (*Work, error) {
	w := &Work{Done: done}
	var units [2]string
	for i, s := range []Side{before, after} {
		if !(done[i] > 0) || math.IsInf(done[i], 0) {
			return nil, fmt.Errorf("%g was done, want more than 0", done[i])
		}
		var weight, samples float64
		for _, c := range s.Recording.Counts {
			if c.Event.Name != s.Profile.Event.Name {
				continue
			}
			if c.Weight == 0 && c.Delivered() > 0 {
				return nil, fmt.Errorf("it is not known how much a sample of %s stands for", c.Event.Name)
			}
			units[i] = c.Event.Unit
			weight, samples = weight+float64(c.Weight), samples+float64(c.Delivered())
		}
		if w.Each[i] = weight / max(samples, 1) / done[i]; units[i] == "ns" {
			w.Each[i] /= 1e9
		}
	}
	if units[0] != units[1] {
		return nil, fmt.Errorf("samples of %s before, of %s after", units[0], units[1])
	}
	if w.Unit = units[0]; w.Unit == "ns" {
		w.Unit = "s"
		old, new := before.counts(), after.counts()
		w.UserOnly = UserOnly(slices.Concat(old, new))
		if a, ok := Used(before.Recording, old); ok {
			if b, ok := Used(after.Recording, new); ok {
				w.Used = &[2]float64{a / done[0], b / done[1]}
			}
		}
	}
	return w, nil
}

// UserOnly reports whether samples are of the time in user code alone: those of a timer's interrupts, none of which is in the kernel. Those of
// signals and of ptrace are of both.
func UserOnly(cs []*sample.Counts) bool {
	return len(cs) > 0 && !slices.ContainsFunc(cs, func(c *sample.Counts) bool {
		return !c.OfInterrupts() || c.Lost[sample.LostKernel] > 0 ||
			slices.ContainsFunc(c.Images, func(ic *sample.ImageCounts) bool { return ic.ID.OfKernel() && ic.Samples() > 0 })
	})
}

// Used returns what the recorded commands used of processor time, in seconds: if that is known of all of them, and they are what was sampled, as
// counts of the recording say, by their user time. It is not where a part of a run was recorded, all that ran beside a command, or samples were weighed.
func Used(rec *sample.Recording, counts []*sample.Counts) (all float64, ok bool) {
	if len(rec.Runs) == 0 || rec.Unlisted > 0 {
		return 0, false
	}
	var user, sampled float64
	for _, r := range rec.Runs {
		if r.Usage == (sample.Usage{}) {
			return 0, false
		}
		user += float64(r.Usage.User) / 1e6
		all += float64(r.Usage.User+r.Usage.System) / 1e6
	}
	for _, c := range counts {
		sampled += float64(c.Weight) / 1e9
	}
	const near = 1.25 // 200 samples tell a time to 14 % with 95 % confidence
	return all, user > 0 && sampled > 0 && max(user/sampled, sampled/user) <= near
}

// exposed returns what the numbers of samples are held against: the totals if shares are compared; else how much was done in samples, so
// much that samples are few beside it. each is what one sample of such a total is.
func (d *Difference) exposed() (totals [2]uint64, each float64) {
	if d.Work == nil {
		return d.Samples, 1
	}
	const few = 1 << 14
	least := min(d.Work.Each[0], d.Work.Each[1])
	most := 0.0
	for i, n := range d.Samples {
		most = max(most, float64(n)*d.Work.Each[i]) // amounts
	}
	if !(least > 0 && most > 0) {
		return d.Samples, 0
	}
	each = few * most
	for i := range totals {
		totals[i] = uint64(min(math.Round(each/d.Work.Each[i]), 1<<62))
	}
	return totals, each
}

// images pairs the images of the two: those of the new one in order, then those of
// the old one that have no partner.
func (d *differ) images() [][2]*infer.ImageProfile {
	old, new := d.sides[0].Profile.Images, d.sides[1].Profile.Images
	names := ImageNames(d.sides[0].Recording, d.sides[1].Recording)
	name := func(ip *infer.ImageProfile) string {
		if n, ok := names[ip.ID]; ok {
			return n
		}
		return ip.ID.Path
	}
	paired := map[*infer.ImageProfile]bool{}
	var pairs [][2]*infer.ImageProfile
	for _, n := range new {
		pair := [2]*infer.ImageProfile{nil, n}
		i := slices.IndexFunc(old, func(o *infer.ImageProfile) bool { return o.ID.Key() == n.ID.Key() })
		if i < 0 {
			i = slices.IndexFunc(old, func(o *infer.ImageProfile) bool { return name(o) == name(n) && o.Image.Arch == n.Image.Arch })
		}
		if i >= 0 && !paired[old[i]] {
			pair[0] = old[i]
			paired[old[i]] = true
		}
		pairs = append(pairs, pair)
	}
	for _, o := range old {
		if !paired[o] {
			pairs = append(pairs, [2]*infer.ImageProfile{o, nil})
		}
	}
	return pairs
}

// image adds rows for the procedures of an image.
func (d *differ) image(old, new *infer.ImageProfile) {
	var b *stale.Builds
	path := ""
	if new != nil {
		path = new.ID.Path
	} else {
		path = old.ID.Path
	}
	if old != nil && new != nil && old.ID.Key() != new.ID.Key() {
		b = stale.NewBuilds(old.Image, new.Image)
	}
	for _, p := range PairProcs(old, new, b) {
		r := p.New
		if r == nil {
			r = p.Old
		}
		row := Row{Image: path, Proc: r.Proc.Name, Images: [2]*infer.ImageProfile{old, new}, Procs: [2]*infer.Result{p.Old, p.New}}
		samples := uint64(0)
		for _, r := range []*infer.Result{p.Old, p.New} {
			if r != nil {
				samples += r.Samples
			}
		}
		switch {
		case samples == 0 || d.proc != nil && !(p.New != nil && d.proc(p.New.Proc.Name) || p.Old != nil && d.proc(p.Old.Proc.Name)):
		case d.ByBlock:
			d.blocks([2]*infer.ImageProfile{old, new}, p, b, row)
		default:
			row.Old, row.New = d.procPart(0, p.Old), d.procPart(1, p.New)
			d.Rows = append(d.Rows, row)
		}
	}
}

func (d *differ) procPart(i int, r *infer.Result) Part {
	if r == nil {
		return Part{}
	}
	return partOf(r.Samples, r.Entries, d.spent[i][r])
}

// partOf is what a recording says of code that spent its time so.
func partOf(samples uint64, f infer.Freq, spent explain.Ideal) Part {
	s := Part{Samples: samples}
	if f.Conf != infer.None {
		s.Executions, s.Confidence = &f.N, f.Conf
	}
	if cpi := spent.CPI(); !math.IsNaN(cpi) {
		s.CPI = &cpi
	}
	return s
}

// blocks adds rows for the blocks of a procedure: all of the one that was asked for,
// of others those that have samples.
func (d *differ) blocks(ips [2]*infer.ImageProfile, p ProcPair, b *stale.Builds, row Row) {
	cycles := [2][]float64{d.blockCycles(0, ips[0], p.Old), d.blockCycles(1, ips[1], p.New)}
	at := map[int]int{} // by block of the new procedure: index into Rows
	for _, pair := range p.PairBlocks(b) {
		if i, ok := at[pair.New]; ok && pair.New >= 0 { // another part of it in the old build
			d.Rows[i].Old.Samples += p.Old.BlockSamples[pair.Old]
			continue
		}
		row := row
		if pair.Old >= 0 {
			row.Old = blockPart(p.Old, pair.Old, cycles[0])
		}
		if pair.New >= 0 {
			row.New = blockPart(p.New, pair.New, cycles[1])
		}
		row.Tie, row.Moved = d.tie(p, pair)
		if d.proc == nil && row.Old.Samples+row.New.Samples == 0 {
			continue
		}
		if pair.New >= 0 {
			at[pair.New] = len(d.Rows)
		}
		d.Rows = append(d.Rows, row)
	}
}

// tie says in a word what ties a pair of blocks, and counts it.
func (d *differ) tie(p ProcPair, pair BlockPair) (tie string, moved bool) {
	n := &d.Blocks
	switch {
	case (p.Old == nil || p.New == nil) && p.Both:
		return "not seen", false // with its whole procedure, on one of the sides
	case pair.Old < 0:
		n.New++
		return "new", false
	case pair.New < 0:
		n.Gone++
		return "gone", false
	}
	n.Tied++
	if moved = !SamePlace(p.Old.Proc, pair.Old, p.New.Proc, pair.New); moved {
		n.Moved++
	}
	return pair.Tie.String(), moved
}

// blockCycles returns the cycles of each block, where samples tell them: attributed to
// what was waited for, which is often in the block before the one that was sampled.
func (d *differ) blockCycles(i int, ip *infer.ImageProfile, r *infer.Result) []float64 {
	if r == nil || d.time[i] == nil {
		return nil
	}
	cycles := make([]float64, len(r.Proc.Blocks))
	for _, in := range d.time[i].Explain(ip, r).Insts {
		cycles[in.Block] += in.Total
	}
	return cycles
}

func blockPart(r *infer.Result, b int, cycles []float64) Part {
	n := 0.0
	if cycles != nil {
		n = cycles[b]
	}
	s := partOf(r.BlockSamples[b], r.Block[b], explain.Ideal{Cycles: n, Instructions: r.Block[b].N * float64(r.Proc.Blocks[b].Insts)})
	a := r.Proc.Blocks[b].Start
	s.Addr = &a
	return s
}

// lost adds rows for samples that have no procedure, by reason or by name.
func (d *differ) lost() {
	at := map[Thing]int{}
	add := func(i int, t Thing, n uint64) {
		k, ok := at[t]
		if !ok {
			k = len(d.Rows)
			at[t] = k
			d.Rows = append(d.Rows, Row{Image: t.Image, Proc: t.Proc, Lost: t.Lost})
		}
		if i == 0 {
			d.Rows[k].Old.Samples += n
		} else {
			d.Rows[k].New.Samples += n
		}
	}
	for i, s := range d.sides {
		known := map[sample.Loss]uint64{} // losses that are something after all
		for n, k := range s.Named {
			if n.Event == s.Profile.Event.Name && n.Name != "" {
				add(i, Thing{Image: n.Image.Path, Proc: n.Name}, k)
				known[n.Loss] += k
			}
		}
		for why, k := range s.Profile.Samples.Lost {
			if k -= min(k, known[why]); k > 0 {
				add(i, Thing{Lost: string(why)}, k)
			}
		}
	}
}

// judge finds out which differences are more than chance, and sorts rows: those
// first, the largest first.
func (d *differ) judge() {
	var pairs [][2]uint64
	for i := range d.Rows {
		pairs = append(pairs, [2]uint64{d.Rows[i].Old.Samples, d.Rows[i].New.Samples})
	}
	totals, each := d.exposed()
	for i, ch := range Changes(pairs, totals, d.Dispersion) {
		d.decide(&d.Rows[i], ch, totals, each)
		if ch.Real {
			d.Real++
		}
	}
	if d.Work != nil {
		d.Work.All = Row{Old: Part{Samples: d.Samples[0]}, New: Part{Samples: d.Samples[1]}}
		d.decide(&d.Work.All, Changes([][2]uint64{d.Samples}, totals, d.Dispersion)[0], totals, each)
	}
	slices.SortStableFunc(d.Rows, func(a, b Row) int {
		if a.Real != b.Real {
			if a.Real {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)), cmp.Compare(a.Image, b.Image),
			cmp.Compare(a.Proc, b.Proc), cmp.Compare(a.addr(), b.addr()), cmp.Compare(a.Lost, b.Lost))
	})
}

// Apart reports whether amounts that are between two ends each are apart by more than sampling allows, with 95 % confidence.
func (d *Difference) Apart(old, new [2]float64) bool {
	totals, _ := d.exposed()
	samples := func(of int, amount float64) uint64 { return uint64(max(0, math.Round(amount/d.Work.Each[of]))) }
	switch {
	case new[0] > old[1]:
		low, _ := Interval([2]uint64{samples(0, old[1]), samples(1, new[0])}, totals, d.Dispersion)
		return low > 0
	case old[0] > new[1]:
		_, high := Interval([2]uint64{samples(0, old[0]), samples(1, new[1])}, totals, d.Dispersion)
		return high < 0
	}
	return false
}

// decide says how a row differs, of which ch is known; totals and each are what exposed returns.
func (d *differ) decide(r *Row, ch Change, totals [2]uint64, each float64) {
	r.Old.Share = float64(ch.Old) / float64(d.Samples[0])
	r.New.Share = float64(ch.New) / float64(d.Samples[1])
	r.Difference, r.Z, r.P, r.Real = r.New.Share-r.Old.Share, ch.Z, ch.P, ch.Real
	r.Low, r.High = Interval([2]uint64{ch.Old, ch.New}, totals, d.Dispersion)
	if d.Work == nil {
		return
	}
	r.Old.Amount, r.New.Amount = float64(ch.Old)*d.Work.Each[0], float64(ch.New)*d.Work.Each[1]
	r.Difference, r.Low, r.High = r.New.Amount-r.Old.Amount, r.Low*each, r.High*each
}

// addr is where a block lies, in the newer build if it is there; 0 of what is no block.
func (r *Row) addr() image.Addr {
	switch {
	case r.New.Addr != nil:
		return *r.New.Addr
	case r.Old.Addr != nil:
		return *r.Old.Addr
	}
	return 0
}
