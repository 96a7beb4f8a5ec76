package explain

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"backfeed/infer"
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
	Mispredict                // a branch was predicted wrongly
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
	KernelReturn              // the kernel returns from a system call, with interrupts off
	NumCauses                 // how many there are
)

var causeNames = [NumCauses]string{"dcache-miss", "dtlb-miss", "store-forward", "store-buffer", "mispredict", "icache-miss", "itlb-miss", "front-end",
	"divider", "multiplier", "dependency", "lock", "page-fault", "fp-assist", "microcode", "kernel-return"}

// String returns the name of c, as commands take it.
func (c Cause) String() string {
	if c < NumCauses {
		return causeNames[c]
	}
	return "unknown"
}

// Letter returns the letter of c in narrow columns, those of DCPI's dcpitopstalls where
// it has one.
func (c Cause) Letter() byte {
	if c < NumCauses {
		return "dDfwpITe/*~LFamk"[c]
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
// with the least and the most that it explains of the time of the instruction, over all
// that executions may be with 90 % confidence. Least is what no other culprit can
// explain, nor the model's least, even if the code ran as often as it may have; Most may
// be more than the stall by the estimated executions.
type Culprit struct {
	Cause       Cause
	From        image.Addr // the instruction that was waited for; 0 is unknown, or in another procedure
	Least, Most float64    // cycles per execution
	weight      float64    // its likelihood, times the cycles of the stall
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
	Static  Static      // what Least goes to: Why, or the slow operation that it is for
	For     image.Addr  // that operation, if Static is one
	Stall   Stall

	faulted uint64  // of Samples, those that are time of page faults
	doubt   float64 // of Total: cycles that are another's, if edges were taken as seldom as they may have been
}

// An Explanation says where the time of a procedure went.
type Explanation struct {
	Result *infer.Result
	Insts  []InstTime // by address
	Summary

	perSample float64   // cycles
	off       []float64 // by block: the factor that its executions may be off by, as levelError
}

// A Range is an amount that is not known better: at least Least, at most Most.
type Range struct{ Least, Most float64 }

func (r *Range) add(s Range) { r.Least, r.Most = r.Least+s.Least, r.Most+s.Most }

// A Summary is cycles by what they went to, of instructions, procedures, images or a
// recording. It is all of the time: Cycles = the sum of Static + Dynamic + Uncounted +
// Kernel + Elsewhere. The Least of all causes, and what is unexplained, add up to
// Dynamic at most, their Most to Dynamic at least: these are over all that executions may be.
type Summary struct {
	Cycles      float64
	Static      [NumStatics]float64 // what the model expects, as far as it was seen
	Statics     [NumStatics]Range   // the same, by how well it is known how many ran
	Dynamic     float64             // stalls
	Causes      [NumCauses]Range
	Likeliest   [NumCauses]float64 // of Dynamic: stalls by the first of their culprits, as far as it explains them
	Unexplained float64            // of Dynamic: no cause is left
	Uncounted   float64            // of code whose executions are not known
	Kernel      float64            // in the kernel; of recordings alone, see Explainer.Rest
	Elsewhere   float64            // of samples in no known procedure; likewise
	Dispatched  Range              // cycles that dispatching all operations takes, by how well it is known how many ran

	// Mispredicted is executions: of branches that a predictor without memory of what went before gets
	// wrong, by how they are estimated to go.
	Mispredicted float64
}

// Expected is Static for people: what was caught although it retires with the instruction before goes
// with dispatching, which is why it takes time at all.
func (s *Summary) Expected() [NumStatics]float64 {
	by := s.Static
	by[machine.Dispatch] += by[machine.Together]
	by[machine.Together] = 0
	return by
}

// ExpectedRanges is Expected by how well it is known how often the code ran.
func (s *Summary) ExpectedRanges() [NumStatics]Range {
	by := s.Statics
	by[machine.Dispatch].add(by[machine.Together])
	by[machine.Together] = Range{}
	return by
}

// Several returns the cycles of stalls that the likeliest culprit of each cannot explain,
// but others can. With Likeliest and Unexplained they are all of Dynamic.
func (s *Summary) Several() float64 {
	rest := s.Dynamic - s.Unexplained
	for _, n := range s.Likeliest {
		rest -= n
	}
	return max(0, rest)
}

// Add adds the cycles of t.
func (s *Summary) Add(t *Summary) {
	s.Cycles += t.Cycles
	for i := range s.Static {
		s.Static[i] += t.Static[i]
		s.Statics[i].add(t.Statics[i])
	}
	s.Dynamic += t.Dynamic
	for i := range s.Causes {
		s.Causes[i].add(t.Causes[i])
		s.Likeliest[i] += t.Likeliest[i]
	}
	s.Unexplained += t.Unexplained
	s.Uncounted += t.Uncounted
	s.Kernel += t.Kernel
	s.Elsewhere += t.Elsewhere
	s.Dispatched.add(t.Dispatched)
	s.Mispredicted += t.Mispredicted
}

// An Explainer explains the time of the procedures of one Profile.
type Explainer struct {
	prof      *infer.Profile
	model     *machine.Model
	perSample float64 // cycles
	skid      bool    // a sample names the instruction after the one that was waited for
	lines     reuse
	pages     reuse
	events    []*eventCounts
	replayed  map[sample.ImageID]map[sample.Offset]sample.Replayed
	counted   map[string]*eventCounts // by name in lower case: what the top-down shares are made from
	cpu       sample.CPU              // that of most samples
	kernel    float64                 // cycles in the kernel; 0 is unknown
	faults    faults
	timer     bool    // samples are of a timer, or of signals that it sends
	timeSD    float64 // of the logarithm of counts that nothing but time tells

	// Progress is called as All goes on, with the procedures that are done. nil is not called.
	Progress func(done, total int)

	Kept Keeper // of the stalls; nil keeps nothing
}

// ErrNoTime is wrapped where samples do not tell how long instructions took.
var ErrNoTime = errors.New("samples of this event do not tell time")

// New prepares to explain prof, which was inferred from rec.
func New(prof *infer.Profile, rec *sample.Recording) (*Explainer, error) {
	model, err := machine.ByName(prof.Machine)
	if err != nil {
		return nil, err
	}
	x := &Explainer{prof: prof, model: model, perSample: float64(max(1, prof.Event.Period))}
	switch prof.Event.Unit {
	case "ns":
		ghz, _ := prof.Clock()
		x.perSample *= ghz
	case "cycles":
	default:
		return nil, fmt.Errorf("%s: %w", prof.Event.Name, ErrNoTime)
	}
	x.skid = !model.InOrder && !infer.PreciseEvent(prof.Event)
	x.kernel = float64(x.kernelSamples(rec)) * x.perSample
	x.timer = prof.Event.Unit == "ns"
	x.readFaults(rec)
	x.measureReuse()
	x.measureDoubt()
	x.readEvents(rec)
	x.readReplayed(rec)
	return x, nil
}

// kernelSamples counts the samples of the profile's event that were taken in the
// kernel, whether their places were recorded or not.
func (x *Explainer) kernelSamples(rec *sample.Recording) uint64 {
	if rec == nil {
		return x.prof.Samples.Lost[sample.LostKernel]
	}
	n := uint64(0)
	for _, c := range rec.Counts {
		if c.Event.Name != x.prof.Event.Name {
			continue
		}
		n += c.Lost[sample.LostKernel]
		for _, ic := range c.Images {
			if strings.HasPrefix(ic.ID.Path, "[") { // the kernel, a module of it: no file has such a name
				n += ic.Samples()
			}
		}
	}
	return n
}

// Rest sums up the time of the recording that no procedure has: that of the kernel, and
// of samples whose procedure is not known. With the Summaries of all procedures it is
// all of the time. Where the recording left the kernel out, as events of perf with the
// modifier u do, nothing is known of it.
func (x *Explainer) Rest() *Summary {
	s := &x.prof.Samples
	s2 := &Summary{Cycles: float64(s.Total-s.Used) * x.perSample}
	s2.Kernel = min(x.kernel, s2.Cycles)
	s2.Elsewhere = s2.Cycles - s2.Kernel
	return s2
}

// CyclesPerSample is what one sample stands for. Where the event counts time, it
// takes the clock of infer.Profile.Clock, as the counts do.
func (x *Explainer) CyclesPerSample() float64 { return x.perSample }

// Model is the machine model of the explanation.
func (x *Explainer) Model() *machine.Model { return x.model }

// A depth is how much of a procedure is explained.
type depth uint8

const (
	untilStalls depth = iota // the time of each instruction, and what of it is a stall; of blocks without time, how many there are
	untilCauses              // and what may explain that
	whole                    // and what the model has at least of blocks without time
)

// Explain says where the time of r, a procedure of ip, went.
func (x *Explainer) Explain(ip *infer.ImageProfile, r *infer.Result) *Explanation {
	return x.explain(ip, r, whole)
}

// ExplainTime is Explain as far as All goes.
func (x *Explainer) ExplainTime(ip *infer.ImageProfile, r *infer.Result) *Explanation {
	return x.explain(ip, r, untilCauses)
}

// All explains all procedures with samples, by image and address, several at once. Of
// blocks without time it tells nothing but the instructions, their samples and executions:
// Least, Why, On and Unit are left out.
func (x *Explainer) All() iter.Seq2[*infer.ImageProfile, *Explanation] { return x.each(untilCauses) }

// each explains all procedures with samples, by image and address, several at once.
func (x *Explainer) each(far depth) iter.Seq2[*infer.ImageProfile, *Explanation] {
	const atOnce = 256 // bounds the memory
	return func(yield func(*infer.ImageProfile, *Explanation) bool) {
		ready, total := 0, 0
		for _, ip := range x.prof.Images {
			for _, r := range ip.Procs {
				if r.Samples > 0 {
					total++
				}
			}
		}
		for _, ip := range x.prof.Images {
			var some []*infer.Result
			for _, r := range ip.Procs {
				if r.Samples > 0 {
					some = append(some, r)
				}
			}
			for part := range slices.Chunk(some, atOnce) {
				done := make([]*Explanation, len(part))
				InParallel(len(part), func(i int) { done[i] = x.explain(ip, part[i], far) })
				if ready += len(part); x.Progress != nil {
					x.Progress(ready, total)
				}
				for _, e := range done {
					if !yield(ip, e) {
						return
					}
				}
			}
		}
	}
}

// explain says where the time of r went, so far. Unless the whole is asked for, blocks without time are not scheduled.
func (x *Explainer) explain(ip *infer.ImageProfile, r *infer.Result, far depth) *Explanation {
	w := x.newWork(ip, r, far)
	w.charge()
	// From here on the time of every sample is at the instruction that was waited for.
	w.stall()
	// From here on every instruction has its time beyond the least.
	if far == untilStalls {
		return w.exp
	}
	w.leaks = w.frameLeaks()
	for i := range w.exp.Insts {
		if t := &w.exp.Insts[i]; t.Stall.Cycles > 0 {
			w.blame(i)
			t.Stall.share(t, w.exp.off[t.Block])
		}
	}
	w.exp.sum()
	for b := range r.Proc.Blocks {
		f := r.Block[b]
		n, off := f.N*float64(w.uops[b])/float64(x.model.Width.Dispatch), w.exp.off[b]
		w.exp.Dispatched.add(Range{n / off, n * off})
		w.exp.Mispredicted += f.N * w.missed(b)
	}
	return w.exp
}

// levelError is the factor that counts may be off by, by their program-wide confidence:
// what Medium promises, and for others, which hang on the time of one execution alone,
// infer.TimeFactor; where each turn follows a pointer, more (see stall). The tenth of High is neglected.
var levelError = [...]float64{infer.None: infer.TimeFactor, infer.Low: infer.TimeFactor, infer.Medium: 2, infer.High: 1}

// work is what it takes to explain one procedure.
type work struct {
	*Explainer
	im    *image.Image
	ipKey sample.ImageID

	faultsTold bool // it is known which samples are of page faults

	r      *infer.Result
	exp    *Explanation
	ops    []image.Operands     // as exp.Insts
	mem    []operand            // likewise
	first  []int                // of each block: its first instruction; then how many there are
	uops   []int                // of each block
	next   [][]passage          // of each instruction that time was charged to: where the samples were
	seen   []int                // blocks that the present search has been in
	frame  int                  // register that is a frame pointer; -1 if there is none
	steps  map[image.Addr]int64 // constants of instructions, if asked for
	reach  *reach               // how far addresses move, if asked for
	unread bool                 // instructions of blocks without time are yet to be read, and the frame pointer to be found
	leaks  bool                 // addresses in the frame leave the stack and the frame pointer
	miss   map[int]misses       // of the branches at the ends of blocks, as far as they were asked for: each out-edge asks
}

// operand is the memory operand of an instruction, as far as it was asked for.
type operand struct {
	image.Memory
	asked, ok bool
}

// A passage leads from an instruction to the one where samples show that it was
// waited for.
type passage struct {
	to     int     // index into Insts
	share  float64 // of the executions of the first
	most   float64 // the same, at most
	taken  bool    // a jump
	entry  bool    // into the procedure, from nowhere
	called bool    // back from a call
}

func (x *Explainer) newWork(ip *infer.ImageProfile, r *infer.Result, far depth) *work {
	w := &work{Explainer: x, im: ip.Image, ipKey: ip.ID.Key(), r: r, faultsTold: ip.FaultsTold(), exp: &Explanation{Result: r, perSample: x.perSample}}
	n := 0
	for i := range r.Proc.Blocks {
		n += r.Proc.Blocks[i].Insts
	}
	w.exp.Insts = make([]InstTime, 0, n)
	w.ops = make([]image.Operands, 0, n)
	w.first = make([]int, 0, len(r.Proc.Blocks)+1)
	w.uops = make([]int, 0, len(r.Proc.Blocks))
	var insts []image.Inst
	w.exp.off = make([]float64, len(r.Proc.Blocks))
	for b := range r.Proc.Blocks {
		w.exp.off[b] = levelError[r.Block[b].Conf]
		block, first := &r.Proc.Blocks[b], len(w.ops)
		w.first = append(w.first, first)
		timed := w.hasTime(b)
		if !timed && far == untilStalls { // nothing is charged to it: what it has is read if it is asked for
			w.unread = true
			w.exp.Insts = append(w.exp.Insts, make([]InstTime, block.Insts)...)
			w.ops = append(w.ops, make([]image.Operands, block.Insts)...)
			w.uops = append(w.uops, 0)
			continue
		}
		insts, w.ops = w.im.AppendOperands(insts[:0], w.ops, block)
		s := &machine.Schedule{Insts: make([]machine.Slot, len(insts))}
		if far == whole || timed {
			s = x.model.ScheduleOf(insts, w.ops[first:], block)
		} else if r.Block[b].N > 0 {
			s.Uops = x.model.Uops(insts, w.ops[first:])
		}
		w.uops = append(w.uops, s.Uops)
		for i, in := range insts {
			slot := &s.Insts[i]
			t := InstTime{Inst: in, Block: b, N: r.Block[b].N, Least: slot.Least, Why: slot.Why, Unit: slot.Unit, Static: Static(slot.Why)}
			if slot.Why == machine.Dependency {
				t.On = s.Insts[slot.On].Addr
			}
			if slot.Least > 0 && slot.For >= 0 {
				if static, ok := slowStatic(insts[slot.For].Class); ok {
					t.Static, t.For = static, insts[slot.For].Addr
				}
			}
			if r.BlockSamples[b] > 0 {
				if off, ok := w.im.OffsetOf(in.Addr); ok {
					t.Samples, t.faulted = ip.Counts.At[off], ip.Faulted(off)
				}
			}
			w.exp.Insts = append(w.exp.Insts, t)
		}
	}
	w.first = append(w.first, len(w.exp.Insts))
	if far != untilStalls {
		w.next = make([][]passage, len(w.exp.Insts))
	}
	if !w.unread {
		w.frame = w.framePointer()
	}
	return w
}

// read reads what newWork has not.
func (w *work) read() {
	if !w.unread {
		return
	}
	w.unread = false
	var insts []image.Inst
	var ops []image.Operands
	for b := range w.r.Proc.Blocks {
		if w.hasTime(b) {
			continue
		}
		insts, ops = w.im.AppendOperands(insts[:0], ops[:0], &w.r.Proc.Blocks[b])
		for i := range min(len(insts), w.first[b+1]-w.first[b]) {
			t := &w.exp.Insts[w.first[b]+i]
			t.Inst, t.Block, t.N = insts[i], b, w.r.Block[b].N
			w.ops[w.first[b]+i] = ops[i]
		}
	}
	w.frame = w.framePointer()
}

// hasTime reports whether time may be charged to instructions of block b: it has samples, or
// leads to one that has.
func (w *work) hasTime(b int) bool {
	if w.r.BlockSamples[b] > 0 {
		return true
	}
	for _, e := range w.r.Proc.Blocks[b].Out {
		if w.r.BlockSamples[w.r.Proc.Edges[e].To] > 0 {
			return true
		}
	}
	return false
}

// memory returns the memory operand of instruction i, if it has one that is understood.
func (w *work) memory(i int) (image.Memory, bool) {
	if w.mem == nil {
		w.mem = make([]operand, len(w.exp.Insts))
	}
	m := &w.mem[i]
	if !m.asked {
		m.Memory, m.ok = w.im.Memory(w.exp.Insts[i].Inst)
		m.asked = true
	}
	return m.Memory, m.ok
}

// charge puts the time of samples down to the instructions that were waited for.
//
// On a core that executes out of order, a timer's interrupt lets the oldest
// instruction finish and names the one after it; one that was held up by a page fault, the access that faulted. At the top of a block that is the
// last instruction of a block before, of each as often as it leads here. Time at the
// entry of a procedure stays there: what leads to it is in other procedures.
func (w *work) charge() {
	for b := range w.r.Proc.Blocks {
		for i := w.first[b]; i < w.first[b+1]; i++ {
			in := &w.exp.Insts[i]
			in.Total += float64(in.faulted) * w.perSample
			time := float64(in.Samples-in.faulted) * w.perSample
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
			if n < all*(1-1e-9) {
				w.exp.Insts[last].doubt += time * n / all * edgeDoubt[w.r.Edge[e].Within]
			}
		}
	}
	if rest := all - in; rest > 1e-9*all {
		w.give(top, passage{to: top, share: rest / all, entry: true}, time*rest/all)
	}
}

// edgeDoubt is the part of the executions of an edge that may have been fewer, by its
// within-function confidence. The tenth of High is neglected.
var edgeDoubt = [...]float64{infer.None: 1, infer.Low: 1, infer.Medium: 0.5, infer.High: 0}

func (w *work) give(i int, t passage, time float64) {
	if time > 0 {
		w.exp.Insts[i].Total += time
		if w.next != nil {
			w.next[i] = append(w.next[i], t)
		}
	}
}

// stall finds the time beyond the least. What instructions of one block take longer
// and shorter than the model says evens out first: on a core that retires many at a
// time, which of them is caught is partly chance.
//
// Time per execution is no surer than the executions. So the stall is the mean over what they may
// be, of the part of the time that is one then: no execution takes less than the least, so a block
// whose time is below it ran less often than was inferred.
func (w *work) stall() {
	for b := range w.r.Proc.Blocks {
		insts := w.exp.Insts[w.first[b]:w.first[b+1]]
		var time, least float64
		for i := range insts {
			time, least = time+insts[i].Time, least+insts[i].Least
		}
		if !(time > 0) {
			continue
		}
		slower := slowerBy(w.levelSD(w.r.Block[b].Conf), least/time)
		for _, by := range slower {
			over := 0.0
			for i := range insts {
				over += max(0, insts[i].Time*by-insts[i].Least)
			}
			if !(over > 0) {
				continue
			}
			evened := (time*by - least) / over / by / float64(len(slower))
			for i := range insts {
				insts[i].Stall.Cycles += max(0, insts[i].Time*by-insts[i].Least) * evened
			}
		}
		for i := range insts {
			t := &insts[i]
			// Where the count comes from the time, and each turn follows a pointer, the least is
			// one of an unknown scale: what a step takes is between the first cache and the
			// memory, and nothing but the time says where. The middle is that of the logarithm.
			if w.r.Block[b].Conf <= infer.Low && w.model.Memory.DRAM > 0 && t.Stall.Cycles > 0 && w.chained(w.first[b]+i) {
				step := math.Sqrt(float64(w.model.Memory.L1 * w.model.Memory.DRAM))
				t.Stall.Cycles = max(t.Stall.Cycles, t.Time*(1-t.Least/max(step, t.Least)))
				w.exp.off[b] = max(w.exp.off[b], float64(2*w.model.Memory.DRAM/w.model.Memory.L1)) // from one to the other
			}
		}
	}
}

// levelSD is the standard deviation of the logarithm of counts of a program-wide confidence.
func (x *Explainer) levelSD(c infer.Confidence) float64 {
	if c <= infer.Low {
		return x.timeSD
	}
	return math.Log(levelError[c]) / mostly
}

// mostly is how many standard deviations a normal variable is within with 90 % confidence.
const mostly = 1.645

// measureDoubt finds what the time of an execution is uncertain by where nothing but time was
// sampled. What one procedure may be off by, infer.TimeFactor, is less of many: the factor that
// their counts have in common is that of their mean, weighed by samples. By the exact counts of 24
// programs the share of the stalls in the time is then off by 0.18 in the mean, 0.19 by the
// inferred counts alone.
func (x *Explainer) measureDoubt() {
	alike := 0.0
	for _, ip := range x.prof.Images {
		for _, r := range ip.Procs {
			share := float64(r.Samples) / float64(max(1, x.prof.Samples.Used))
			alike += share * share
		}
	}
	x.timeSD = math.Log(infer.TimeFactor) / mostly * math.Sqrt(alike)
}

// scales is how many factors slowerBy returns where the time of an execution is not known.
const scales = 16

// slowerBy returns factors that an execution may take longer than inferred, all equally probable: its
// logarithm is normal, with standard deviation sd, and none is below least.
func slowerBy(sd, least float64) []float64 {
	if sd == 0 {
		if least > 1 {
			return nil
		}
		return []float64{1}
	}
	by := make([]float64, scales)
	below := 0.0
	if least > 0 {
		below = math.Erfc(-math.Log(least)/sd/math.Sqrt2) / 2
	}
	for i := range by {
		p := min(below+(1-below)*(float64(i)+0.5)/scales, 1-1e-12)
		by[i] = max(least, math.Exp(-sd*math.Sqrt2*math.Erfcinv(2*p)))
	}
	return by
}

// share finds out what each culprit of s, the stall of t, explains, if the executions may
// be off by so large a factor. With k times the executions, a bound per execution explains
// k times as much, and of the same time the model expects k times its least. So what is
// left to explain is least where the code ran most often, and what a bound allows is most
// where it meets what is left.
func (s *Stall) share(t *InstTime, off float64) {
	expected := max(0, t.Time-s.Cycles)
	bounds := make([]float64, len(s.Culprits))
	all, most := 0.0, 0.0
	for i := range s.Culprits {
		bounds[i] = s.Culprits[i].Most
		all += bounds[i]
	}
	for i := range s.Culprits {
		c := &s.Culprits[i]
		k := min(off, max(1/off, t.Time/(bounds[i]+expected)))
		c.Most = max(0, min(bounds[i]*k, t.Time-expected*k))
		most += c.Most
		others := expected
		for j := range bounds {
			if j != i {
				others += bounds[j]
			}
		}
		c.Least = min(c.Most, s.Cycles, max(0, t.Time-t.doubt/t.N-others*off))
	}
	s.Unexplained = max(0, s.Cycles-all)
	if off > 1 { // what bounds do not explain of these counts, they may of others
		s.Unexplained = max(0, s.Cycles-most, t.Time-(expected+all)*off)
	}
	slices.SortStableFunc(s.Culprits, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Cause, b.Cause))
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
		static, off := t.Total-stall, e.off[t.Block]
		e.Static[t.Static] += static
		e.Statics[t.Static].add(Range{min(static, t.Least*t.N/off), max(static, min(t.Total, t.Least*t.N*off))})
		e.Dynamic += stall
		for k, c := range t.Stall.Culprits {
			e.Causes[c.Cause].add(Range{c.Least * t.N, c.Most * t.N})
			if k == 0 {
				e.Likeliest[c.Cause] += min(c.Most, t.Stall.Cycles-t.Stall.Unexplained) * t.N
			}
		}
		e.Unexplained += t.Stall.Unexplained * t.N
	}
}

// Confidence reports how sure the Time of instruction i is: conf among those of all
// procedures, within among those of its own, as of a Freq. Time is samples by executions, so it is
// no surer than the executions, nor than so many samples.
func (e *Explanation) Confidence(i int) (conf, within infer.Confidence) {
	t := &e.Insts[i]
	f := &e.Result.Block[t.Block]
	if !(t.N > 0) {
		return infer.None, infer.None
	}
	noise := ofSamples(t.Total, e.perSample)
	return min(f.Conf, noise), min(f.Within, noise)
}

// StallConfidence is Confidence of the cycles of the stall. The error of Time is all in
// the stall: where that is the smaller part of it, it is that much less sure.
func (e *Explanation) StallConfidence(i int) (conf, within infer.Confidence) {
	conf, within = e.Confidence(i)
	t := &e.Insts[i]
	part := t.Stall.Cycles / max(t.Time, 1e-300)
	return ofPart(conf, part), ofPart(within, part)
}

// ofSamples is the confidence that so many cycles have by chance alone: the number of
// samples is off by 1.64 times its root, 1 time in 10.
func ofSamples(cycles, perSample float64) infer.Confidence {
	n := cycles / perSample
	switch off := 1.645 / math.Sqrt(max(n, 1e-300)); {
	case off <= 0.1:
		return infer.High
	case off <= math.Ln2: // a factor 2
		return infer.Medium
	case n > 0:
		return infer.Low
	}
	return infer.None
}

// ofPart is the confidence of a difference that is a part of an amount of confidence
// c: 10 % of the whole are 50 % of a fifth, and a factor of 2 is one of 3 of a half.
func ofPart(c infer.Confidence, part float64) infer.Confidence {
	switch {
	case c == infer.High && part < 0.2, c == infer.Medium && part < 0.5:
		return infer.Low
	case c == infer.High && part < 0.9:
		return infer.Medium
	}
	return c
}

// Check reports the first promise that e breaks. Tests call it on every Explanation.
func (e *Explanation) Check() error {
	all := e.Dynamic + e.Uncounted + e.Kernel + e.Elsewhere
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
			if !(c.Least >= 0 && c.Least <= c.Most*(1+1e-9)+1e-9 && c.Most <= t.Time*(1+1e-9)+1e-9) {
				return fmt.Errorf("%#x: %s explains %g to %g of %g cycles", uint64(t.Addr), c.Cause, c.Least, c.Most, t.Time)
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

// between returns how many pieces are executed between two executions of one that runs n
// times, if all are spread evenly: those that run as often, and of the others the
// share that runs in such a stretch.
func (u *reuse) between(n float64) float64 {
	i, _ := slices.BinarySearch(u.n, n)
	return float64(len(u.n)-i) + u.sum[i]/n
}

// InParallel calls f with 0 to n-1, on all processors.
func InParallel(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// instAt finds the instruction at an address.
func (w *work) instAt(a image.Addr) (i int, ok bool) {
	return slices.BinarySearchFunc(w.exp.Insts, a, func(t InstTime, a image.Addr) int { return cmp.Compare(t.Addr, a) })
}
