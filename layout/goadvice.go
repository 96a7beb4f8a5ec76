package layout

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
)

// A GoPlan is what the source of a Go program can do for the order of its code. Go's
// linker takes no order: it lays out packages as they depend on each other, in each
// package the files by name, and in each file the functions as they stand there (seen
// with Go 1.26). So hot functions can be brought together within a package, by moving
// them to the top of its first file.
type GoPlan struct {
	Funcs    int         // functions that ran
	Linked   Scores      // the program as it is
	Together Scores      // the functions that ran at the top of each package that is not the standard library's
	Ordered  Scores      // all functions that ran in the order that a linker would get, which no source can have
	Packages []GoPackage // those where a function that ran can be moved, the most executed first; at most maxGoPackages
	Others   int         // packages beyond
}

// maxGoPackages bounds the packages that are planned one by one: nobody moves the
// functions of more, and each one's scores take as long as the whole program's.
const maxGoPackages = 20

// A GoPackage is what can be done in one package.
type GoPackage struct {
	Path   string
	Size   uint64  // bytes of its code
	Share  float64 // of the executed instructions of the program
	Alone  Scores  // of the program, if nothing but this package is changed
	Linked Scores  // of the package's own functions that ran, as they are
	Moved  Scores  // and at its top
	Funcs  []GoFunc
}

// A GoFunc is a function that ran, at its place in the suggested order.
type GoFunc struct {
	image.Symbol
	File   string // where it stands now
	Result *infer.Result
}

// GoAdvice plans for a Go program.
func GoAdvice(ip *infer.ImageProfile) *GoPlan {
	l := newGoLayout(ip)
	plan := &GoPlan{Funcs: len(l.procs), Linked: Linked(l.procs).Scores()}
	plan.Together = l.place(func(string) bool { return true }).Scores()
	var parts []Part
	for _, i := range l.order {
		parts = append(parts, Part{Proc: i})
	}
	plan.Ordered = Place(l.procs, parts, textStart(ip.Image, l.procs), l.align).Scores()
	paths := l.mostExecuted()
	plan.Others = max(len(paths)-maxGoPackages, 0)
	for _, path := range paths[:len(paths)-plan.Others] {
		plan.Packages = append(plan.Packages, l.plan(path))
	}
	return plan
}

// leastGain is the least gain that advice is given for, 1 %: inferred counts of calls are
// not that exact, by the edge overlaps in infer/README.md.
const leastGain = 0.01

// Gains reports whether the program is better with this package changed alone: its calls
// are worth more, or the package's hot code takes fewer cache lines.
func (p *GoPackage) Gains(linked Scores) bool {
	return p.Alone.CallScore > (1+leastGain)*linked.CallScore ||
		float64(p.Moved.Lines.For99) < (1-leastGain)*float64(p.Linked.Lines.For99)
}

// mostExecuted returns the packages of funcs, those with the most executed instructions
// first.
func (l *goLayout) mostExecuted() []string {
	executed := map[string]float64{}
	for _, r := range l.procs {
		executed[image.GoPackage(r.Proc.Name)] += instructions(r)
	}
	return slices.SortedFunc(maps.Keys(l.funcs), func(a, b string) int {
		return cmp.Or(cmp.Compare(executed[b], executed[a]), cmp.Compare(a, b))
	})
}

// A goLayout is a Go program's code by packages.
type goLayout struct {
	runs  []goRun // by address
	procs []*infer.Result
	order []int               // indices into procs: the order of a linker that took one
	align uint64              // bytes
	funcs map[string][]GoFunc // by package: those that can be moved, in order

	executed float64 // instructions, of all procs
}

// A goRun is neighbouring functions of one package.
type goRun struct {
	path  string
	funcs []image.Symbol // by address
}

func newGoLayout(ip *infer.ImageProfile) *goLayout {
	l := &goLayout{funcs: map[string][]GoFunc{}}
	for _, r := range ip.Procs {
		if (r.Samples > 0 || r.Entries.N >= 0.5) && ofGo(r.Proc.Symbol) {
			l.procs = append(l.procs, r)
			l.executed += instructions(r)
		}
	}
	l.order = cacheDirected(Calls(l.procs))
	var addrs uint64
	for _, s := range ip.Image.Symbols() {
		if !ofGo(s) {
			continue
		}
		addrs |= uint64(s.Addr)
		path := image.GoPackage(s.Name)
		if n := len(l.runs); n == 0 || l.runs[n-1].path != path {
			l.runs = append(l.runs, goRun{path: path})
		}
		run := &l.runs[len(l.runs)-1]
		run.funcs = append(run.funcs, s)
	}
	l.align = uint64(max(1<<min(bits.TrailingZeros64(addrs), 6), procAlign)) // what -funcalign was
	l.findMovable(ip.Image)
	return l
}

// ofGo reports whether s is in Go's part of an image.
func ofGo(s image.Symbol) bool {
	return s.Section == ".text" && (s.Source == image.FromSymtab || s.Source == image.FromPclntab)
}

// findMovable collects the functions that ran and whose place the source decides:
// not what is instantiated or generated, which follows behind, nor assembler code.
func (l *goLayout) findMovable(im *image.Image) {
	lines, err := im.Lines()
	if err != nil {
		return
	}
	modules := im.GoModules()
	for _, i := range l.order {
		s := l.procs[i].Proc.Symbol
		path := image.GoPackage(s.Name)
		file := lines.Unit(s.Addr).Name
		if !strings.HasSuffix(file, ".go") || strings.Contains(s.Name, "[") || !inModule(path, modules) {
			continue
		}
		l.funcs[path] = append(l.funcs[path], GoFunc{s, file, l.procs[i]})
	}
}

// inModule reports whether a package is one of a module, not of the standard library,
// whose paths have no dot in their first element.
func inModule(path string, modules []string) bool {
	if path == "main" {
		return true
	}
	if len(modules) == 0 {
		first, _, _ := strings.Cut(path, "/")
		return strings.Contains(first, ".")
	}
	return slices.ContainsFunc(modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// place lays out the program with the functions that ran, and can be moved, at the
// top of the packages that are chosen.
func (l *goLayout) place(chosen func(path string) bool) *Placement {
	at := map[image.Addr]image.Addr{} // new addresses
	for path := range l.funcs {
		if chosen(path) {
			l.placeRun(l.longest(path), at)
		}
	}
	p := &Placement{Procs: l.procs}
	for _, r := range l.procs {
		start := make([]image.Addr, len(r.Proc.Blocks))
		to, moved := at[r.Proc.Addr]
		for i, b := range r.Proc.Blocks {
			start[i] = b.Start
			if moved {
				start[i] = b.Start - r.Proc.Addr + to
			}
		}
		p.Start = append(p.Start, start)
	}
	return p
}

// longest returns the longest run of a package: others are code that was generated.
func (l *goLayout) longest(path string) goRun {
	var best goRun
	for _, run := range l.runs {
		if run.path == path && len(run.funcs) > len(best.funcs) {
			best = run
		}
	}
	return best
}

// placeRun returns the functions of a run their new addresses.
func (l *goLayout) placeRun(run goRun, at map[image.Addr]image.Addr) {
	here := map[image.Addr]bool{}
	for _, s := range run.funcs {
		here[s.Addr] = true
	}
	next := uint64(run.funcs[0].Addr)
	put := func(s image.Symbol) {
		if _, done := at[s.Addr]; !done {
			at[s.Addr] = image.Addr(next)
			next += (max(s.Size, 1) + l.align - 1) / l.align * l.align
		}
	}
	for _, f := range l.funcs[run.path] {
		if here[f.Addr] {
			put(f.Symbol)
		}
	}
	for _, s := range run.funcs {
		put(s)
	}
}

// plan says what can be done in one package.
func (l *goLayout) plan(path string) GoPackage {
	p := GoPackage{Path: path, Funcs: l.funcs[path]}
	for _, run := range l.runs {
		if run.path == path {
			for _, s := range run.funcs {
				p.Size += s.Size
			}
		}
	}
	moved := l.place(func(other string) bool { return other == path })
	p.Alone = moved.Scores()
	own := &Placement{}
	for i, r := range l.procs {
		if image.GoPackage(r.Proc.Name) == path {
			own.Procs, own.Start = append(own.Procs, r), append(own.Start, moved.Start[i])
			p.Share += instructions(r)
		}
	}
	if l.executed > 0 {
		p.Share /= l.executed
	}
	p.Linked, p.Moved = Linked(own.Procs).Scores(), own.Scores()
	return p
}
