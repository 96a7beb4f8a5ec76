package infer

import (
	"math"
	"slices"

	"backfeed/infer/image"
)

// How often a procedure is entered, its samples hardly tell: one that loops for long has as many of
// them if it is entered once as if it is entered a thousand times. Its callers tell. main runs once in a
// process, what it calls outside loops does, too, and so on: what has hardly any samples itself leads
// from there to what has most.

const (
	// processes is how many processes are taken to have run, and processesSD the standard deviation
	// of its logarithm: recordings do not say it. Most are of a program that was run once.
	processes, processesSD = 1, 2
	// calledSD is the standard deviation of the logarithm of entries around the calls of callers that
	// were searched for by themselves.
	calledSD = 2
	// exportSD is tieSD of what other images can link with: some that do may have no samples.
	exportSD = 0.5
	// enteredSD is the standard deviation of the logarithm of entries below 1 of what has samples.
	enteredSD = 0.2
	// moved is how far, in the logarithm, calls and entries have to lie apart for a procedure to
	// be searched for again, settleEvals how long, and settleRounds how often all are looked at.
	moved, settleRounds, settleEvals = 0.7, 2, 60
	// onceSD is processesSD while calls are brought to entries.
	onceSD = 0.3
	// strayShare is the share of a procedure's samples that a block may have by skid alone.
	strayShare = 0.001
)

const (
	manyCallers = 8   // a procedure that more call is entered as its samples say, unless some of them have samples
	maxUp       = 16  // calls from a procedure with samples up
	blindShare  = 0.1 // of the samples in images that are not at hand, from which on these may call what is exported
)

// A callGraph tells who calls a procedure directly, in all images of a profile.
type callGraph struct {
	prof  *Profile
	blind bool // there are images that cannot be looked into
}

// A callNode is a symbol of an image.
type callNode struct {
	image *ImageProfile
	sym   int
}

func newCallGraph(prof *Profile) *callGraph {
	return &callGraph{prof: prof, blind: float64(prof.Samples.Lost[LostNoImage]) > blindShare*float64(prof.Samples.Total)}
}

// stubs returns the symbols, in all images, by which they call what n exports.
func (g *callGraph) stubs(n callNode) (all []callNode) {
	if !n.image.Image.Exported(n.sym) {
		return nil
	}
	s := &n.image.Image.Symbols()[n.sym]
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		for _, ip := range g.prof.Images {
			if i := ip.Image.Lookup(name + "@plt"); i >= 0 {
				all = append(all, callNode{ip, i})
			}
		}
	}
	return all
}

// callers returns the symbols that call n, if they are few and no other can reach it.
func (g *callGraph) callers(n callNode) (from []callNode) {
	im := n.image.Image
	if im.Pointed(n.sym) || im.Once(n.sym) || im.Exported(n.sym) && g.blind {
		return nil
	}
	add := func(n callNode) {
		for _, c := range n.image.Image.Callers(n.sym) {
			if c := (callNode{n.image, int(c)}); n.image.Image.Symbols()[c.sym].Source != image.FromPLT {
				from = append(from, c)
			}
		}
	}
	add(n)
	for _, s := range g.stubs(n) {
		add(s)
	}
	if len(from) > manyCallers {
		return nil
	}
	return from
}

// climb visits the callers of those procedures, and their callers, where no caller is one that has
// samples.
func (g *callGraph) climb(last []callNode, has func(callNode) bool, visit func(callNode) (more bool)) {
	for range maxUp {
		var next []callNode
		for _, n := range last {
			from := g.callers(n)
			if slices.ContainsFunc(from, has) {
				continue
			}
			for _, c := range from {
				if g.reached(c) && visit(c) {
					next = append(next, c)
				}
			}
		}
		last = next
	}
}

// reached reports whether anything can call n.
func (g *callGraph) reached(n callNode) bool {
	im := n.image.Image
	if im.Pointed(n.sym) || im.Once(n.sym) || im.Exported(n.sym) && g.blind || len(im.Callers(n.sym)) > 0 {
		return true
	}
	return slices.ContainsFunc(g.stubs(n), func(s callNode) bool { return len(s.image.Image.Callers(s.sym)) > 0 })
}

// addSilent adds the procedures that have no samples and lead to those that do, where only such
// call them: up to a caller with samples, or one that runs once.
func (g *callGraph) addSilent() {
	has := map[callNode]bool{}
	var last []callNode
	for _, ip := range g.prof.Images {
		for _, r := range ip.Procs {
			if r.Samples >= fewSamples {
				n := callNode{ip, r.Proc.Index}
				has[n], last = true, append(last, n)
			}
		}
	}
	up := map[*ImageProfile]map[int]bool{}
	g.climb(last, func(n callNode) bool { return has[n] }, func(n callNode) bool {
		if up[n.image] == nil {
			up[n.image] = map[int]bool{}
		}
		seen := up[n.image][n.sym]
		up[n.image][n.sym] = true
		return !seen
	})
	for ip, syms := range up {
		ip.addNew(syms)
	}
}

// link marks the problems that are to be searched for because others depend on how often they call.
func (pr *posed) link(g *callGraph) {
	by := map[callNode]*problem{}
	var last []callNode
	for _, ip := range g.prof.Images {
		for _, r := range ip.Procs {
			q := pr.of[r]
			if q == nil {
				continue
			}
			n := callNode{ip, r.Proc.Index}
			by[n] = q
			if ip.Image.Once(n.sym) {
				q.runOnce()
			}
			if q.busy() {
				last = append(last, n)
			}
		}
	}
	g.climb(last, func(n callNode) bool { return by[n] != nil && by[n].busy() }, func(n callNode) bool {
		q := by[n]
		if q == nil || q.link {
			return false
		}
		q.join()
		return true
	})
}

// tie finds what binds the procedures to each other: direct calls.
func (pr *posed) tie(g *callGraph) {
	index := map[*problem]int{}
	for i, q := range pr.probs {
		index[q] = i
	}
	sites := map[*ImageProfile]map[image.Addr][]site{}
	for _, ip := range g.prof.Images {
		sites[ip] = map[image.Addr][]site{}
		for _, r := range ip.Procs {
			q := pr.of[r]
			if q == nil {
				continue
			}
			for c := range r.Proc.Calls {
				if call := &r.Proc.Calls[c]; call.To != 0 {
					sites[ip][call.To] = append(sites[ip][call.To], q.site(call))
				}
			}
		}
	}
	pr.calls = make([]*tie, len(pr.probs))
	for _, ip := range g.prof.Images {
		for _, r := range ip.Procs {
			i, ok := index[pr.of[r]]
			if !ok {
				continue
			}
			n := callNode{ip, r.Proc.Index}
			all := sites[ip][r.Proc.Addr]
			for _, s := range g.stubs(n) {
				all = append(all, sites[s.image][s.image.Image.Symbols()[s.sym].Addr]...)
			}
			t := tie{callee: i, floor: ip.Image.Pointed(n.sym) || ip.Image.Once(n.sym), sd: pr.tieSD}
			if ip.Image.Exported(n.sym) {
				t.floor, t.sd = t.floor || g.blind, exportSD
			}
			pr.bind(t, all)
		}
	}
	pr.arrange(index)
}

// bind ties the entries of a problem to its call sites. Those in silent procedures
// are left out: what had no sample hardly calls often.
func (pr *posed) bind(t tie, sites []site) {
	of := func(has func(*problem) bool) tie {
		in := t
		for _, s := range sites {
			if has(s.q) {
				in.sites = append(in.sites, s)
			}
		}
		return in
	}
	if all := of(func(q *problem) bool { return !q.silent() }); len(all.sites) > 0 && !t.floor {
		pr.calls[t.callee] = &all
		if q := pr.probs[t.callee]; q.par.boundSD > 0 {
			q.sure[0] = 1 / q.par.boundSD
		}
	}
	if seen := of(func(q *problem) bool { return !q.quiet || len(q.known) > 0 }); len(seen.sites) > 0 {
		pr.ties = append(pr.ties, seen)
	}
}

// arrange sets levels.
func (pr *program) arrange(index map[*problem]int) {
	const visiting = -1
	depth := make([]int, len(pr.probs)) // 1 is that of the first level
	var visit func(i int) int
	visit = func(i int) int {
		if depth[i] != 0 {
			return depth[i]
		}
		depth[i] = visiting
		d := 1
		if t := pr.calls[i]; t != nil {
			for _, s := range t.sites {
				if j, ok := index[s.q]; ok {
					d = max(d, visit(j)+1)
				}
			}
		}
		depth[i] = d
		return d
	}
	for i := range pr.probs {
		for d := visit(i); len(pr.levels) < d; {
			pr.levels = append(pr.levels, nil)
		}
	}
	for i, d := range depth {
		pr.levels[d-1] = append(pr.levels[d-1], i)
	}
}

// runOnce makes q run as often as there were processes.
func (q *problem) runOnce() {
	q.once = true
	q.center[0], q.sure[0] = math.Log(processes), 1/processesSD
}

// observeEntered adds the derivatives of that what has samples was entered, and returns its value.
func (q *problem) observeEntered(x []float64) float64 {
	if !q.ran || x[0] >= 0 || len(q.enter) > 1 {
		return 0
	}
	v, d := huber(x[0]/enteredSD, farTie)
	q.dx[0] += d / enteredSD
	return v
}

// settle moves the entries of procedures to where their callers have them, callers before callees.
// Those whose samples speak against it stay where they are, and callers without samples of their own
// are moved to them, callees before callers.
func (pr *program) settle(x []float64) {
	for round := range settleRounds {
		if round > 0 {
			for l := len(pr.levels) - 1; l >= 0; l-- {
				pr.raise(x, pr.levels[l])
			}
		}
		for _, level := range pr.levels {
			parallel(len(level), func(k int) {
				i := level[k]
				t := pr.calls[i]
				if t == nil {
					return
				}
				q, xi := pr.probs[i], pr.part(x, i)
				if len(q.known) > 0 {
					return
				}
				called := math.Log(max(t.calls(), 1e-9))
				if math.Abs(called-xi[0]) < moved {
					return
				}
				center, sure := q.center[0], q.sure[0]
				q.center[0], q.sure[0] = called, 1/calledSD
				samples := q.samples
				q.samples = withoutStray(samples)
				q.expect(nil)
				q.searchBoth(xi)
				q.samples = samples
				q.expect(nil)
				q.forward(xi)
				q.center[0], q.sure[0] = center, sure
			})
		}
	}
}

// searchBoth searches from x, and from what is believed, and sets x to the better of what it finds. To move
// entries and the loops that they lead to at once takes a search long; to let loops turn more often does not.
func (q *problem) searchBoth(x []float64) {
	grad, fresh := make([]float64, len(x)), slices.Clone(q.center)
	minimize(q.objective, fresh, settleEvals, knownEffort.tol)
	minimize(q.objective, x, settleEvals, 1e-6)
	if q.objective(fresh, grad) < q.objective(x, grad) {
		copy(x, fresh)
	}
}

// withoutStray returns samples by block without those that may have skidded from where most are: one of
// them in code that runs once would have it run a million times.
func withoutStray(samples []float64) []float64 {
	few := strayShare * sumOf(samples)
	samples = slices.Clone(samples)
	for b, s := range samples {
		if s <= few {
			samples[b] = 0
		}
	}
	return samples
}

// raise lets the callers without samples call the procedures of a level as often as these are
// entered.
func (pr *program) raise(x []float64, level []int) {
	want := map[*problem][]observation{}
	for _, i := range level {
		t := pr.calls[i]
		if t == nil {
			continue
		}
		off := x[pr.at[i]] - math.Log(max(t.calls(), 1e-9))
		if math.Abs(off) < moved {
			continue
		}
		for _, s := range t.sites {
			if s.q.link {
				o := observation{block: s.block, out: s.out, logN: math.Log(max(s.calls(), 1e-9)) + off, sd: calledSD / 2}
				want[s.q] = append(want[s.q], o)
			}
		}
	}
	var callers []int
	for i, q := range pr.probs {
		if want[q] != nil {
			callers = append(callers, i)
		}
	}
	parallel(len(callers), func(k int) {
		q, xi := pr.probs[callers[k]], pr.part(x, callers[k])
		known, sure := q.known, q.sure[0]
		q.known = slices.Concat(known, want[q])
		if q.once {
			q.sure[0] = max(sure, 1/onceSD) // what it calls is to give way
		}
		q.alone(xi)
		q.known, q.sure[0] = known, sure
		q.forward(xi)
	})
}

// join makes q one that is searched for because of what it calls. What hardly has samples runs
// rarely, and takes long each time, having to be fetched and guessed: its blocks may take any time.
func (q *problem) join() {
	q.link = true
	q.ran = q.ran || q.once
	for b, s := range q.samples {
		q.invVar[b] = 1 / (1/q.invVar[b] + q.par.rareVar/(1+s/10))
	}
	q.expect(nil)
}

// believeTrips lets loops turn any number of times.
func (q *problem) believeTrips() {
	if q.par.tripSD == 0 {
		return
	}
	f := q.flow
	at := len(f.entries)
	for _, b := range q.branch {
		outs := f.outsOf(int(b))
		if len(outs) == 2 && slices.ContainsFunc(outs, func(w outEdge) bool { return w.to != leave && w.to <= b }) {
			q.sure[at] = 1 / q.par.tripSD
		}
		at += f.logits(b)
	}
}
