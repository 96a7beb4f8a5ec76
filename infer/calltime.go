package infer

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A CallProc is a procedure on call stacks. Image is nil where it is not known.
type CallProc struct {
	Image *ImageProfile
	Proc  int // index into Image.Image.Symbols(); -1 is code of no procedure
}

// Name returns the procedure's name, or "" if it has none.
func (p CallProc) Name() string {
	if p.Image == nil || p.Proc < 0 {
		return ""
	}
	return p.Image.Image.Symbols()[p.Proc].Name
}

func (p CallProc) compare(o CallProc) int {
	switch {
	case p.Image == o.Image:
		return cmp.Compare(p.Proc, o.Proc)
	case p.Image == nil:
		return -1
	case o.Image == nil:
		return 1
	}
	return cmp.Or(p.Image.ID.Compare(o.Image.ID), cmp.Compare(p.Proc, o.Proc))
}

// A CallTime is the samples of a procedure by what called what. A sample counts once
// for a procedure, however often it is on the stack.
type CallTime struct {
	CallProc
	Inclusive uint64 // samples in it or in what it called
	Exclusive uint64 // samples in it
	Callers   []CallEdge
	Callees   []CallEdge
}

// A CallEdge is the samples in which one procedure had called another, directly.
type CallEdge struct {
	CallProc
	Samples uint64
}

// CallTimes are the samples of a profile by call stack.
type CallTimes struct {
	Procs    []CallTime // most inclusive samples first
	Samples  uint64     // of images; each is one of the following three
	Complete uint64     // the stack reaches where threads begin
	Cut      uint64     // it ends before
	Bare     uint64     // none was recorded
	Uncalled uint64     // those of any kind whose caller is not known
	Deepest  int        // frames of the longest stack
}

// threadRoots are where threads begin, or what they run first: nothing of interest is
// above. What calls main is in a libc that is often without frame pointers and names.
var threadRoots = []string{"main", "_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone", "__clone", "clone3", "__clone3",
	"runtime.main", "runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.rt0_go", "runtime.systemstack", "runtime.gcBgMarkWorker"}

// isRoot reports whether a thread begins in a procedure of that name; Go's assembly
// marks its own ABI.
func isRoot(name string) bool { return slices.Contains(threadRoots, strings.TrimSuffix(name, ".abi0")) }

// A CallFrame is a place on a call stack: the sampled instruction, or the call that is to
// return.
type CallFrame struct {
	CallProc
	Addr image.Addr // 0 where Image is nil, or the place is not in it
}

// A CallStack is N samples with the same stack, innermost frame first. There is one frame at least.
type CallStack struct {
	Frames []CallFrame
	N      uint64
	Bare   bool // no stack was recorded: the one frame is that of the sample
}

// Complete reports whether the stack reaches where its thread begins.
func (s *CallStack) Complete() bool {
	return slices.ContainsFunc(s.Frames, func(f CallFrame) bool { return f.Image != nil && isRoot(f.Name()) })
}

// CallStacks returns the samples of rec, which p was inferred from, by call stack, in the order
// of the recording. Frames are the caller's to keep.
func (p *Profile) CallStacks(rec *sample.Recording) iter.Seq[CallStack] {
	return func(yield func(CallStack) bool) {
		for _, c := range rec.Counts {
			if c.Event.Name != p.Event.Name {
				continue
			}
			for s := range p.callStacks(c) {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// callStacks returns the samples of c: those with a stack, then what is left at each place.
func (p *Profile) callStacks(c *sample.Counts) iter.Seq[CallStack] {
	images := profilesOf(c, p.Images)
	find := func(f sample.Frame, call bool) CallFrame {
		if f.Image == sample.Unknown || images[f.Image] == nil {
			return CallFrame{CallProc: CallProc{nil, -1}}
		}
		ip := images[f.Image]
		if call && f.Off > 0 {
			f.Off-- // into the call that it is to return from
		}
		a, ok := ip.Image.AddrOf(f.Off)
		proc := -1
		if ok {
			proc = ip.Image.Find(a)
		}
		if call && proc < 0 && !ip.Image.AfterCall(a+1) { // what is no return address, the unwinder made up, without frame pointers
			return CallFrame{CallProc: CallProc{nil, -1}}
		}
		if !ok {
			a = 0
		}
		return CallFrame{CallProc{ip, proc}, a}
	}
	return func(yield func(CallStack) bool) {
		on := make([]map[sample.Offset]uint64, len(c.Images)) // samples that have a stack
		for i := range on {
			on[i] = map[sample.Offset]uint64{}
		}
		for _, st := range p.Stacks(c) {
			leaf := st.Frames[0]
			if images[leaf.Image] == nil {
				continue
			}
			on[leaf.Image][leaf.Off] += st.N
			out := CallStack{N: st.N}
			for k, f := range st.Frames {
				out.Frames = append(out.Frames, find(f, k > 0))
			}
			if !yield(out) {
				return
			}
		}
		for i, ic := range c.Images {
			if images[i] == nil {
				continue
			}
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				n := ic.At[off]
				if n -= min(n, on[i][off]); n == 0 {
					continue
				}
				if !yield(CallStack{Frames: []CallFrame{find(sample.Frame{Image: i, Off: off}, false)}, N: n, Bare: true}) {
					return
				}
			}
		}
	}
}

// CallTimes adds up the samples of rec, which p was inferred from, by call stack.
func (p *Profile) CallTimes(rec *sample.Recording) *CallTimes {
	s := &callSum{procs: map[CallProc]*CallTime{}, edges: map[[2]CallProc]uint64{}, out: &CallTimes{}}
	for _, c := range rec.Counts {
		if c.Event.Name == p.Event.Name {
			s.add(p, c)
		}
	}
	return s.sorted()
}

// A callSum adds up stacks.
type callSum struct {
	out   *CallTimes
	procs map[CallProc]*CallTime
	edges map[[2]CallProc]uint64 // caller, callee
}

func (s *callSum) of(p CallProc) *CallTime {
	t := s.procs[p]
	if t == nil {
		t = &CallTime{CallProc: p}
		s.procs[p] = t
	}
	return t
}

func (s *callSum) add(p *Profile, c *sample.Counts) {
	var chain []CallProc
	for st := range p.callStacks(c) {
		chain = chain[:0]
		for _, f := range st.Frames {
			chain = append(chain, f.CallProc)
		}
		if st.Bare {
			t := s.of(chain[0])
			t.Inclusive, t.Exclusive = t.Inclusive+st.N, t.Exclusive+st.N
			s.out.Samples, s.out.Bare, s.out.Uncalled = s.out.Samples+st.N, s.out.Bare+st.N, s.out.Uncalled+st.N
			continue
		}
		s.chain(chain, st.N)
	}
}

// chain adds n samples of one stack, innermost first. Between frames that are not
// known, nothing is known of who called whom.
func (s *callSum) chain(chain []CallProc, n uint64) {
	s.out.Samples += n
	s.out.Deepest = max(s.out.Deepest, len(chain))
	s.of(chain[0]).Exclusive += n
	seen, edges := map[CallProc]bool{}, map[[2]CallProc]bool{}
	complete := false
	for i, p := range chain {
		if p.Image == nil {
			continue
		}
		complete = complete || isRoot(p.Name())
		if !seen[p] {
			seen[p] = true
			s.of(p).Inclusive += n
		}
		if i > 0 && chain[i-1].Image != nil {
			edges[[2]CallProc{p, chain[i-1]}] = true
		}
	}
	for e := range edges {
		s.edges[e] += n
	}
	if !complete && !slices.ContainsFunc(chain[1:], func(p CallProc) bool { return p.Image != nil }) {
		s.out.Uncalled += n
	}
	switch {
	case len(chain) == 1 && !complete:
		s.out.Bare += n
	case complete:
		s.out.Complete += n
	default:
		s.out.Cut += n
	}
}

// sorted returns the sum: the most first, ties by image and address.
func (s *callSum) sorted() *CallTimes {
	for e, n := range s.edges {
		caller, callee := s.of(e[0]), s.of(e[1])
		caller.Callees = append(caller.Callees, CallEdge{e[1], n})
		callee.Callers = append(callee.Callers, CallEdge{e[0], n})
	}
	byMost := func(a, b CallEdge) int { return cmp.Or(cmp.Compare(b.Samples, a.Samples), a.compare(b.CallProc)) }
	for _, t := range s.procs {
		slices.SortFunc(t.Callers, byMost)
		slices.SortFunc(t.Callees, byMost)
		s.out.Procs = append(s.out.Procs, *t)
	}
	slices.SortFunc(s.out.Procs, func(a, b CallTime) int {
		return cmp.Or(cmp.Compare(b.Inclusive, a.Inclusive), cmp.Compare(b.Exclusive, a.Exclusive), a.compare(b.CallProc))
	})
	return s.out
}

// Check reports the first promise that t breaks. Tests call it on every CallTimes.
func (t *CallTimes) Check() error {
	var exclusive uint64
	for i := range t.Procs {
		p := &t.Procs[i]
		exclusive += p.Exclusive
		if p.Exclusive > p.Inclusive || p.Inclusive > t.Samples {
			return fmt.Errorf("%s: %d samples, %d with what it called, of %d", p.Name(), p.Exclusive, p.Inclusive, t.Samples)
		}
	}
	if exclusive != t.Samples || t.Complete+t.Cut+t.Bare != t.Samples {
		return fmt.Errorf("%d samples, %d by procedure, %d by stack", t.Samples, exclusive, t.Complete+t.Cut+t.Bare)
	}
	return nil
}
