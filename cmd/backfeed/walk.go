package main

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// What walks may go through: so many instructions of one image, and of all. Each takes
// some 60 bytes of the kernel's memory.
const (
	mostWalked    = 400_000
	mostWalkedAll = 1_000_000
)

// walksShare is the part of the time of a calibration that is for walks; windows have the rest.
const walksShare = 0.6

// forWalks is the share of the processor time for walks, forWindows that for windows.
func (f *calibrateFlags) forWalks() float64   { return walksShare * float64(f.budget) }
func (f *calibrateFlags) forWindows() float64 { return float64(f.budget) - f.forWalks() }

// walk has walks go through the code of the images of p, most sampled first, unless they
// do already. Without walks, probes tell where branches go too.
func (k *calibrator) walk(p *infer.Profile) {
	if k.noWalks != nil {
		return
	}
	k.noWalks = k.setWalks(p)
	if u := (*collect.Unavailable)(nil); errors.As(k.noWalks, &u) {
		k.log("--calibrate: no walks: %s. %s", u.Why, u.Fix)
	} else if k.noWalks != nil {
		k.log("--calibrate: no walks: %v", k.noWalks)
	} else {
		k.run.RunsOnly()
	}
}

func (k *calibrator) setWalks(p *infer.Profile) error {
	images := slices.Clone(p.Images)
	slices.SortStableFunc(images, func(a, b *infer.ImageProfile) int { return compareSamples(b, a) })
	images = images[:min(len(images), probedImages)]
	if !slices.ContainsFunc(images, func(ip *infer.ImageProfile) bool { return !slices.Contains(k.walked, ip.ID.Key()) }) {
		return nil
	}
	k.walked = nil
	var all []collect.WalkImage
	left := mostWalkedAll
	for _, ip := range images {
		k.walked = append(k.walked, ip.ID.Key())
		pi := k.images[ip.ID.Key()]
		if pi == nil || pi.err != nil || ip.Image.Arch != image.X86_64 {
			continue
		}
		ops := walkOps(ip, min(mostWalked, left))
		left -= len(ops)
		all = append(all, collect.WalkImage{ID: ip.ID, File: pi.file.Name(), Ops: ops})
	}
	return k.walker.SetImages(all)
}

// compareSamples orders images by their samples in procedures.
func compareSamples(a, b *infer.ImageProfile) int {
	sum := func(ip *infer.ImageProfile) (n uint64) {
		for _, r := range ip.Procs {
			n += r.Samples
		}
		return n
	}
	return cmp.Compare(sum(a), sum(b))
}

// walkOps gives up to so many operations of an image: of the procedures that were sampled,
// then of what these call, and so on, then of all others.
func walkOps(ip *infer.ImageProfile, most int) []collect.WalkOp {
	im := ip.Image
	seen := make([]bool, len(im.Symbols()))
	var next []int
	want := func(i int) {
		if i >= 0 && !seen[i] {
			seen[i] = true
			next = append(next, i)
		}
	}
	procs := slices.Clone(ip.Procs)
	slices.SortStableFunc(procs, func(a, b *infer.Result) int { return cmp.Compare(b.Samples, a.Samples) })
	for _, r := range procs {
		want(r.Proc.Index)
	}
	var out []collect.WalkOp
	rest := 0
	for len(out) < most {
		if len(next) == 0 {
			for rest < len(seen) && seen[rest] {
				rest++
			}
			if rest == len(seen) {
				break
			}
			want(rest)
		}
		i := next[0]
		next = next[1:]
		p, err := im.Proc(i)
		if err != nil {
			continue
		}
		for c := range p.Calls {
			if to := p.Calls[c].To; to != 0 {
				want(im.Find(to))
			}
		}
		for _, o := range im.WalkOps(p) {
			off, _ := im.OffsetOf(o.Addr)
			out = append(out, collect.WalkOp{
				Off: off, Addr: uint64(o.Addr), Target: uint64(o.Target),
				Kind: uint8(o.Kind), Size: o.Size, Dst: o.Dst, Src: o.Src, Base: o.Base, Index: o.Index, Scale: o.Scale,
				Flags: uint8(o.Flags), Cond: o.Cond, Disp: o.Disp, Imm: o.Imm, Branch: walkBranch[o.Kind], Proc: uint64(p.Addr),
			})
		}
	}
	return out
}

// walkBranch says which operations are branches.
var walkBranch = map[image.WalkKind]collect.WalkBranch{
	image.WalkCondJump: collect.BranchCond,
	image.WalkJump:     collect.BranchJump,
	image.WalkJumpInd:  collect.BranchJump,
	image.WalkCall:     collect.BranchCall,
	image.WalkCallInd:  collect.BranchCall,
	image.WalkRet:      collect.BranchReturn,
}

// tellWalks says what walks did.
func (c *cli) tellWalks(k *calibrator) {
	t := k.walker.Totals()
	if t.Walks == 0 {
		return
	}
	c.warn("%d walks of %.0f instructions took %v; %.0f%% went on to their full length",
		t.Walks, float64(t.Steps)/float64(t.Walks), t.Time.Round(time.Millisecond), 100*float64(t.Ends[0])/float64(t.Walks))
	if t.Lost > 0 {
		c.warn("%d of them were lost", t.Lost)
	}
}

// mostWantedRate is how often all sites of a group may run that walks want, per second while the
// code around one of them runs, and wantedSites how many they are at most: more make windows
// shorter, and each then tells of one phase. With 1.2e6 and 36, in a minute at 3 %, windows of 0.3 ms
// told the rates of a Go program to a half at best.
const mostWantedRate, wantedSites = 7e5, 16

// wantedByWalks gives up to most groups of the sites whose rates tell most beside walks.
func (k *calibrator) wantedByWalks(p *infer.Profile, most int) (groups []*chosen) {
	sites := map[siteKey]infer.Site{}
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for b, all := range ip.Image.ProbeSites(r.Proc) {
				for _, s := range all {
					sites[siteKey{ip.ID.Key(), s.Off}] = infer.Site{Image: ip, Proc: r, Block: b, ProbeSite: s, Runs: true}
				}
			}
		}
	}
	able := func(id sample.ImageID, off sample.Offset) bool {
		_, ok := sites[siteKey{id, off}]
		return ok && !k.dense[siteKey{id, off}]
	}
	for _, w := range k.walker.Want(k.run.Rates(), collect.WantOptions{Able: able, Groups: most, Sites: wantedSites, Rate: mostWantedRate}) {
		g := &chosen{ProbeGroup: collect.ProbeGroup{Alone: true, Gain: 1}, own: map[image.Addr]float64{}}
		for _, at := range w.Sites {
			s := sites[siteKey{w.ID.Key(), at.Off}]
			s.Rate = at.Rate
			k.add(g, s)
		}
		if len(g.Sites) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// addTo adds to counts what probes and walks counted.
func (k *calibrator) addTo(c *sample.Counts) {
	k.run.AddTo(c)
	k.walker.AddTo(c, k.run.Rates())
}

// forget begins anew, when what addTo gave is stored.
func (k *calibrator) forget() {
	k.run.Forget()
	k.walker.Forget()
}
