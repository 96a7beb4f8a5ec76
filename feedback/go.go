package feedback

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// GoOptions choose what WriteGo writes.
type GoOptions struct {
	Image  string // path or build ID; "" is the Go program with the most samples
	NoTime bool   // leave out the samples that only people read
	Round  bool   // quantise weights to the bits that noise does not reach
	Old    []byte // with Round: the profile that is replaced; what noise explains stays as it is there
}

// GoStats say what WriteGo wrote.
type GoStats struct {
	Image    sample.ImageID
	Edges    int   // call edges, by caller, line and callee
	Inlined  int   // of them, edges that some code of the image has inlined
	Indirect int   // of them, edges of interface and closure calls
	Blind    bool  // nothing shows where indirect calls of the image lead: no stacks, branch records or walks
	Copies   int   // beside them, edges of hot calls in what the compiler will inline (addCopies)
	Weight   int64 // sum of the Edges' weights, in executions divided by Scale

	// Executions by the evidence for them; they add up to Weight * Scale but
	// for rounding.
	Counted float64 // calls of Medium confidence or better
	Divided float64 // executions of the callee divided among its callers as stacks show
	Flowed  float64 // calls of Low confidence: from the flow around them, less where no sample shows them
	Timed   float64 // samples of the callee below that caller, times PerSample

	PerSample float64 // executions that one sample stands for, over the calls that have both
	Scale     float64 // executions that a weight of 1 stands for; 1 unless the weights would overflow
	Worth     *GoWorth
	Calls     map[Choice]GoCall // of the Edges, by the choice of Inline that they are to the compiler
	Skipped   Skipped
	Dropped   map[Reason]float64 // executions of the calls in Skipped, inferred, where they are known
}

// A GoCall is what the image shows of a call edge, beside its weight.
type GoCall struct {
	Inlined  bool             // some code of the image has it inlined
	Indirect bool             // of an interface or a closure
	Assembly bool             // of a function that the compiler did not make
	Conf     infer.Confidence // of most of its weight: Medium where calls were counted, else Low
}

const (
	SkipNoLine   Reason = "calls from or to code without lines"
	SkipWrapper  Reason = "calls in wrappers that the compiler made"
	SkipNoCallee Reason = "calls of wrappers that the compiler put nothing in"
	SkipNoReturn Reason = "calls that do not return"
	SkipUnseen   Reason = "calls between procedures without samples"
	SkipUnshown  Reason = "indirect calls of which no sample shows the target" // though samples have callers: see GoStats.Blind
	SkipAdded    Reason = "calls of the runtime that the compiler adds"
	SkipSlow     Reason = "calls of functions that are inlined more often than they make them"
)

// WriteGo writes a pprof profile for `go build -pgo`, of one Go program.
//
// What the compiler takes from a profile is a weight for each (caller, line
// relative to the caller's first, callee), and it takes it from the two innermost
// locations of each sample (cmd/internal/pgo, internal/profile.NewGraph). So each
// such edge is one sample of two locations with one line each: a weight is given
// to one edge alone, where the stacks of a real profile would give that of a call
// to the inlined calls around it as well. Calls that were inlined are edges with
// the executions of the inlined body, so that what is hot and inlined does not
// look cold in the next build. Calls that are not in the source, of code that the compiler
// adds or did not make, have no edge: it could not act on them, and their weight
// counts when it takes the hot 99 %.
//
// The weight is in executions. It is the inferred frequency of the call if that
// is of Medium confidence. If not, and the executions of the callee are, they are
// divided among its call sites as the stacks show them; else it is the frequency
// of Low confidence, divided by unshown if no sample was taken in the call. Of
// code of which nothing was inferred, there are only the samples taken in the callee
// with this site below: each stands for GoStats.PerSample executions, the mean over
// the calls that have both. So all weights are of one unit, and those of a program of
// which nothing was inferred are its samples.
//
// A second set of samples has a count of 0, which the compiler ignores, and the
// CPU time of each source line, for people and `go tool pprof -top`.
func WriteGo(w io.Writer, p *infer.Profile, rec *sample.Recording, opt GoOptions) (GoStats, error) {
	ip, err := pickForGo(p, opt.Image)
	if err != nil {
		return GoStats{}, fmt.Errorf("go: %w", err)
	}
	if ip.Image.Go == "" {
		return GoStats{}, fmt.Errorf("go: %s: %w: not a Go program", ip.ID, ErrUnfit)
	}
	v := newView(ip, countsOf(p, rec))
	ln, err := ip.Image.Lines()
	if err != nil {
		return GoStats{}, fmt.Errorf("go: %s: %w", ip.ID, err)
	}
	v.lines = ln
	return writeGo(w, v, opt)
}

// pickForGo returns the image that want names; for "", the GoProgram.
func pickForGo(p *infer.Profile, want string) (*infer.ImageProfile, error) {
	if ip := GoProgram(p); want == "" && ip != nil {
		return ip, nil
	}
	return pick(p, want, isGoProgram)
}

// GoProgram returns the Go program that a profile is about if none is named, or nil: the one with the most samples. Go's own tools
// stand back: `go run` and `go test` build what they run, which may take longer.
func GoProgram(p *infer.Profile) *infer.ImageProfile {
	other := func(ip *infer.ImageProfile) bool { return isGoProgram(ip) && !IsGoTool(ip) }
	for _, fits := range []func(*infer.ImageProfile) bool{other, isGoProgram} {
		if ip := Largest(p, fits); ip != nil && fits(ip) {
			return ip
		}
	}
	return nil
}

func isGoProgram(ip *infer.ImageProfile) bool { return ip.Image.Go != "" }

// IsGoTool reports whether an image is a program of Go's own.
func IsGoTool(ip *infer.ImageProfile) bool { return strings.HasPrefix(ip.Image.GoMain(), "cmd/") }

func writeGo(w io.Writer, v *view, opt GoOptions) (GoStats, error) {
	g := &goWriter{view: v, sites: newSites(v), edges: map[goEdge]*goWeight{}, samples: v.samplesByAddr(v.counts...), methods: map[image.Addr]goFunc{}, unfit: map[string]bool{}}
	g.stats = GoStats{Image: v.ID, Blind: g.sites.blind(), Skipped: Skipped{}, Dropped: map[Reason]float64{}}
	for _, r := range v.Procs {
		if g.isGo(r.Proc.Addr) {
			g.calls(r)
			g.inlined(r)
		}
	}
	g.weigh()
	g.scale()
	if opt.Round {
		g.round(opt.Old)
	}
	g.dropSlow()
	g.stats.Worth = g.worth()
	g.addCopies(opt.Round)
	edges := g.kept()
	if len(edges) == 0 {
		return g.stats, g.stats.Skipped.empty("go: %s: no calls", v.ID)
	}
	out := newPprof(v.ID)
	out.p.Comments = []string{withCallers}
	if g.stats.Blind {
		out.p.Comments[0] = withoutCallers
	}
	for _, e := range edges {
		out.edge(e, g.edges[e])
	}
	if !opt.NoTime {
		g.times(out)
	}
	err := out.write(w)
	return g.stats, err
}

// A goWriter collects the edges of a program.
type goWriter struct {
	*view
	sites   *sites
	samples map[image.Addr]uint64
	edges   map[goEdge]*goWeight
	methods map[image.Addr]goFunc // in wrappers, by the wrapper's start
	unfit   map[string]bool       // names that were left out
	stats   GoStats
}

// A goEdge is what the Go compiler keys weights by.
type goEdge struct {
	caller goFunc
	line   int
	callee goFunc
}

type goFunc struct {
	name  string // linker symbol
	start int    // line of the declaration
	file  string
}

func funcOf(f image.Frame) goFunc { return goFunc{f.Func, f.StartLine, f.File} }

// goWeight is what is known of an edge, summed over all places in the image that
// have it.
type goWeight struct {
	counted, divided, flowed float64 // executions
	timed                    float64 // samples, then executions
	sampled                  float64 // samples of the parts that are counted or flowed
	made                     float64 // executions of call instructions, as inferred
	inlined, indirect        bool
	copied                   bool // a call in code that is inlined by this profile

	n int64 // the weight
}

func (g *goWriter) at(e goEdge) *goWeight {
	w := g.edges[e]
	if w == nil {
		w = &goWeight{}
		g.edges[e] = w
	}
	return w
}

// samplesByAddr returns the samples at each address of the image.
func (v *view) samplesByAddr(counts ...*sample.Counts) map[image.Addr]uint64 {
	at := map[image.Addr]uint64{}
	for _, c := range counts {
		for _, ic := range c.Images {
			if !v.same(ic.ID) {
				continue
			}
			for off, n := range ic.At {
				if a, ok := v.code.AddrOf(off); ok {
					at[a] += n
				}
			}
		}
	}
	return at
}

// calls adds the calls that r makes.
func (g *goWriter) calls(r *infer.Result) {
	if g.isWrapper(r.Proc.Addr) {
		for i := range r.Proc.Calls {
			g.skip(SkipWrapper, r.Call[i].N)
		}
		return
	}
	for i, c := range r.Proc.Calls {
		if r.Call[i].N == 0 && len(g.sites.targeted[c.Site]) == 0 && g.sites.walked[c.Site] == nil && !g.sites.shown(pair{c.Site, c.To}) {
			continue
		}
		if c.NoReturn {
			g.skip(SkipNoReturn, r.Call[i].N) // to panic is not what a loop does all day
			continue
		}
		frames := g.lines.Frames(c.Site)
		if len(frames) == 0 || frames[0].Line == 0 {
			g.skip(SkipNoLine, r.Call[i].N)
			continue
		}
		targets := g.sites.targets(r, i)
		switch {
		case len(targets) > 0:
		case g.stats.Blind:
			g.skip(SkipIndirect, r.Call[i].N)
		default:
			g.skip(SkipUnshown, r.Call[i].N)
		}
		for _, t := range targets {
			if g.unseen(r, i, t.to) {
				g.skip(SkipUnseen, r.Call[i].N*t.share)
				continue
			}
			callee, why := g.callee(t.to)
			if why != "" {
				g.skip(why, r.Call[i].N*t.share)
				continue
			}
			e := goEdge{funcOf(frames[0]), frames[0].Line, callee}
			if e.added() {
				g.skip(SkipAdded, r.Call[i].N*t.share)
				continue
			}
			g.addCall(g.at(e), r, i, t)
		}
	}
}

// skip counts a call that is left out, with its executions.
func (g *goWriter) skip(why Reason, executions float64) {
	g.stats.Skipped[why]++
	if executions > 0 {
		g.stats.Dropped[why] += executions
	}
}

// unseen reports whether a call of Low confidence leads from one procedure without
// samples to another, and neither a stack nor a walk shows it. Its frequency is but a guess of how
// often the way there was taken, and the code may never have run: what weight
// such edges had, the compiler's hot set, the edges with 99 % of all weight, would
// be extended by.
func (g *goWriter) unseen(r *infer.Result, i int, to image.Addr) bool {
	callee := g.sites.results[to]
	return r.Call[i].Among <= infer.Low && r.Samples == 0 && (callee == nil || callee.Samples == 0) &&
		!g.sites.shown(pair{r.Proc.Calls[i].Site, to})
}

// addCall adds the executions of one target of a call.
func (g *goWriter) addCall(w *goWeight, r *infer.Result, i int, t target) {
	c, f := &r.Proc.Calls[i], r.Call[i]
	w.indirect = w.indirect || c.To == 0
	w.made += f.N * t.share
	ev := g.sites.seen[pair{c.Site, t.to}]
	to := g.sites.results[t.to]
	shown := g.sites.shown(pair{c.Site, t.to})
	if shown {
		f.N = max(f.N, 1) // it ran, if hardly ever
	}
	switch {
	case f.Within >= infer.Medium:
		w.counted += f.N * t.share
		w.sampled += ev.leaf
	case ev.any > 0 && to != nil && to.Entries.Among >= infer.Medium:
		w.divided += to.Entries.N * ev.any / g.sites.callees[t.to].any
	case f.Among == infer.Low:
		w.flowed += g.doubted(f.N*t.share, shown)
		w.sampled += ev.leaf
	default:
		w.timed += ev.leaf
	}
}

// unshown is how many times less a call of Low confidence weighs if no sample shows
// it. With 1, of five programs sampled at 999 Hz (testdata/goldmark/measure.sh), 1.1 to
// 4.3 times as many calls are hot as with exact counts; with 10, 0.7 to 1.9 times. Their
// instructions fall by 3.5 % with 1, 4.4 % with 10, 3.6 % if calls of Low confidence
// weigh the time of their callees, and 4.8 % with exact counts. All that was without copies.
const unshown = 10

// doubted returns the weight of a call of Low confidence that ran n times, by whether
// anything shows it. Without stacks, samples show no call at all.
func (g *goWriter) doubted(n float64, shown bool) float64 {
	if !shown && len(g.sites.seen) > 0 {
		return n / unshown
	}
	return n
}

// callee returns the function that a call to a reaches. Interface tables of types
// that are not pointers hold wrappers, which the compiler cannot call: the method
// in them is what the source names.
func (g *goWriter) callee(a image.Addr) (f goFunc, why Reason) {
	if !g.isGo(a) {
		return goFunc{}, SkipLang
	}
	if !g.isWrapper(a) {
		fs := g.lines.Frames(a)
		return funcOf(fs[len(fs)-1]), ""
	}
	if f, ok := g.wrapped(a); ok {
		return f, ""
	}
	return goFunc{}, SkipNoCallee
}

// added reports whether the call is not in the source: no other package can name
// what the runtime does not export, but the compiler calls it to allocate, to grow
// slices or to look into maps. It does so after it has decided what to inline; a
// weight would only keep calls of the source out of the hot 99 %. A function of the
// runtime that has another package's name (go:linkname) is one of the runtime's to the compiler,
// which does not know it by that name.
func (e goEdge) added() bool {
	name, ok := strings.CutPrefix(e.callee.name, "runtime.")
	return ok && name != "" && 'a' <= name[0] && name[0] <= 'z' && !strings.HasPrefix(e.caller.name, "runtime.")
}

// isGo reports whether the code at a is the Go compiler's or assembler's: a program with cgo holds C as well, which has no
// edges that the compiler could read, and stubs of the linker. All of Go's code has lines, in stripped programs too.
func (g *goWriter) isGo(a image.Addr) bool {
	switch g.lines.Unit(a).Lang {
	case "", "go", "asm":
		return len(g.lines.Frames(a)) > 0
	}
	return false
}

// isWrapper reports whether the compiler made up the procedure at a.
func (g *goWriter) isWrapper(a image.Addr) bool {
	all, shown := g.lines.Frames(a), g.lines.Traceback(a)
	return len(all) > 0 && (len(shown) == 0 || shown[len(shown)-1] != all[len(all)-1])
}

// wrapped returns the function that the wrapper at a has inlined or calls: the one
// with the wrapper's own name.
func (g *goWriter) wrapped(a image.Addr) (goFunc, bool) {
	if f, ok := g.methods[a]; ok {
		return f, f.name != ""
	}
	f, ok := g.unwrap(a)
	g.methods[a] = f
	return f, ok
}

func (g *goWriter) unwrap(a image.Addr) (goFunc, bool) {
	p, err := g.code.Proc(g.code.Find(a))
	if err != nil {
		return goFunc{}, false
	}
	// The linker's name of an assembler function's wrapper ends in its ABI, that
	// of a method value in -fm.
	name := strings.TrimSuffix(strings.TrimSuffix(p.Name, ".abi0"), "-fm")
	name = name[max(0, strings.LastIndexByte(name, '.')):]
	outermost := func(a image.Addr) (goFunc, bool) {
		fs := g.lines.Traceback(a)
		if len(fs) == 0 || !strings.HasSuffix(fs[len(fs)-1].Func, name) {
			return goFunc{}, false
		}
		return funcOf(fs[len(fs)-1]), true
	}
	for i := range p.Blocks {
		for _, in := range g.code.Insts(&p.Blocks[i]) {
			if f, ok := outermost(in.Addr); ok {
				return f, true
			}
		}
	}
	for _, c := range p.Calls {
		if f, ok := outermost(c.To); ok {
			return f, true
		}
	}
	return goFunc{}, false
}

// weigh puts the evidence for each edge into one unit.
func (g *goWriter) weigh() {
	var executions, samples float64
	keys := g.keys()
	for _, e := range keys {
		if w := g.edges[e]; w.counted+w.flowed > 0 && w.sampled > 0 {
			executions += w.counted + w.flowed
			samples += w.sampled
		}
	}
	g.stats.PerSample = 1
	if samples > 0 {
		g.stats.PerSample = executions / samples
	}
	for _, e := range keys {
		w := g.edges[e]
		w.timed *= g.stats.PerSample
		g.stats.Counted += w.counted
		g.stats.Divided += w.divided
		g.stats.Flowed += w.flowed
		g.stats.Timed += w.timed
	}
}

// maxWeight bounds the sum of the weights, which the compiler keeps in an int64.
const maxWeight = 1 << 62

// scale rounds the weights to integers.
func (g *goWriter) scale() {
	s := &g.stats
	s.Scale = max(1, (s.Counted+s.Divided+s.Flowed+s.Timed)/(maxWeight/(1+copyDepth)))
	for _, w := range g.edges {
		w.n = int64(math.Round((w.counted + w.divided + w.flowed + w.timed) / s.Scale))
	}
}

// fits reports whether a name can be in the profile, and counts those that cannot.
func (g *goWriter) fits(name string) bool {
	if fitsGo(name) {
		return true
	}
	if !g.unfit[name] {
		g.unfit[name] = true
		g.stats.Skipped[SkipName]++
	}
	return false
}

// kept returns the edges that have a weight.
func (g *goWriter) kept() []goEdge {
	s := &g.stats
	var kept []goEdge
	for _, e := range g.keys() {
		w := g.edges[e]
		if w.n == 0 || !g.fits(e.caller.name) || !g.fits(e.callee.name) {
			continue
		}
		kept = append(kept, e)
		if w.copied {
			s.Copies++
			continue
		}
		s.Edges++
		s.Weight += w.n
		if w.inlined {
			s.Inlined++
		}
		if w.indirect {
			s.Indirect++
		}
		s.note(e, w)
	}
	return kept
}

// note adds an edge to Calls.
func (s *GoStats) note(e goEdge, w *goWeight) {
	if s.Calls == nil {
		s.Calls = map[Choice]GoCall{}
	}
	c := Choice{Inline, namedCall{e.caller.name, e.callee.name, e.line - e.caller.start}.site(), e.callee.name}
	call := s.Calls[c]
	call.Inlined, call.Indirect, call.Assembly = call.Inlined || w.inlined, call.Indirect || w.indirect, call.Assembly || strings.HasSuffix(e.callee.file, ".s")
	conf := infer.Low
	if w.counted >= (w.counted+w.divided+w.flowed+w.timed)/2 {
		conf = infer.Medium
	}
	call.Conf = max(call.Conf, conf)
	s.Calls[c] = call
}

func (g *goWriter) keys() []goEdge {
	keys := make([]goEdge, 0, len(g.edges))
	for e := range g.edges {
		keys = append(keys, e)
	}
	slices.SortFunc(keys, compareEdges)
	return keys
}

func compareEdges(a, b goEdge) int {
	return cmp.Or(compareFuncs(a.caller, b.caller), cmp.Compare(a.line, b.line), compareFuncs(a.callee, b.callee))
}

func compareFuncs(a, b goFunc) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.start, b.start), cmp.Compare(a.file, b.file))
}
