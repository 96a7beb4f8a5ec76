package feedback

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A site is a call instruction of a procedure in the profile.
type site struct {
	proc *infer.Result
	call int // index into proc.Proc.Calls
}

func (s site) at() *image.Call { return &s.proc.Proc.Calls[s.call] }

// A pair is a call that was seen in progress: from a call instruction to the
// start of a procedure.
type pair struct{ site, to image.Addr }

// Evidence is what a recording says of a pair.
type evidence struct {
	leaf float64 // samples taken in the callee itself
	any  float64 // samples on whose stack the call is, the callee's own callees included
}

func (e evidence) plus(o evidence, share float64) evidence {
	return evidence{e.leaf + o.leaf*share, e.any + o.any*share}
}

// sites knows what recorded stacks, branches and walks say of the calls of an image.
type sites struct {
	*view
	results  map[image.Addr]*infer.Result // by start
	byReturn map[image.Addr]site
	seen     map[pair]evidence
	foreign  foreignCalls
	gaps     map[pair]evidence           // by the start of a procedure that a stack lacks, and the callee
	callees  map[image.Addr]evidence     // sums of seen by callee
	targeted map[image.Addr][]image.Addr // callees of seen, by site
	branches map[pair]sample.BranchCount // recorded branches, whatever their kind
	jumped   map[image.Addr][]target     // those to the start of a procedure, by site
	walked   map[image.Addr]*walkedSite
}

// A walkedSite is what walks saw of an indirect branch.
type walkedSite struct {
	all float64                // executions
	to  map[image.Addr]float64 // those that went to the start of a procedure of the image, by that
}

// newSites reads the stacks, branches and targets of v.
func newSites(v *view) *sites {
	s := &sites{
		view:     v,
		results:  map[image.Addr]*infer.Result{},
		byReturn: map[image.Addr]site{},
		seen:     map[pair]evidence{},
		foreign:  foreignCalls{},
		gaps:     map[pair]evidence{},
		callees:  map[image.Addr]evidence{},
		targeted: map[image.Addr][]image.Addr{},
		branches: map[pair]sample.BranchCount{},
		jumped:   map[image.Addr][]target{},
		walked:   map[image.Addr]*walkedSite{},
	}
	for _, r := range v.Procs {
		s.results[r.Proc.Addr] = r
		for i, c := range r.Proc.Calls {
			if !c.Tail {
				s.byReturn[c.Return] = site{r, i}
			}
		}
	}
	for _, c := range v.counts {
		s.readBranches(c)
		s.readTargets(c)
		for _, st := range c.Stacks {
			s.readStack(c, st)
		}
	}
	for _, gap := range s.foreign.gaps(s) {
		s.gaps[gap.pair] = s.gaps[gap.pair].plus(gap.evidence, 1)
	}
	s.fillGaps()
	s.sum()
	return s
}

// blind reports whether nothing shows who calls what in the image.
func (s *sites) blind() bool { return len(s.seen)+len(s.walked)+len(s.jumped) == 0 }

// addr returns the address of a frame of c, if it is in the image.
func (s *sites) addr(c *sample.Counts, f sample.Frame) (image.Addr, bool) {
	if f.Image == sample.Unknown || !s.same(c.Images[f.Image].ID) {
		return 0, false
	}
	return s.code.AddrOf(f.Off)
}

func (v *view) same(id sample.ImageID) bool { return id.Key() == v.ID.Key() }

func (s *sites) readBranches(c *sample.Counts) {
	for b, n := range c.Branches {
		from, ok1 := s.addr(c, b.From)
		to, ok2 := s.addr(c, b.To)
		if ok1 && ok2 {
			k := pair{from, to}
			t := s.branches[k]
			s.branches[k] = sample.BranchCount{N: t.N + n.N, Mispredicted: t.Mispredicted + n.Mispredicted}
		}
	}
}

func (s *sites) readTargets(c *sample.Counts) {
	for b, n := range c.Targets {
		from, ok := s.addr(c, b.From)
		if !ok {
			continue
		}
		w := s.walked[from]
		if w == nil {
			w = &walkedSite{to: map[image.Addr]float64{}}
			s.walked[from] = w
		}
		w.all += float64(n)
		if to, ok := s.addr(c, b.To); ok {
			if _, ok := s.symbolAt(to); ok {
				w.to[to] += float64(n)
			}
		}
	}
}

// shown reports whether something was seen to make a call: a stack, or a walk.
func (s *sites) shown(p pair) bool {
	w := s.walked[p.site]
	return s.seen[p].any > 0 || w != nil && w.to[p.to] > 0
}

// readStack adds the calls on one stack. A call that recursion has put there
// twice still is one sample's evidence.
func (s *sites) readStack(c *sample.Counts, st sample.Stack) {
	counted := map[pair]bool{}
	for i := 0; i+1 < len(st.Frames); i++ {
		pc, ok := s.addr(c, st.Frames[i])
		if !ok {
			continue
		}
		if i > 0 {
			pc-- // a return address may lie just behind the end of its procedure
		}
		callee, _, ok := s.place(pc)
		if !ok {
			continue
		}
		e := evidence{any: float64(st.N)}
		if i == 0 {
			e.leaf = e.any
		}
		ret, ok := s.addr(c, st.Frames[i+1])
		at, known := s.byReturn[ret]
		if !ok || !known {
			s.foreign.add(c, st.Frames[i+1], callee.Addr, e)
			continue
		}
		into, p := s.seen, pair{at.at().Site, callee.Addr}
		if to := at.at().To; to != 0 && to != callee.Addr {
			into, p = s.gaps, pair{to, callee.Addr}
		}
		if !counted[p] {
			counted[p] = true
			into[p] = into[p].plus(e, 1)
		}
	}
}

// fillGaps finds the calls that stacks are silent about. Stacks that were unwound
// by frame pointers, without a word of the stack itself, lack the caller of a
// procedure that keeps no frame of its own, and all of them lack what made tail
// calls: the return address is then that of a call to the missing procedure.
func (s *sites) fillGaps() {
	found := map[pair]evidence{}
	for _, gap := range sortedKeys(s.gaps, comparePairs) {
		missing, callee := s.results[gap.site], gap.to
		if missing == nil {
			continue
		}
		for _, w := range shares(s.callsTo(missing, callee)) {
			if p := (pair{w.site, callee}); w.n > 0 {
				found[p] = found[p].plus(s.gaps[gap], w.n)
			}
		}
	}
	for p, e := range found {
		s.seen[p] = s.seen[p].plus(e, 1)
	}
}

// foreignCalls is what was seen to run just above return addresses of which
// the call is not known, most of them in other images: evidence by procedure.
type foreignCalls map[foreignFrame]map[image.Addr]evidence

type foreignFrame struct {
	image sample.ImageID // zero if unknown
	off   sample.Offset
}

func (f foreignCalls) add(c *sample.Counts, below sample.Frame, callee image.Addr, e evidence) {
	if below.Image == sample.Unknown {
		return
	}
	k := foreignFrame{c.Images[below.Image].ID, below.Off}
	if f[k] == nil {
		f[k] = map[image.Addr]evidence{}
	}
	f[k][callee] = f[k][callee].plus(e, 1)
}

// A gap is a pair of a procedure that a stack lacks and the one it called.
type gap struct {
	pair
	evidence
}

// gaps finds procedures that were seen above a return address which belongs to
// the call of another: the C library calls main, and what main calls without a
// frame of its own stands on the C library, too.
func (f foreignCalls) gaps(s *sites) []gap {
	var found []gap
	for _, k := range sortedKeys(f, compareForeign) {
		above := sortedKeys(f[k], cmp.Compare)
		for _, callee := range above {
			e := f[k][callee]
			for _, missing := range above {
				r := s.results[missing]
				if e.leaf > 0 && missing != callee && r != nil && len(s.callsTo(r, callee)) > 0 {
					found = append(found, gap{pair{missing, callee}, evidence{e.leaf, e.leaf}})
					break // one caller is enough: which of them it was, nothing tells
				}
			}
		}
	}
	return found
}

func compareForeign(a, b foreignFrame) int {
	return cmp.Or(cmp.Compare(a.image.Path, b.image.Path), bytes.Compare(a.image.Build[:], b.image.Build[:]), cmp.Compare(a.off, b.off))
}

// callsTo returns the calls of a procedure by which it may have reached callee, with
// how often they ran: where it calls callee directly, these; else the indirect
// calls, those that were seen to lead there if there are any.
func (s *sites) callsTo(r *infer.Result, callee image.Addr) []weighted {
	var direct, seen, indirect []weighted
	for i, c := range r.Proc.Calls {
		n := r.Call[i].N
		switch e := s.seen[pair{c.Site, callee}]; {
		case c.To == callee:
			direct = append(direct, weighted{c.Site, n})
		case c.To != 0 || c.Target != "":
		case e.any > 0:
			seen = append(seen, weighted{c.Site, e.any})
		default:
			indirect = append(indirect, weighted{c.Site, n})
		}
	}
	switch {
	case len(direct) > 0:
		return direct
	case len(seen) > 0:
		return seen
	}
	return indirect
}

// A weighted is a call with some weight.
type weighted struct {
	site image.Addr
	n    float64
}

// shares scales weights to a sum of 1.
func shares(ws []weighted) []weighted {
	var sum float64
	for _, w := range ws {
		sum += w.n
	}
	for i := range ws {
		if sum > 0 {
			ws[i].n /= sum
		} else {
			ws[i].n = 1 / float64(len(ws))
		}
	}
	return ws
}

// sum prepares the totals by callee, and the targets of each call.
func (s *sites) sum() {
	for _, p := range sortedKeys(s.seen, comparePairs) {
		s.callees[p.to] = s.callees[p.to].plus(s.seen[p], 1)
		s.targeted[p.site] = append(s.targeted[p.site], p.to)
	}
	for p, n := range s.branches {
		if _, ok := s.symbolAt(p.to); ok {
			s.jumped[p.site] = append(s.jumped[p.site], target{p.to, float64(n.N)})
		}
	}
	for _, ts := range s.jumped {
		normal(ts)
	}
}

func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.to, b.to))
}

// A target is where a call goes, and the share of its executions that go there.
type target struct {
	to    image.Addr
	share float64
}

// targets returns the targets of call i of r within the image, by address; their
// shares add up to 1, or to less where walks saw a call leave the image. It is empty
// for calls that leave the image and for indirect calls that nobody saw.
func (s *sites) targets(r *infer.Result, i int) []target {
	c := &r.Proc.Calls[i]
	if c.To != 0 {
		if sym, _, ok := s.place(c.To); !ok || sym.Source == image.FromPLT {
			return nil
		}
		return []target{{c.To, 1}}
	}
	if ts := s.jumped[c.Site]; len(ts) > 0 { // recorded branches are counts already
		return ts
	}
	if w := s.walked[c.Site]; w != nil {
		return w.targets(s.sampled(c.Site))
	}
	return s.sampled(c.Site)
}

// sampledWorth is how many executions that walks see tell as much of where a call goes as stacks
// do, which tell of time. With the walks of 3 %, the Go compiler calls hot 0.983 of the weight that it does with exact
// counts of goldmark, 0.972 of gopher-lua's and 0.964 of gojq's, where with stacks alone it is 0.958, 0.959 and 0.961.
const sampledWorth = 4

// targets returns where walks saw a call go, and what stacks say of it.
func (w *walkedSite) targets(sampled []target) []target {
	n := maps.Clone(w.to)
	all := w.all
	for _, t := range sampled {
		n[t.to] += sampledWorth * t.share
		all += sampledWorth * t.share
	}
	ts := make([]target, 0, len(n))
	for _, to := range sortedKeys(n, cmp.Compare) {
		ts = append(ts, target{to, n[to] / all})
	}
	return ts
}

// sampled returns the targets that stacks name. Samples are time, and calls of a
// slow target are seen more often than those of a quick one; where the
// executions of all targets are known, each target's share of them replaces its
// time.
func (s *sites) sampled(at image.Addr) []target {
	var byTime, byCount []target
	for _, to := range s.targeted[at] {
		e := s.seen[pair{at, to}].any
		byTime = append(byTime, target{to, e})
		if r := s.results[to]; r != nil && r.Entries.Among >= infer.Medium {
			byCount = append(byCount, target{to, r.Entries.N * e / s.callees[to].any})
		}
	}
	if len(byCount) == len(byTime) {
		if ts := normal(byCount); len(ts) > 0 {
			return ts
		}
	}
	return normal(byTime)
}

// normal scales shares to a sum of 1, in the order of addresses.
func normal(ts []target) []target {
	slices.SortFunc(ts, func(a, b target) int { return cmp.Compare(a.to, b.to) })
	var sum float64
	for _, t := range ts {
		sum += t.share
	}
	if !(sum > 0) {
		return nil
	}
	for i := range ts {
		ts[i].share /= sum
	}
	return ts
}

// missShare returns the share of a branch's records that were mispredicted; 0 if
// it was never recorded.
func (s *sites) missShare(from, to image.Addr) float64 {
	n := s.branches[pair{from, to}]
	if n.N == 0 {
		return 0
	}
	return float64(n.Mispredicted) / float64(n.N)
}
