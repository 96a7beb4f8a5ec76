package feedback

import (
	"cmp"
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

// sites knows what recorded stacks and branches say of the calls of an image.
type sites struct {
	*view
	results  map[image.Addr]*infer.Result // by start
	byReturn map[image.Addr]site
	seen     map[pair]evidence
	callees  map[image.Addr]evidence     // sums of seen by callee
	targeted map[image.Addr][]image.Addr // callees of seen, by site
	branches map[pair]sample.BranchCount // recorded branches, whatever their kind
	jumped   map[image.Addr][]target     // those to the start of a procedure, by site

	bad float64 // samples whose two innermost frames do not fit together
}

// newSites reads the stacks and branches of v.
func newSites(v *view) *sites {
	s := &sites{
		view:     v,
		results:  map[image.Addr]*infer.Result{},
		byReturn: map[image.Addr]site{},
		seen:     map[pair]evidence{},
		callees:  map[image.Addr]evidence{},
		targeted: map[image.Addr][]image.Addr{},
		branches: map[pair]sample.BranchCount{},
		jumped:   map[image.Addr][]target{},
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
		s.readStacks(c)
	}
	s.sum()
	return s
}

// addr gives the address of a frame of c, if it is in the image.
func (s *sites) addr(c *sample.Counts, f sample.Frame) (image.Addr, bool) {
	if f.Image == sample.Unknown || !s.same(c.Images[f.Image].ID) {
		return 0, false
	}
	return s.code.AddrOf(f.Off)
}

func (v *view) same(id sample.ImageID) bool {
	if id.Build.IsZero() || v.ID.Build.IsZero() {
		return id == v.ID
	}
	return id.Build == v.ID.Build
}

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

func (s *sites) readStacks(c *sample.Counts) {
	for _, st := range c.Stacks {
		s.readStack(c, st)
	}
}

// readStack adds the calls on one stack. A call that recursion has put there
// twice still is one sample's evidence.
func (s *sites) readStack(c *sample.Counts, st sample.Stack) {
	n := float64(st.N)
	counted := map[pair]bool{}
	for i := 0; i+1 < len(st.Frames); i++ {
		pc, ok1 := s.addr(c, st.Frames[i])
		ret, ok2 := s.addr(c, st.Frames[i+1])
		if !ok1 || !ok2 {
			continue
		}
		if i > 0 {
			pc-- // a return address may lie just behind the end of its procedure
		}
		callee, _, ok := s.place(pc)
		if !ok {
			continue
		}
		pairs := s.resolve(callee.Addr, ret)
		if len(pairs) == 0 && i == 0 {
			s.bad += n
		}
		for _, p := range pairs {
			if counted[p.pair] {
				continue
			}
			counted[p.pair] = true
			e := s.seen[p.pair]
			e.any += n * p.share
			if i == 0 {
				e.leaf += n * p.share
			}
			s.seen[p.pair] = e
		}
	}
}

// A sharedPair is a pair that has a share of the samples of a stack.
type sharedPair struct {
	pair
	share float64
}

// resolve says which call led to the procedure at callee, when the return
// address found below it on the stack is ret. That is not always the call before
// ret: stacks that were walked by frame pointers lack the caller of a procedure
// that keeps no frame of its own, and all of them lack what made tail calls. In
// both cases ret belongs to a call of that missing procedure.
func (s *sites) resolve(callee, ret image.Addr) []sharedPair {
	at, ok := s.byReturn[ret]
	if !ok {
		return nil
	}
	c := at.at()
	if c.To == callee || c.To == 0 {
		return []sharedPair{{pair{c.Site, callee}, 1}}
	}
	missing := s.results[c.To]
	if missing == nil {
		return nil
	}
	var direct, indirect []site
	for i, c := range missing.Proc.Calls {
		switch {
		case c.To == callee:
			direct = append(direct, site{missing, i})
		case c.To == 0 && c.Target == "":
			indirect = append(indirect, site{missing, i})
		}
	}
	if len(direct) == 0 {
		direct = indirect
	}
	return share(direct, callee)
}

// share divides a sample of callee among the calls that may have led there, by
// how often they ran.
func share(from []site, callee image.Addr) []sharedPair {
	var sum float64
	for _, s := range from {
		sum += s.proc.Call[s.call].N
	}
	var pairs []sharedPair
	for _, s := range from {
		part := 1 / float64(len(from))
		if sum > 0 {
			part = s.proc.Call[s.call].N / sum
		}
		if part > 0 {
			pairs = append(pairs, sharedPair{pair{s.at().Site, callee}, part})
		}
	}
	return pairs
}

// sum prepares the totals by callee, and the targets of each call.
func (s *sites) sum() {
	for _, p := range s.pairs() {
		e, sum := s.seen[p], s.callees[p.to]
		s.callees[p.to] = evidence{sum.leaf + e.leaf, sum.any + e.any}
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

// pairs gives the keys of seen in order, for sums that do not depend on a map's.
func (s *sites) pairs() []pair {
	ps := make([]pair, 0, len(s.seen))
	for p := range s.seen {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, comparePairs)
	return ps
}

func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.to, b.to))
}

// A target is where a call goes, and the share of its executions that go there.
type target struct {
	to    image.Addr
	share float64
}

// targets gives the targets of call i of r within the image, by address; their
// shares add up to 1. It is empty for calls that leave the image and for indirect
// calls that nobody saw.
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
	return s.sampled(c.Site)
}

// sampled gives the targets that stacks name. Samples are time, and calls of a
// slow target are seen more often than those of a quick one; where the
// executions of all targets are known, each target's share of them replaces its
// time.
func (s *sites) sampled(at image.Addr) []target {
	var byTime, byCount []target
	for _, to := range s.targeted[at] {
		e := s.seen[pair{at, to}].any
		byTime = append(byTime, target{to, e})
		if r := s.results[to]; r != nil && r.Entries.Conf >= infer.Medium {
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

// missShare gives the share of a branch's records that were mispredicted; 0 if
// it was never recorded.
func (s *sites) missShare(from, to image.Addr) float64 {
	n := s.branches[pair{from, to}]
	if n.N == 0 {
		return 0
	}
	return float64(n.Mispredicted) / float64(n.N)
}
