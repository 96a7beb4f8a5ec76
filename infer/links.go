package infer

import (
	"cmp"
	"math"
	"path"
	"slices"

	"backfeed/infer/image"
)

// Calls bind a procedure to those that call it, wherever these are: in its image, in others by what the
// dynamic linker looks up by name, and anywhere through pointers, as far as walks saw those go.

// A target is where a call leads: the start of a procedure of an image.
type target struct {
	image *ImageProfile
	addr  image.Addr
}

// links tell where the calls of the images of a program lead.
type links struct {
	images []*ImageProfile
	of     map[image.Dynamic]target // what is looked up, where it is one thing whoever looks
	taken  map[target]bool          // an image takes the address of what is another's, or may be
	chosen map[target]target        // by resolver: what it returns; no image where that is not known

	returned map[target]bool // what resolvers return, as far as known
	shown    map[target]bool // of these, what other images can link with
	missing  bool            // there are images that are not known
	unsure   map[target]bool // what a name may lead to, or not

	callersOf map[target]map[*ImageProfile][]int32 // symbols that call what they look up by name

	// What walks saw of indirect branches, by place; those of a stub are at its start.
	walked map[target][]lead
	seen   map[target]arrivals
}

// newLinks finds what the images ask each other for.
func newLinks(images []*ImageProfile, missing bool) *links {
	l := &links{
		images: images, missing: missing, taken: map[target]bool{}, chosen: map[target]target{}, returned: map[target]bool{}, shown: map[target]bool{},
		callersOf: map[target]map[*ImageProfile][]int32{}, walked: map[target][]lead{}, seen: map[target]arrivals{},
	}
	l.of, l.unsure = lookedUp(images, l.resolve)
	for _, ip := range images {
		for _, c := range ip.Image.ResolverCallers() {
			if to, ok := l.resolve(ip, c.Resolver); ok {
				l.addCallers(to, ip, c.From)
			}
		}
		for _, e := range ip.Image.Exports() {
			if !e.Indirect {
				continue
			}
			if to, ok := l.resolve(ip, e.Addr); ok {
				l.shown[to] = true
			}
		}
	}
	for _, ip := range images {
		for _, d := range ip.Image.ImportsTaken() {
			if to, ok := l.of[d]; ok {
				l.taken[to] = true
			}
		}
		for d, from := range ip.Image.ImportCallers() {
			if to, ok := l.of[d]; ok {
				l.addCallers(to, ip, from)
			}
		}
	}
	return l
}

// resolve returns what the resolver at an address returns: of what it can, what has samples. Processors differ, so where several have,
// it is none of them.
func (l *links) resolve(ip *ImageProfile, resolver image.Addr) (target, bool) {
	at := target{ip, resolver}
	to, known := l.chosen[at]
	if !known {
		to = ip.resolved(resolver)
		l.chosen[at] = to
		l.returned[to] = true
	}
	return to, to.image != nil
}

// resolved is resolve without a memory; the image of the target is nil where it is not known.
func (ip *ImageProfile) resolved(resolver image.Addr) (to target) {
	for _, i := range ip.Image.Resolves(resolver) {
		if ip.samplesOf(int(i)) == 0 {
			continue
		}
		if to.image != nil {
			return target{}
		}
		to = target{ip, ip.Image.Symbols()[i].Addr}
	}
	return to
}

// samplesOf returns the samples of a symbol.
func (ip *ImageProfile) samplesOf(sym int) uint64 {
	i, ok := slices.BinarySearchFunc(ip.Procs, ip.Image.Symbols()[sym].Addr, func(r *Result, a image.Addr) int { return cmp.Compare(r.Proc.Addr, a) })
	if !ok {
		return 0
	}
	return ip.Procs[i].Samples
}

// lookedUp returns what the images ask each other for. Of two that define a name for those who ask for the same version, the one that the
// dynamic linker comes to first is meant, as far as that is known: see first. What a resolver stands for is what resolve returns.
// unsure is what names may lead to of which it is not known.
func lookedUp(images []*ImageProfile, resolve func(*ImageProfile, image.Addr) (target, bool)) (of map[image.Dynamic]target, unsure map[target]bool) {
	unsure = map[target]bool{}
	of = map[image.Dynamic]target{}
	asked := map[string][]image.Dynamic{} // by name
	for _, ip := range images {
		for _, d := range ip.Image.Imports() {
			if !slices.Contains(asked[d.Name], d) {
				asked[d.Name] = append(asked[d.Name], d)
			}
		}
	}
	definers := map[image.Dynamic][]definer{}
	for _, ip := range images {
		for _, e := range ip.Image.Exports() {
			for _, d := range asked[e.Name] {
				if at := (definer{target{ip, e.Addr}, e.Indirect}); e.Means(d) && !slices.Contains(definers[d], at) {
					definers[d] = append(definers[d], at)
				}
			}
		}
	}
	order := searched(images)
	for d, by := range definers {
		to, ok := first(by, order)
		if ok && to.indirect {
			to.target, ok = resolve(to.image, to.addr)
		}
		if ok {
			of[d] = to.target
			continue
		}
		for _, to := range by {
			unsure[to.target] = true
		}
	}
	return of, unsure
}

// A definer is what an image defines a name as.
type definer struct {
	target
	indirect bool // it is a resolver
}

// first returns the definer that the dynamic linker comes to first. The program is searched before all else, whoever asks, and what it is
// linked with before what those libraries are. Where others come, which may be loaded before these or later, only one may define a name.
func first(by []definer, order map[*ImageProfile]int) (definer, bool) {
	at := func(d definer) int {
		if i, ok := order[d.image]; ok {
			return i
		}
		return math.MaxInt
	}
	least := slices.MinFunc(by, func(a, b definer) int { return cmp.Compare(at(a), at(b)) })
	for _, d := range by {
		if d != least && (d.image == least.image || at(least) > 0 && at(d) == math.MaxInt) {
			return definer{}, false
		}
	}
	return least, true
}

// searched returns in what order the dynamic linker searches images: 0 is the program, and the libraries that it asks for follow. Where a
// recording has several programs, each searches others.
func searched(images []*ImageProfile) map[*ImageProfile]int {
	order := map[*ImageProfile]int{}

	var program *ImageProfile
	for _, ip := range images {
		if ip.Image.IsProgram() {
			if program != nil {
				return order
			}
			program = ip
		}
	}
	if program == nil {
		return order
	}
	order[program] = 0
	for i, name := range program.Image.Needed() {
		for _, ip := range images {
			if _, ok := order[ip]; !ok && cmp.Or(ip.Image.SoName(), path.Base(ip.ID.Path)) == path.Base(name) {
				order[ip] = i + 1
			}
		}
	}
	return order
}

// A Linkage says where calls from one image into another lead, as far as names tell.
type Linkage struct{ of map[image.Dynamic]target }

// NewLinkage finds what the images ask each other for, as Infer does.
func NewLinkage(images []*ImageProfile) *Linkage {
	l := &links{chosen: map[target]target{}, returned: map[target]bool{}}
	of, _ := lookedUp(images, l.resolve)
	return &Linkage{of}
}

// Callee returns where c, a call in im, leads that the dynamic linker resolves. imported is false of other calls; to is
// nil where it is not known.
func (l *Linkage) Callee(im *image.Image, c *image.Call) (to *ImageProfile, addr image.Addr, imported bool) {
	d, imported := im.Import(c)
	if !imported {
		return nil, 0, false
	}
	t := l.of[d]
	return t.image, t.addr, true
}

// addCallers adds symbols of ip that call what is at to.
func (l *links) addCallers(to target, ip *ImageProfile, from []int32) {
	by := l.callersOf[to]
	if by == nil {
		by = map[*ImageProfile][]int32{}
		l.callersOf[to] = by
	}
	by[ip] = append(by[ip], from...) // one function may have several names
	slices.Sort(by[ip])
	by[ip] = slices.Compact(by[ip])
}

// A lead is where a call leads, with what share of its executions.
type lead struct {
	target
	share  float64
	branch target // that walks saw lead there; zero of a direct call
}

// leads returns where c, of a procedure in ip, leads, as far as that is known.
func (l *links) leads(ip *ImageProfile, c *image.Call) []lead {
	all := l.walked[target{ip, c.Site}]
	d, imports := ip.Image.Import(c)
	stub := ip.Image.IsStub(c.To)
	if to, ok := l.of[d]; imports && ok {
		all = []lead{{target: to, share: 1}}
	} else if to, ok := l.resolvedBy(ip, c); ok {
		all = []lead{{target: to, share: 1}}
	} else if stub {
		all = l.walked[target{ip, c.To}]
	} else if c.To != 0 && !imports {
		all = []lead{{target: target{ip, c.To}, share: 1}}
	}
	if stub { // it is called, too
		all = append(slices.Clip(all), lead{target: target{ip, c.To}, share: 1})
	}
	return all
}

// resolvedBy returns what the resolver returns that c calls by.
func (l *links) resolvedBy(ip *ImageProfile, c *image.Call) (target, bool) {
	r, ok := ip.Image.Resolver(c)
	if !ok {
		return target{}, false
	}
	return l.resolve(ip, r)
}

// others reports whether there may be calls of a procedure that are not known.
func (l *links) others(at caller) bool {
	im, start := at.image.Image, at.start()
	if im.Resolved(at.sym) && !l.returned[start] {
		return true
	}
	return im.AddressTaken(at.sym) || l.missing && (im.Exported(at.sym) || l.shown[start]) || l.taken[start]
}

// A caller is a procedure of an image that calls another.
type caller struct {
	image *ImageProfile
	sym   int
}

// start is where a caller begins.
func (c caller) start() target { return target{c.image, c.image.Image.Symbols()[c.sym].Addr} }

// callers returns the procedures that call another by name or by address, in the order of images and addresses.
func (l *links) callers(of caller) (all []caller) {
	byName := l.callersOf[of.start()]
	for _, by := range l.images {
		from := byName[by]
		if by == of.image {
			from = append(slices.Clip(from), by.Image.Callers(of.sym)...)
			slices.Sort(from)
			from = slices.Compact(from)
		}
		for _, i := range from {
			if s := &by.Image.Symbols()[i]; s.Source != image.FromPLT { // who calls the stub is known by the name
				all = append(all, caller{by, int(i)})
			}
		}
	}
	return all
}

// calls are those of one procedure.
type calls struct {
	sites    []site
	branches map[target]bool // by which walks saw it reached
}

// onlyPointed reports whether nothing but calls through pointers can enter a procedure: no name leads to it, known or not.
func (l *links) onlyPointed(at caller) bool {
	im := at.image.Image
	return len(l.callers(at)) == 0 && !im.Once(at.sym) && !im.IsStub(at.start().addr) && !im.Resolved(at.sym) && !l.unsure[at.start()]
}

// tie finds what binds the procedures to each other. Calls in silent procedures are left out: what had no sample
// hardly calls often; and those in stubs: who calls a stub is taken to call what it leads to. complete is whether all code is known that may call.
func (pr *posed) tie(l *links, complete bool) {
	of := map[target]*calls{}
	for _, ip := range l.images {
		for _, r := range ip.Procs {
			q := pr.of[r]
			if q == nil || q.silent() || ip.Image.IsStub(r.Proc.Addr) {
				continue
			}
			if complete {
				pr.pool.addUnresolved(r.Proc, q)
			}
			for c := range r.Proc.Calls {
				leads := l.leads(ip, &r.Proc.Calls[c])
				if complete {
					pr.pool.add(ip, q, &r.Proc.Calls[c], leads)
				}
				for _, to := range leads {
					s := q.site(&r.Proc.Calls[c])
					s.share = to.share
					if of[to.target] == nil {
						of[to.target] = &calls{branches: map[target]bool{}}
					}
					of[to.target].sites = append(of[to.target].sites, s)
					if to.branch.image != nil {
						of[to.target].branches[to.branch] = true
					}
				}
			}
		}
	}
	index := pr.index()
	for _, ip := range l.images {
		for _, r := range ip.Procs {
			at := caller{ip, r.Proc.Index}
			if i, ok := index[pr.of[r]]; ok && of[at.start()] != nil {
				pr.ties = append(pr.ties, l.tie(at, i, pr.tieSD, of[at.start()]))
			} else if ok && complete && l.onlyPointed(at) {
				pr.pool.callees = append(pr.pool.callees, i)
			}
		}
	}
}

// tie binds a procedure, of problem i, to its calls.
func (l *links) tie(at caller, i int, sd float64, by *calls) tie {
	came := l.seen[at.start()]
	t := tie{callee: i, sites: by.sites, floor: l.others(at), sd: math.Hypot(sd, math.Sqrt(came.variance(l, by.branches)))}
	t.above = t.sd
	if t.floor {
		t.above = math.Inf(1)
		if u := came.unseen(by.branches); u < mostUnseen {
			t.above = t.sd - math.Log1p(-u)
		}
	}
	return t
}
