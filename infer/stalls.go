package infer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

// A Cause is a reason why an instruction may take longer than the least that the
// machine model gives it.
type Cause uint8

const (
	DCache       Cause = iota // data is not in the first cache
	DTLB                      // nor is the translation of its address
	StoreForward              // a load needs what a store that is not done wrote, and cannot have it from the store buffer, or seems to
	StoreBuffer               // the store buffer is full
	Mispredict                // a branch went another way than predicted
	ICache                    // code is not in the first cache
	ITLB                      // nor is the translation of its address
	FrontEnd                  // code is fetched or decoded too slowly: taken branches, code that the cache of decoded operations does not hold
	Divider                   // a division takes long, or divisions compete
	Multiplier                // likewise a multiplication
	Dependency                // a chain of results that began before the block
	Lock                      // an atomic operation or a fence
	PageFault                 // memory is touched for the first time
	Assist                    // arithmetic on subnormal numbers, traps of floating point
	Microcode                 // string, serialising and system instructions
	NumCauses                 // how many there are
)

var causeNames = [NumCauses]string{"dcache-miss", "dtlb-miss", "store-forward", "store-buffer", "mispredict", "icache-miss", "itlb-miss", "front-end",
	"divider", "multiplier", "dependency", "lock", "page-fault", "fp-assist", "microcode"}

func (c Cause) String() string {
	if c < NumCauses {
		return causeNames[c]
	}
	return "unknown"
}

// Letter gives the letter of c in narrow columns, those of DCPI's dcpitopstalls where
// it has one.
func (c Cause) Letter() byte {
	if c < NumCauses {
		return "dDfwpITe/*~LFam"[c]
	}
	return '?'
}

// Causes lists all causes.
func Causes() []Cause {
	all := make([]Cause, NumCauses)
	for c := range all {
		all[c] = Cause(c)
	}
	return all
}

// A Culprit is what may explain a stall: the causes that could not be ruled out, each
// with the least and the most of the stall that it explains. Least is what no other
// culprit of the stall can explain.
type Culprit struct {
	Cause       Cause
	From        image.Addr // the instruction that was waited for; 0 is unknown, or in another procedure
	Least, Most float64    // cycles per execution
	score       float64    // how likely it is to explain all
}

// A Stall is the time of an instruction beyond the model's least.
type Stall struct {
	Cycles      float64   // per execution
	Culprits    []Culprit // the likeliest first
	Unexplained float64   // cycles per execution that no culprit can explain
}

// An InstTime is where the time of one instruction went.
type InstTime struct {
	image.Inst
	Block   int         // index into Proc.Blocks
	Samples uint64      // as recorded, at this address
	N       float64     // executions
	Time    float64     // cycles per execution that it was waited for; 0 where N is
	Total   float64     // the same in all executions
	Least   float64     // cycles per execution, by the model
	Why     machine.Why // what Least comes from
	On      image.Addr  // what it depends on, where Why is Dependency
	Unit    string      // the unit, where Why is Unit
	Stall   Stall
}

// An Explanation says where the time of a procedure went.
type Explanation struct {
	Result *Result
	Insts  []InstTime // by address
	Summary
}

// A Range is an amount that is not known better: at least Least, at most Most.
type Range struct{ Least, Most float64 }

func (r *Range) add(s Range) { r.Least, r.Most = r.Least+s.Least, r.Most+s.Most }

// A Summary is cycles by what they went to, of instructions, procedures or images. It
// is all of the time: Cycles = the sum of Static + Uncounted + Dynamic. The Least of
// all causes, and what is unexplained, add up to Dynamic at most, their Most to Dynamic at least.
type Summary struct {
	Cycles      float64
	Static      [NumWhys]float64 // by machine.Why: what the model expects, as far as it was seen
	Dynamic     float64          // stalls
	Causes      [NumCauses]Range
	Likeliest   [NumCauses]float64 // of Dynamic: stalls by the first of their culprits, as far as it explains them
	Unexplained float64            // of Dynamic: no cause is left
	Uncounted   float64            // of code whose executions are not known
	Dispatched  float64            // cycles that dispatching all operations takes at least
}

// NumWhys is how many machine.Why there are.
const NumWhys = int(machine.Fetch) + 1

// Add adds the cycles of t.
func (s *Summary) Add(t *Summary) {
	s.Cycles += t.Cycles
	for i := range s.Static {
		s.Static[i] += t.Static[i]
	}
	s.Dynamic += t.Dynamic
	for i := range s.Causes {
		s.Causes[i].add(t.Causes[i])
		s.Likeliest[i] += t.Likeliest[i]
	}
	s.Unexplained += t.Unexplained
	s.Uncounted += t.Uncounted
	s.Dispatched += t.Dispatched
}

// TopDown gives the four shares of level 1 of the top-down method (Yasin, "A Top-Down
// Method for Performance Analysis and Counters Architecture", ISPASS 2014) as far as
// samples of time tell: shares of the cycles, between 0 and 1.
type TopDown struct{ Retiring, BadSpeculation, FrontEnd, BackEnd Range }

// TopDown estimates the top-down shares. They are ranges of what the causes allow;
// they inherit the error of the counts' scale, which Profile's confidence tells.
func (s *Summary) TopDown() (t TopDown) {
	if !(s.Cycles > 0) {
		return t
	}
	share := func(r Range) Range {
		return Range{min(1, max(0, r.Least)/s.Cycles), min(1, max(0, r.Most)/s.Cycles)}
	}
	var front, back Range
	for c, r := range s.Causes {
		switch Cause(c) {
		case Mispredict:
		case ICache, ITLB, FrontEnd, Microcode:
			front.add(r)
		default:
			back.add(r)
		}
	}
	unknown := s.Unexplained + s.Uncounted
	static := 0.0
	for _, n := range s.Static {
		static += n
	}
	retiring := min(s.Dispatched, static)
	fetch := s.Static[machine.Fetch]
	t.Retiring = share(Range{retiring, min(s.Dispatched, s.Cycles) + s.Uncounted})
	t.BadSpeculation = share(Range{s.Causes[Mispredict].Least, s.Causes[Mispredict].Most + unknown})
	t.FrontEnd = share(Range{front.Least, front.Most + fetch + unknown})
	t.BackEnd = share(Range{back.Least + max(0, static-retiring-fetch), back.Most + static - retiring + unknown})
	return t
}

// An Explainer explains the time of the procedures of one Profile.
type Explainer struct {
	prof      *Profile
	model     *machine.Model
	perSample float64 // cycles
	skid      bool    // a sample names the instruction after the one that was waited for
	lines     reuse
	pages     reuse
	events    [NumCauses]*eventCounts
}

// ErrNoTime is wrapped where samples do not tell how long instructions took.
var ErrNoTime = errors.New("samples of this event do not tell time")

// NewExplainer prepares to explain prof, which was inferred from rec.
func NewExplainer(prof *Profile, rec *sample.Recording) (*Explainer, error) {
	model, err := machine.ByName(prof.Machine)
	if err != nil {
		return nil, err
	}
	x := &Explainer{prof: prof, model: model, perSample: float64(max(1, prof.Event.Period))}
	switch prof.Event.Unit {
	case "ns":
		x.perSample *= typicalGHz
	case "cycles":
	default:
		return nil, fmt.Errorf("%s: %w", prof.Event.Name, ErrNoTime)
	}
	x.skid = !model.InOrder && !preciseEvent(prof.Event.Name)
	x.measureReuse()
	x.readEvents(rec)
	return x, nil
}

// preciseEvent tells of events whose samples name the instruction that was waited for:
// perf's modifier p.
func preciseEvent(event string) bool {
	_, modifiers, ok := strings.Cut(event, ":")
	return ok && strings.Contains(modifiers, "p")
}

// CyclesPerSample is what one sample stands for. Where the event counts time, it
// takes a clock of 3 GHz, as the counts do.
func (x *Explainer) CyclesPerSample() float64 { return x.perSample }

// Model is the machine model of the explanation.
func (x *Explainer) Model() *machine.Model { return x.model }

// Explain says where the time of r, a procedure of ip, went.
func (x *Explainer) Explain(ip *ImageProfile, r *Result) *Explanation {
	w := x.newWork(ip, r)
	w.charge()
	// From here on the time of every sample is at the instruction that was waited for.
	w.stall()
	// From here on every instruction has its time beyond the least.
	for i := range w.exp.Insts {
		if t := &w.exp.Insts[i]; t.Stall.Cycles > 0 {
			w.blame(i)
			t.Stall.share()
		}
	}
	w.exp.sum()
	for b := range r.Proc.Blocks {
		w.exp.Dispatched += r.Block[b].N * float64(w.uops[b]) / float64(x.model.Width.Dispatch)
	}
	return w.exp
}

// work is what it takes to explain one procedure.
type work struct {
	*Explainer
	im    *image.Image
	ipKey sample.ImageID
	r     *Result
	exp   *Explanation
	ops   []image.Operands // as exp.Insts
	first []int            // of each block: its first instruction; then how many there are
	uops  []int            // of each block
	next  [][]passage      // of each instruction that time was charged to: where the samples were
	frame int              // register that is a frame pointer; -1 if there is none
}

// A passage leads from an instruction to the one where samples show that it was
// waited for.
type passage struct {
	to     int     // index into Insts
	share  float64 // of the executions of the first
	taken  bool    // a jump
	entry  bool    // into the procedure, from nowhere
	called bool    // back from a call
}

func (x *Explainer) newWork(ip *ImageProfile, r *Result) *work {
	w := &work{Explainer: x, im: ip.Image, ipKey: ip.ID.Key(), r: r, exp: &Explanation{Result: r}}
	n := 0
	for i := range r.Proc.Blocks {
		n += r.Proc.Blocks[i].Insts
	}
	w.exp.Insts = make([]InstTime, 0, n)
	var insts []image.Inst
	for b := range r.Proc.Blocks {
		block := &r.Proc.Blocks[b]
		w.first = append(w.first, len(w.exp.Insts))
		insts, w.ops = w.im.AppendOperands(insts[:0], w.ops, block)
		s := x.model.Schedule(w.im, block)
		w.uops = append(w.uops, s.Uops)
		for i, in := range insts {
			slot := &s.Insts[i]
			t := InstTime{Inst: in, Block: b, N: r.Block[b].N, Least: slot.Least, Why: slot.Why, Unit: slot.Unit}
			if slot.Why == machine.Dependency {
				t.On = s.Insts[slot.On].Addr
			}
			if off, ok := w.im.OffsetOf(in.Addr); ok {
				t.Samples = ip.counts.At[off]
			}
			w.exp.Insts = append(w.exp.Insts, t)
		}
	}
	w.first = append(w.first, len(w.exp.Insts))
	w.next = make([][]passage, len(w.exp.Insts))
	w.frame = w.framePointer()
	return w
}

// charge puts the time of samples down to the instructions that were waited for.
//
// On a core that executes out of order, a timer's interrupt lets the oldest
// instruction finish and names the one after it. At the top of a block that is the
// last instruction of a block before, of each as often as it leads here. Time at the
// entry of a procedure stays there: what leads to it is in other procedures.
func (w *work) charge() {
	for b := range w.r.Proc.Blocks {
		for i := w.first[b]; i < w.first[b+1]; i++ {
			time := float64(w.exp.Insts[i].Samples) * w.perSample
			switch {
			case !w.skid:
				w.give(i, passage{to: i, share: 1}, time)
			case i > w.first[b]:
				called := w.exp.Insts[i-1].Class&(image.DirCall|image.IndCall) != 0
				w.give(i-1, passage{to: i, share: 1, called: called}, time)
			default:
				w.chargeTop(b, time)
			}
		}
	}
	for i := range w.exp.Insts {
		if t := &w.exp.Insts[i]; t.N > 0 {
			t.Time = t.Total / t.N
		}
	}
}

// chargeTop charges the time at the first instruction of block b.
func (w *work) chargeTop(b int, time float64) {
	block, top := &w.r.Proc.Blocks[b], w.first[b]
	in := 0.0
	for _, e := range block.In {
		in += w.r.Edge[e].N
	}
	all := max(in, w.r.Block[b].N)
	if !(all > 0) {
		w.give(top, passage{to: top, share: 1, entry: true}, time)
		return
	}
	for _, e := range block.In {
		edge := &w.r.Proc.Edges[e]
		n := w.r.Edge[e].N
		if last := w.first[edge.From+1] - 1; n > 0 && last >= w.first[edge.From] {
			t := passage{to: top, share: n / max(w.r.Block[edge.From].N, n), taken: edge.Kind != image.FallThrough}
			t.called = w.exp.Insts[last].Class&(image.DirCall|image.IndCall) != 0
			w.give(last, t, time*n/all)
		}
	}
	if rest := all - in; rest > 1e-9*all {
		w.give(top, passage{to: top, share: rest / all, entry: true}, time*rest/all)
	}
}

func (w *work) give(i int, t passage, time float64) {
	if time > 0 {
		w.exp.Insts[i].Total += time
		w.next[i] = append(w.next[i], t)
	}
}

// stall finds the time beyond the least. What instructions of one block take longer
// and shorter than the model says evens out first: on a core that retires many at a
// time, which of them is caught is partly chance.
func (w *work) stall() {
	for b := range w.r.Proc.Blocks {
		insts := w.exp.Insts[w.first[b]:w.first[b+1]]
		var time, least, over float64
		for i := range insts {
			t := &insts[i]
			time, least, over = time+t.Time, least+t.Least, over+max(0, t.Time-t.Least)
		}
		if !(time > least) || !(over > 0) {
			continue
		}
		for i := range insts {
			insts[i].Stall.Cycles = max(0, insts[i].Time-insts[i].Least) * (time - least) / over
		}
	}
}

// share finds out what each culprit of s explains.
func (s *Stall) share() {
	var all float64
	for i := range s.Culprits {
		c := &s.Culprits[i]
		c.Most = min(c.Most, s.Cycles)
		all += c.Most
	}
	for i := range s.Culprits {
		c := &s.Culprits[i]
		c.Least = min(c.Most, max(0, s.Cycles-(all-c.Most)))
	}
	s.Unexplained = max(0, s.Cycles-all)
	slices.SortStableFunc(s.Culprits, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(b.score*b.Most, a.score*a.Most), cmp.Compare(a.Cause, b.Cause))
	})
}

// sum adds up the instructions.
func (e *Explanation) sum() {
	for i := range e.Insts {
		t := &e.Insts[i]
		e.Cycles += t.Total
		if !(t.N > 0) {
			e.Uncounted += t.Total
			continue
		}
		stall := t.Stall.Cycles * t.N
		e.Static[t.Why] += t.Total - stall
		e.Dynamic += stall
		for k, c := range t.Stall.Culprits {
			e.Causes[c.Cause].add(Range{c.Least * t.N, c.Most * t.N})
			if k == 0 {
				e.Likeliest[c.Cause] += c.Most * t.N
			}
		}
		e.Unexplained += t.Stall.Unexplained * t.N
	}
}

// Check reports the first promise that e breaks. Tests call it on every Explanation.
func (e *Explanation) Check() error {
	all := e.Dynamic + e.Uncounted
	for _, n := range e.Static {
		all += n
	}
	if !alike(all, e.Cycles) {
		return fmt.Errorf("%s: %g cycles, but %g by what they went to", e.Result.Proc.Name, e.Cycles, all)
	}
	for i := range e.Insts {
		t := &e.Insts[i]
		least, most := t.Stall.Unexplained, t.Stall.Unexplained
		seen := [NumCauses]bool{}
		for _, c := range t.Stall.Culprits {
			if c.Cause >= NumCauses || seen[c.Cause] {
				return fmt.Errorf("%#x: cause %s is unknown or there twice", uint64(t.Addr), c.Cause)
			}
			seen[c.Cause] = true
			if !(c.Least >= 0 && c.Least <= c.Most*(1+1e-9)+1e-9 && c.Most <= t.Stall.Cycles*(1+1e-9)+1e-9) {
				return fmt.Errorf("%#x: %s explains %g to %g of %g cycles", uint64(t.Addr), c.Cause, c.Least, c.Most, t.Stall.Cycles)
			}
			least, most = least+c.Least, most+c.Most
		}
		if d := t.Stall.Cycles; !(d >= 0) || d > t.Time*(1+1e-9) || least > d*(1+1e-9)+1e-9 || most < d*(1-1e-9)-1e-9 {
			return fmt.Errorf("%#x: a stall of %g of %g cycles, of which %g to %g are explained", uint64(t.Addr), d, t.Time, least, most)
		}
	}
	return nil
}

func alike(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)+math.Abs(b)) }

// A reuse tells how many pieces of code are executed between two executions of one.
type reuse struct {
	n   []float64 // executions of the pieces, rising
	sum []float64 // of the first so many of n
}

// measureReuse finds the executions of all cache lines and pages of code.
func (x *Explainer) measureReuse() {
	lines, pages := map[[2]uint64]float64{}, map[[2]uint64]float64{}
	for i, ip := range x.prof.Images {
		for _, r := range ip.Procs {
			for b := range r.Proc.Blocks {
				n := r.Block[b].N
				if !(n > 0) {
					continue
				}
				block := &r.Proc.Blocks[b]
				for l := uint64(block.Start) / lineSize; l <= uint64(block.End-1)/lineSize; l++ {
					key := [2]uint64{uint64(i), l}
					lines[key] = max(lines[key], n)
					key[1] = l * lineSize / pageSize
					pages[key] = max(pages[key], n)
				}
			}
		}
	}
	x.lines, x.pages = newReuse(lines), newReuse(pages)
}

// Sizes in bytes: of the lines of caches on all processors that have a model, and of
// the smallest pages.
const (
	lineSize = 64
	pageSize = 4096
)

func newReuse(pieces map[[2]uint64]float64) reuse {
	u := reuse{sum: []float64{0}}
	for _, n := range pieces {
		u.n = append(u.n, n)
	}
	slices.Sort(u.n)
	for _, n := range u.n {
		u.sum = append(u.sum, u.sum[len(u.sum)-1]+n)
	}
	return u
}

// between gives how many pieces are executed between two executions of one that runs n
// times, if all are spread evenly: those that run as often, and of the others the
// share that runs in such a stretch.
func (u *reuse) between(n float64) float64 {
	i, _ := slices.BinarySearch(u.n, n)
	return float64(len(u.n)-i) + u.sum[i]/n
}
