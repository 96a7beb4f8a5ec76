package calibrate

import (
	"cmp"
	"maps"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/probe"
)

// Two kinds of sites are armed apart from one another: those that tell where branches
// went, and those that tell how often procedures run.
const (
	outcomes = iota
	runs
)

// groupRuns puts sites that tell how often procedures run into groups, so many of each
// file, and returns the most important ones. Sites join groups as long as there is room,
// and never leave them: windows are of all that a group had.
func (k *Calibrator) groupRuns(sites []infer.Site, most int) []*chosen {
	used := map[*chosen]float64{}
	first := len(k.runs)
	for _, s := range sites {
		key := siteKey{s.Image.ID.Key(), s.Off}
		g := k.place[key]
		if g == nil {
			own, proc := k.ownRate(s), s.Proc.Proc.Addr
			of := 0 // groups of that file
			for j, r := range k.runs {
				if r.ID.Key() != key.id {
					continue
				}
				room := probe.MaxSites
				if j >= first {
					room = sitesPerGroup
				}
				if of++; len(r.Sites) < room && r.own[proc]+own <= mostOwnRate {
					g = r
					break
				}
			}
			switch {
			case g == nil && of >= most:
				continue
			case g == nil:
				g = &chosen{Group: probe.Group{Alone: true}, own: map[image.Addr]float64{}}
			}
			if !k.add(g, s) {
				continue
			}
			if len(g.Sites) == 1 {
				k.runs = append(k.runs, g)
			}
			g.own[proc] += own
			k.place[key] = g
		}
		used[g] += s.Gain
	}
	var out []*chosen
	for _, g := range k.runs {
		if g.Gain = used[g]; g.Gain > 0 {
			out = append(out, g)
		}
	}
	return k.important(out, most, k.runsShare())
}

// setRuns has groups alone tell how often code runs. If walks want no places later, others join
// them.
func (k *Calibrator) setRuns(groups []*chosen) {
	k.runs = slices.Clone(groups)
	clear(k.place)
	for _, g := range groups {
		for _, s := range g.sites {
			k.place[siteKey{g.ID.Key(), s.Off}] = g
			g.own[s.Proc.Proc.Addr] += k.ownRate(s)
		}
	}
}

// leave ends the groups that tell how often procedures run whose windows some of their
// sites fill: the others join new ones.
func (k *Calibrator) leave(dense map[probe.Site]bool) {
	k.runs = slices.DeleteFunc(k.runs, func(g *chosen) bool {
		ends := false
		for _, s := range g.Sites {
			if dense[s] {
				ends, k.dense[siteKey{g.ID.Key(), s.Off}] = true, true
			}
		}
		if ends {
			maps.DeleteFunc(k.place, func(_ siteKey, of *chosen) bool { return of == g })
		}
		return ends
	})
}

// groupOutcomes puts branches into new groups, and returns the most important ones.
func (k *Calibrator) groupOutcomes(sites []infer.Site, most int) []*chosen {
	var all []*chosen
	last := map[sample.ImageID]*chosen{} // that takes more sites
	seen := map[siteKey]bool{}
	for _, s := range sites {
		key := siteKey{s.Image.ID.Key(), s.Off}
		if seen[key] || s.Cond == probe.NoCond {
			continue
		}
		seen[key] = true
		g := last[key.id]
		if g == nil || len(g.Sites) == sitesPerGroup {
			g = &chosen{}
		}
		if !k.add(g, s) {
			continue
		}
		if g.Gain += s.Gain; len(g.Sites) == 1 {
			last[key.id] = g
			all = append(all, g)
		}
	}
	all = k.important(all, most+1, 1-runsShare) // one more: libraries have theirs apart
	for _, g := range all {
		k.link(g)
	}
	return all
}

// linksPerProc is how many sites of a procedure that tell how often it runs are armed
// beside its branches, which run too often to tell that by themselves: they do among one
// another, in the same windows.
const linksPerProc = 2

// link adds to g what its procedures have in the groups that tell how often they run: those
// that run most.
func (k *Calibrator) link(g *chosen) {
	procs := map[image.Addr]int{}
	for _, s := range g.sites {
		procs[s.Proc.Proc.Addr] = 0
	}
	var links []infer.Site
	for _, r := range k.runs {
		if r.ID.Key() == g.ID.Key() {
			links = append(links, r.sites...)
		}
	}
	for _, s := range mostGain(links, len(links)) {
		n, ok := procs[s.Proc.Proc.Addr]
		if !ok || n == linksPerProc || len(g.Sites) == probe.MaxSites {
			continue
		}
		if procs[s.Proc.Proc.Addr]++; !slices.ContainsFunc(g.Sites, func(o probe.Site) bool { return o.Off == s.Off }) {
			k.add(g, s)
		}
	}
	number := map[image.Addr]int{}
	for _, s := range g.sites {
		at := s.Proc.Proc.Addr
		if _, ok := number[at]; !ok {
			number[at] = len(number)
		}
		g.Procs = append(g.Procs, number[at])
	}
}

// add adds s to g, if it can be probed.
func (k *Calibrator) add(g *chosen, s infer.Site) bool {
	pi := k.images[s.Image.ID.Key()]
	if pi == nil || pi.err != nil || k.allows(pi, s.ProbeSite) != nil {
		return false
	}
	if len(g.Sites) == 0 {
		g.ID, g.File = s.Image.ID, pi.file.Name()
	}
	g.Sites = append(slices.Clip(g.Sites), probe.Site{ID: s.Image.ID, Off: s.Off, Cond: s.Cond})
	g.Own = append(slices.Clip(g.Own), ownOf(&s))
	g.sites = append(g.sites, s)
	g.Rate += s.Rate
	return true
}

// ownOf returns the code in whose own time executions of s are told.
func ownOf(s *infer.Site) (own probe.Own) {
	im, p := s.Image.Image, s.Proc.Proc
	if len(p.Blocks) == 0 {
		return own
	}
	own.From, _ = im.OffsetOf(p.Addr)
	own.To = own.From + sample.Offset(p.Blocks[len(p.Blocks)-1].End-p.Addr)
	next := func(a image.Addr) {
		if off, ok := im.OffsetOf(a); ok {
			own.Next = append(own.Next, off)
		}
	}
	b := &p.Blocks[s.Block]
	insts := im.Insts(b)
	if i := slices.IndexFunc(insts, func(in image.Inst) bool { return in.Addr == s.Addr }); i >= 0 && i+1 < len(insts) {
		next(insts[i+1].Addr)
		return own
	}
	for _, e := range b.Out {
		if to := p.Edges[e].To; to >= 0 {
			next(p.Blocks[to].Start)
		}
	}
	return own
}

// important returns so many groups with the most gain, and their gain as parts of share.
func (k *Calibrator) important(all []*chosen, most int, share float64) []*chosen {
	traced := tracedFiles(k.proc)
	all = slices.DeleteFunc(all, func(g *chosen) bool { return traced[g.File] || traced[g.ID.Path] })
	slices.SortStableFunc(all, func(a, b *chosen) int { return cmp.Compare(b.Gain, a.Gain) })
	all = all[:min(len(all), most)]
	var sum float64
	for _, g := range all {
		sum += g.Gain
	}
	for _, g := range all {
		g.Gain *= share / sum
	}
	return all
}

func (k *Calibrator) setGroups(plan []*chosen) {
	k.plan = plan
	groups := make([]probe.Group, len(plan))
	n := 0
	for i, g := range plan {
		groups[i] = g.Group
		n += len(g.Sites)
	}
	if !k.opt.Dry {
		k.run.SetGroups(groups)
	}
	k.probing.Store(len(groups) > 0)
	windows, _, _ := k.run.Spent()
	k.opt.Notify.Warn("counting executions at %d places, in %d groups; windows so far: %d", n, len(groups), windows)
}
