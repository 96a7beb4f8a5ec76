package explain

import (
	"math"

	"backfeed/infer/image"
	"backfeed/sample"
)

const (
	faultCost   = 2000    // cycles of a page fault, beyond the kernel's own time: 600 on Zen 3 in a virtual machine by testdata/stalls, some more where those mitigate more
	faultMost   = 100_000 // of one at most: 25,000 on a Zen 5 whose host is told of each change of page tables, one as the kernel is entered and one as it is left, with interrupts off
	faultAfter  = 3       // times what is taken for an access's own is at it or after it, where it faults
	faultHeld   = 12      // times the time after an access is at it, at most, where it faults and nothing tells how long faults took: 1.2 on Zen 3, 2.9 to 3.2 on a Cascade Lake (429 cycles at it, 133 after), whose kernel clears buffers with interrupts off before it returns; 30 on that Zen 5
	faultKernel = 2       // times the kernel's time is at accesses that fault, at most: 1.0 to 1.1 on that Zen 5, and more where other processes run beside
)

// faults is what a recording tells of its page faults.
type faults struct {
	cycles float64 // that they took of the program at most; 0 is unknown
	n      float64 // how many there were; 0 is unknown
}

// each is what a fault cost the program at most, in cycles, where samples look like faults.
func (f *faults) each() float64 {
	if f.n > 0 {
		return max(faultCost, f.cycles/f.n)
	}
	return faultCost
}

// readFaults finds out how much time page faults may have taken. Handling them takes the kernel about as long as coming and going
// takes the program, or longer: its samples bound that, or else what the commands have used, as Linux counts it, if all of the recording is of commands.
func (x *Explainer) readFaults(rec *sample.Recording) {
	x.faults = faults{cycles: faultKernel * x.kernel}
	if rec == nil {
		return
	}
	for _, c := range rec.Counts {
		if e := sample.BareEvent(c.Event.Name); eventCauses[e].cause == PageFault {
			x.faults.n += c.MeanPeriod() * float64(c.Total)
		}
	}
	if len(rec.Runs) == 0 || rec.Unlisted > 0 {
		return
	}
	system, n := 0.0, 0.0 // ns, faults
	for i := range rec.Runs {
		u := &rec.Runs[i].Usage
		if u.User+u.System == 0 {
			return
		}
		system += (float64(u.System) + 2*u.SplitSD()) * 1000
		n += float64(u.Minor + u.Major)
	}
	ghz, _ := x.prof.Clock()
	if x.faults.cycles == 0 {
		x.faults.cycles = faultKernel * system * ghz
	}
	x.faults.cycles = max(min(x.faults.cycles, n*faultMost), n*faultCost)
	x.faults.n = n
}

// blameFault accuses page faults of access k of what i waits for, by so many cycles per
// execution. Where samples are attributed to what comes before them, two places show
// faults: the kernel returns to the access, to execute it again, so interrupts until then, and
// those of a timer that the kernel held up before it returned, name the access; those of its second execution name what comes after it.
func (w *work) blameFault(i, k int, most float64) {
	if w.faultsTold {
		return // of those that were seen, blameFaulted
	}
	in := &w.exp.Insts[k]
	m, ok := w.memory(k)
	if !(in.N > 0) || ok && (w.onStack(m) || m.Constant() && in.N > 1 || w.touched(k, m)) {
		return // the same place is accessed again and again
	}
	if !w.skid && k != i {
		return // the access itself is named
	}
	at := w.cyclesAt(k) / in.N
	score, after, held := remotely, 1.0, faultHeld*in.Time
	if w.skid && w.faultLike(k) {
		// In a virtual machine the host may have to find the page, too, for as long as it likes: that is the program's time.
		if most, held = max(most, w.faults.cycles/in.N), max(held, at); w.allFaults(k) {
			most, held = unbounded, unbounded // of all, not of each
		}
		if w.stepsPages(k) {
			score, after = likely, faultAfter
		}
	}
	expected := most
	if w.skid && k == i { // by samples at it
		most = min(most, after*at)
		expected = most
	} else if w.skid { // by those after it
		most = min(most, held)
		if expected = most; score != likely {
			expected = min(most, faultAfter*in.Time)
		}
	}
	if w.faults.cycles > 0 && most < unbounded {
		most = min(most, w.faults.cycles/in.N)
	}
	w.suspect(i, PageFault, in.Addr, most, min(most, expected), score)
}

// blameFaulted accuses the page faults of i that the recording tells of.
func (w *work) blameFaulted(i int) {
	if in := &w.exp.Insts[i]; in.faulted > 0 && in.N > 0 {
		w.accuse(i, PageFault, in.Addr, float64(in.faulted)*w.perSample/in.N, surely)
	}
}

// faultLike reports whether samples are at access k and after it: what a fault takes of the program is before the access is
// executed again, and after, and little else divides time so. A wait for the access itself is after it alone. How much is at
// it hangs on how long the kernel has interrupts off before it returns; what was before may have been waited for there, too,
// unless it is quick. Where faults may have taken all that, nothing else bounds it.
func (w *work) faultLike(k int) bool {
	at, after := w.cyclesAt(k), w.exp.Insts[k].Total
	held := float64(faultAfter)
	if w.quickBefore(k) {
		if held = faultHeld; w.allFaults(k) {
			held = math.Inf(1)
		}
	}
	return at > 0 && after > 0 && at < held*after && after < faultAfter*at
}

// cyclesAt are the cycles of the samples at instruction k.
func (w *work) cyclesAt(k int) float64 { return float64(w.exp.Insts[k].Samples) * w.perSample }

// allFaults reports whether faults may have taken all the time at access k.
func (w *work) allFaults(k int) bool { return w.cyclesAt(k) <= w.faults.cycles }

// faultCostAt is what a fault of the access at an address costs at most, in cycles.
func (w *work) faultCostAt(a image.Addr) float64 {
	if k, ok := w.instAt(a); ok && w.skid && w.faultLike(k) {
		return w.faults.each()
	}
	return faultCost
}

// stepsPages reports whether the address of access k is stepped by a page or more in its block: the
// first touch of memory is a fault in each turn, and not in one of many.
func (w *work) stepsPages(k int) bool {
	b := w.exp.Insts[k].Block
	if w.steps == nil {
		w.steps = map[image.Addr]int64{}
		for _, in := range w.im.WalkInsts(w.r.Proc) {
			w.steps[image.Addr(in.Addr)] = in.Imm
		}
	}
	for i := w.first[b]; i < w.first[b+1]; i++ {
		o := &w.ops[i]
		if o.Op != image.OpALU || !o.Writes.Has(w.ops[k].Address) || !o.Reads.Has(w.ops[k].Address) {
			continue
		}
		if step := w.steps[w.exp.Insts[i].Addr]; step >= pageSize && step < 1<<20 || step <= -pageSize && step > -1<<20 {
			return true
		}
	}
	return false
}
