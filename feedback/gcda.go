package feedback

import (
	"cmp"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"backfeed/feedback/gcov"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// GCDAOptions choose what GCDA makes.
type GCDAOptions struct {
	Image string // path or build ID; "" is the image with the most samples that gcc made
}

// GCDAStats say what GCDA made.
type GCDAStats struct {
	Image     sample.ImageID
	Version   gcov.Version // of the notes
	Funcs     int          // functions with counts
	Unsampled int          // of them, those of whose lines no block had a sample: only what others ran tells of them
	Functions int          // functions of the notes
	Arcs      int          // counters that are not 0
	Skipped   Skipped

	// Instructions that were executed, inferred: of what Skipped counts, and of the image in all.
	Dropped  map[Reason]float64
	Executed float64
}

const SkipNoNotes Reason = "instructions whose lines no notes have"

// GCDA makes counters of arcs, as gcc's -fprofile-use reads them, for the functions of notes: one Data for each of notes, in
// order, with the functions of which something is known.
//
// gcc profiles a function's own flow graph, which notes have with the lines of its blocks. The code that became of it is a
// procedure, or stands wherever the function was inlined later: each of these copies says how often lines ran. Lines that one block
// alone has tell of it; of others, the blocks of the graph are assigned to the calls that were inlined into it (see placed), and to the
// blocks of the code so that flow agrees. Then infer.Fit finds the executions of all arcs of a copy, none where hardly any were seen if gotos are computed,
// and those of all copies add up. How often a copy that was inlined later was entered tells how often its call was made, where lines
// do not (see told).
//
// Functions that gcc inlined before it profiles have no graph of their own: their lines are in the graphs of their callers.
func GCDA(p *infer.Profile, notes []*gcov.Notes, opt GCDAOptions) ([]*gcov.Data, GCDAStats, error) {
	v, err := viewForGCC(p, nil, opt.Image, "gcda")
	if err != nil {
		return nil, GCDAStats{}, err
	}
	return gcda(v, notes, p.ColdBelow)
}

func gcda(v *view, notes []*gcov.Notes, cold float64) ([]*gcov.Data, GCDAStats, error) {
	a := newArchive(notes)
	a.cold = cold
	a.of(v.Procs)
	for _, r := range v.Procs {
		a.sees(v, r)
	}
	for _, r := range v.Procs {
		a.proc(v, r)
	}
	st := GCDAStats{Image: v.ID}
	data := make([]*gcov.Data, len(notes))
	for i, n := range notes {
		data[i] = gcov.NewData(n)
		st.Version = n.Version
	}
	all := a.flows()
	for i, c := range a.charts {
		st.Functions++
		flows := all[i]
		if flows == nil {
			continue
		}
		whole, err := c.fn.Round(flows)
		if err == nil && !slices.ContainsFunc(whole, func(n int64) bool { return n != 0 }) {
			continue // gcc would make it small, with memset byte by byte, as one that never runs
		}
		if err == nil {
			err = data[c.notes].Add(c.fn, whole)
		}
		if err != nil {
			return nil, GCDAStats{}, err
		}
		st.Funcs++
		if !c.sampled {
			st.Unsampled++
		}
		for _, n := range whole {
			if n != 0 {
				st.Arcs++
			}
		}
	}
	most := uint64(0)
	for _, d := range data {
		most = max(most, d.Max)
	}
	for _, d := range data {
		d.Max = most
	}
	st.Skipped, st.Dropped, st.Executed = a.skipped, a.dropped, a.all
	if st.Funcs == 0 {
		return nil, st, st.Skipped.empty("gcda: %s: no function of the notes has lines that ran", v.ID)
	}
	return data, st, nil
}

// An archive has the graphs of all notes.
type archive struct {
	remainder
	charts []*chart
	named  map[objectFunction][]*chart
	own    map[objectFunction][]*chart    // those with a mangled name, by image.OwnName: gcc's DWARF has no other of what is not linked
	owns   map[string]string              // image.OwnName, by what was asked
	wrote  map[string]map[sourceLine]bool // lines of functions, by Frame.Func, that the code has
	does   map[string]bool                // functions that do more than call others that are inlined
	early  map[inlinedIn]bool             // what inlined has found
	from   map[image.Addr][]inflow        // of blocks of code: what control comes from in their procedure
	cold   float64                        // executions: blocks that have no more are taken for such as never ran
}

// An inflow is how often control came from a block of code.
type inflow struct {
	block image.Addr
	n     float64 // executions
}

// An inlinedIn is a function that may have been inlined into that of a chart before notes were made.
type inlinedIn struct {
	fn string // Frame.Func
	in *chart
}

// An objectFunction is what functions of objects are called; object is the name of the file without what follows the first dot, or "" for all
// objects.
type objectFunction struct{ object, name string }

// A chart is the graph of a function, and what copies of its code say of it.
type chart struct {
	notes  int
	fn     *gcov.Function
	blocks map[sourceLine][]int // those that have a line, in order
	calls  map[sourceLine][]int // those that end in a call of the line
	lines  []blockLine          // of all blocks, in order
	copies map[string]*copyOf

	sampled bool // some block with a line of it has samples

	discs []uint32 // discriminators of blocks, as far as notes tell
	ins   [][]int  // what control comes from to blocks, see leadTo

	first, last int // of those lines that are between the function's own first and last
}

// braces reports whether a line is one on which the function begins or ends, before or behind all that its blocks have between: of what is
// done there, saving registers and returning, executions are those of the function.
func (c *chart) braces(at sourceLine) bool {
	return at.file == filepath.Base(c.fn.Source) && c.fn.StartLine <= at.line && at.line <= c.fn.EndLine && (at.line < c.first || c.last < at.line)
}

// A sourceLine is a line of a file, by the last element of its path: that of the notes is as the compiler was given it.
type sourceLine struct {
	file string
	line int
}

// A blockLine is a line of a block of a graph.
type blockLine struct {
	block int
	line  sourceLine
}

// A copyOf is code of a function in one place: out of line, or inlined into others.
type copyOf struct {
	at     map[position]map[image.Addr]float64  // executions of the blocks of code that have the line
	does   map[position]map[image.Addr]bool     // blocks in which an instruction of the line does more than fetch a value
	acts   map[position]map[image.Addr]bool     // blocks in which an instruction of the line does more than go on elsewhere
	stays  map[position]map[image.Addr]bool     // blocks in which an instruction of the line stores or calls
	chosen map[position]map[image.Addr]float64  // executions of the blocks in which an instruction of the line chooses
	holds  map[image.Addr]map[position]bool     // places that blocks have
	discs  map[position]map[image.Addr][]uint32 // the discriminators that the line has in these blocks
	paths  map[position][]int                   // of these and of the calls around: the lines of calls, outermost first, and the line
	calls  map[position]map[string]float64      // executions of calls, by the name of what is called
	sites  map[sourceLine]bool                  // of calls that were inlined after notes were made
	made   map[madeCall]float64                 // how often these were made, as far as they are in calls
	enters float64                              // how often control came to the code, if that is out of line; -1 where that is not known

	// Of one that was inlined into others after notes were made: what is called there, where that is in these, and how deep they are.
	name    string
	site    position
	callers []caller
	depth   int
}

// A madeCall is the call of a function that was inlined after notes were made.
type madeCall struct {
	site position
	name string
}

// A caller is a copy into which others were inlined, and the graph that it is counted in.
type caller struct {
	*chart
	*copyOf
}

// told reports whether lines say how often a call was made there. Its own does if the code has something of it, unless several blocks have that
// line, and that of the call no other.
func (c caller) told(site position) bool {
	calls := c.chart.calls[site.line]
	return len(c.at[site]) > 0 && (len(calls) != 1 || len(c.blocks[site.line]) == 1 ||
		slices.ContainsFunc(c.lines, func(l blockLine) bool { return l.block == calls[0] && l.line != site.line }))
}

func newCopy() *copyOf {
	return &copyOf{at: map[position]map[image.Addr]float64{}, does: map[position]map[image.Addr]bool{}, stays: map[position]map[image.Addr]bool{}, acts: map[position]map[image.Addr]bool{}, chosen: map[position]map[image.Addr]float64{},
		discs: map[position]map[image.Addr][]uint32{}, holds: map[image.Addr]map[position]bool{}, paths: map[position][]int{}, calls: map[position]map[string]float64{}, sites: map[sourceLine]bool{}, made: map[madeCall]float64{}, enters: -1}
}

// called adds n executions of a call.
func (of *copyOf) called(at position, name string, n float64) {
	if of.calls[at] == nil {
		of.calls[at] = map[string]float64{}
	}
	of.calls[at][name] += n
}

// callsOf returns executions of the calls of a line. A call that is in the code several times is one of several copies of that; of
// calls of several functions, as arguments of one another, it is that which ran most.
func (of *copyOf) callsOf(at position) float64 {
	most := 0.0
	for _, n := range of.calls[at] {
		most = max(most, n)
	}
	return most
}

// A position is a line of a copy's function, or of a call that was inlined into that before notes were made.
type position struct {
	line   sourceLine
	within string // the lines of the calls
}

// replaced reports whether some block has of a line nothing but a choice. A branch was made into it, and how often its side ran, nobody
// knows: what else has the line is there for another, as where gcc computes a sum that several sides need in each of them, by the
// line of one.
func (of *copyOf) replaced(at position) bool { return of.choices(at) >= 0 }

// choices returns the most executions of a block that has of a line nothing but a choice; -1 if there is none.
func (of *copyOf) choices(at position) float64 {
	most := -1.0
	for b, n := range of.chosen[at] {
		if _, more := of.at[at][b]; !more {
			most = max(most, n)
		}
	}
	return most
}

func newArchive(notes []*gcov.Notes) *archive {
	a := &archive{remainder: newRemainder(), named: map[objectFunction][]*chart{}, own: map[objectFunction][]*chart{}, owns: map[string]string{},
		from: map[image.Addr][]inflow{}, wrote: map[string]map[sourceLine]bool{}, does: map[string]bool{}, early: map[inlinedIn]bool{}}
	for i, n := range notes {
		for k := range n.Functions {
			c := &chart{notes: i, fn: &n.Functions[k], blocks: map[sourceLine][]int{}, calls: map[sourceLine][]int{}, copies: map[string]*copyOf{}, first: math.MaxInt}
			source := filepath.Base(c.fn.Source)
			for b, lines := range c.fn.Lines {
				for _, l := range lines {
					at := sourceLine{filepath.Base(l.File), l.Line}
					c.lines = append(c.lines, blockLine{b, at})
					if at.file == source && c.fn.StartLine < at.line && at.line < c.fn.EndLine {
						c.first, c.last = min(c.first, at.line), max(c.last, at.line)
					}
					if of := c.blocks[at]; len(of) == 0 || of[len(of)-1] != b {
						c.blocks[at] = append(of, b)
					}
				}
			}
			c.discriminate()
			for _, arc := range c.fn.Arcs {
				if lines := c.fn.Lines[arc.From]; arc.MayEnd() && len(lines) > 0 {
					last := lines[len(lines)-1]
					at := sourceLine{filepath.Base(last.File), last.Line}
					c.calls[at] = append(c.calls[at], arc.From)
				}
			}
			a.charts = append(a.charts, c)
			name := image.SourceName(c.fn.Name)
			own := image.OwnName(name)
			for _, object := range []string{stem(n.Path), ""} {
				of := objectFunction{object, name}
				a.named[of] = append(a.named[of], c)
				if own != name {
					of.name = own
					a.own[of] = append(a.own[of], c)
				}
			}
		}
	}
	return a
}

// discriminate numbers blocks as gcc does when it has made the graph, before it changed it (assign_discriminators in tree-cfg.cc): where control goes on to a
// block that begins or ends on the line that it is on, that block gets the next number of the line.
func (c *chart) discriminate() {
	c.discs = make([]uint32, c.fn.Blocks)
	last := map[gcov.Line]uint32{}
	for _, a := range c.fn.Arcs {
		from, to := c.fn.Lines[a.From], c.fn.Lines[a.To]
		if len(from) == 0 || len(to) == 0 || a.Flags&gcov.Fake != 0 {
			continue
		}
		line := from[len(from)-1]
		if to[0] != line && to[len(to)-1] != line {
			continue
		}
		last[line]++
		if c.discs[a.To] != 0 && c.discs[a.From] == 0 {
			c.discs[a.From] = last[line]
		} else {
			c.discs[a.To] = last[line]
		}
	}
}

// stem is the name of a file without what follows the first dot.
func stem(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return name
}

// sees adds the lines that the code of a procedure has of functions.
func (a *archive) sees(v *view, r *infer.Result) {
	for i := range r.Proc.Blocks {
		for _, in := range v.code.Insts(&r.Proc.Blocks[i]) {
			for k, f := range framesOf(v, in.Addr) {
				if a.wrote[f.Func] == nil {
					a.wrote[f.Func] = map[sourceLine]bool{}
				}
				a.wrote[f.Func][sourceLine{filepath.Base(f.File), f.Line}] = true
				if k == 0 {
					a.does[f.Func] = true
				}
			}
		}
	}
}

// inlined reports whether some functions were inlined into that of a chart before notes were made: its graph has lines of each. Of one that
// does nothing but call what is inlined there, notes may have no line; nor do they have a graph of it, if it was inlined wherever it is called.
func (a *archive) inlined(object string, frames []image.Frame, c *chart) bool {
	for _, f := range frames {
		at := inlinedIn{f.Func, c}
		early, ok := a.early[at]
		if !ok {
			early = !a.does[f.Func] && len(a.graphs(object, image.SourceName(f.Func), func(*chart) bool { return true })) == 0
			for line := range a.wrote[f.Func] {
				early = early || len(c.blocks[line]) > 0
			}
			a.early[at] = early
		}
		if !early {
			return false
		}
	}
	return true
}

// proc adds what is known of a procedure.
func (a *archive) proc(v *view, r *infer.Result) {
	if !known(r) {
		a.skip(SkipUnknown, r.Instructions())
		return
	}
	unit := v.lines.Unit(r.Proc.Addr)
	why := foreign(unit, gccMade)
	if unit == (image.Unit{}) {
		why = SkipNoLines
	}
	if why != "" {
		a.skip(why, r.Instructions())
		return
	}
	object, piece := stem(unit.Name), withoutCold(r.Proc.Name)
	for i, e := range r.Proc.Edges {
		if i < len(r.Edge) && r.Edge[i].N > 0 && e.Kind != image.Indirect { // notes do not say where computed gotos lead
			to := r.Proc.Blocks[e.To].Start
			a.from[to] = append(a.from[to], inflow{r.Proc.Blocks[e.From].Start, r.Edge[i].N})
		}
	}
	for i := range r.Proc.Calls {
		a.call(v, r, &r.Proc.Calls[i], object, piece)
	}
	for i := range r.Proc.Blocks {
		if r.Block[i].Conf == infer.None {
			continue
		}
		b, sampled := &r.Proc.Blocks[i], len(r.BlockSamples) > 0 && r.BlockSamples[i] > 0
		insts := v.code.Insts(b)
		chose := image.Frame{} // where the instruction before is from, if it chooses
		for k, in := range insts {
			frames := framesOf(v, in.Addr)
			before := chose
			chose = image.Frame{}
			if chooses(v.code, insts[k:]) { // whether the line of an assignment ran, nobody knows
				if in.Class&image.Compare == 0 && len(frames) > 0 {
					chose = frames[0]
					a.choice(object, piece, frames, b.Start, r.Block[i].N)
				}
				continue
			}
			if in.Class&image.Jump != 0 && len(frames) > 0 && frames[0].Line != 0 && frames[0] == before {
				continue // a jump behind it has its line
			}
			if len(frames) == 0 || frames[0].Line == 0 {
				a.skip(SkipNoInstLine, r.Block[i].N)
				continue
			}
			if !a.inst(object, piece, frames, b.Start, r.Block[i].N, sampled, deedOf(v.code, r.Proc, in)) && !a.braces(object, frames[0]) {
				a.skip(SkipNoNotes, r.Block[i].N)
			}
		}
	}
	a.entered(v, r, object, piece)
}

// entered adds how often a procedure was entered, of a function that has code of its own in it.
func (a *archive) entered(v *view, r *infer.Result, object, piece string) {
	frames := framesOf(v, r.Proc.Addr)
	if len(frames) == 0 || r.Entries.Conf == infer.None || isPart(r.Proc.Name) {
		return
	}
	for _, c := range a.graphs(object, image.SourceName(frames[len(frames)-1].Func), func(c *chart) bool { return c.copies[piece] != nil }) {
		c.copies[piece].enters = r.Entries.N
	}
}

// framesOf returns the frames of an instruction. A part that gcc split off a function and put back is of a call that the source does not have: on the
// line where the function begins, to itself.
func framesOf(v *view, at image.Addr) []image.Frame {
	frames := v.lines.Frames(at)
	back := func(around, f image.Frame) bool {
		return f.Func == around.Func && around.Line == around.StartLine && around.Line != 0
	}
	for k := 1; k < len(frames); k++ {
		if back(frames[k], frames[k-1]) {
			return slices.CompactFunc(slices.Clone(frames), back)
		}
	}
	return frames
}

// braces reports whether an instruction is of a line on which its function begins or ends.
func (a *archive) braces(object string, f image.Frame) bool {
	at := sourceLine{filepath.Base(f.File), f.Line}
	return len(a.graphs(object, image.SourceName(f.Func), func(c *chart) bool { return c.braces(at) })) > 0
}

// fetches reports whether an instruction does nothing but bring a value into a register. Compilers have what several lines need fetched once, by
// the line of one of them, before the branch that they follow.
func fetches(c code, in image.Inst) bool {
	if in.Class&(image.Store|image.Jump|image.DirCall|image.IndCall) != 0 {
		return false
	}
	switch c.Operands(in).Op {
	case image.OpNone, image.OpMove, image.OpVectorMove:
		return true
	}
	return false
}

// stays reports whether an instruction has to be where its line is executed: what it stores or calls is seen by others. Values are
// computed before, if several lines need them, in a block by the line of one of them.
func stays(in image.Inst) bool { return in.Class&(image.Store|image.DirCall|image.IndCall) != 0 }

// goesOn reports whether an instruction of a procedure does nothing but have control go on elsewhere in it.
func goesOn(p *image.Proc, in image.Inst) bool {
	return in.Class&image.Jump != 0 && p.Addr <= in.Target && in.Target < p.Addr+image.Addr(p.Size)
}

// A deed is what an instruction does of its line: see fetches, stays and goesOn.
type deed struct{ fetches, stays, goesOn bool }

func deedOf(c code, p *image.Proc, in image.Inst) deed {
	return deed{fetches: fetches(c, in), stays: stays(in), goesOn: goesOn(p, in)}
}

// inst adds that an instruction of a block of an object's code ran n times, whether that block has samples, and what the instruction does.
func (a *archive) inst(object, piece string, frames []image.Frame, block image.Addr, n float64, sampled bool, d deed) bool {
	at, of := a.copiesOf(object, piece, frames)
	for _, c := range of {
		if !d.goesOn {
			mark(c.acts, at, block)
		}
		if c.at[at] == nil {
			c.at[at] = map[image.Addr]float64{}
		}
		c.at[at][block] = n
		c.discerned(at, block, frames[0].Disc)
		c.hold(at, block)
		c.sampled = c.sampled || sampled
		if !d.fetches {
			mark(c.does, at, block)
		}
		if d.stays {
			mark(c.stays, at, block)
		}
	}
	return len(of) > 0
}

// hold adds that a block has a place, and the call of that if it was inlined later.
func (of *copyOf) hold(at position, block image.Addr) {
	if of.holds[block] == nil {
		of.holds[block] = map[position]bool{}
	}
	if of.holds[block][at] {
		return
	}
	of.holds[block][at] = true
	for _, c := range of.callers {
		c.hold(of.site, block)
	}
}

// discerned adds a discriminator that a place has in a block.
func (of *copyOf) discerned(at position, block image.Addr, disc uint32) {
	if of.discs[at] == nil {
		of.discs[at] = map[image.Addr][]uint32{}
	}
	if has := of.discs[at][block]; !slices.Contains(has, disc) {
		of.discs[at][block] = append(has, disc)
	}
}

// discerns reports whether lines have discriminators, which get lost where code is made when all is linked.
func (of *copyOf) discerns() bool {
	for _, blocks := range of.discs {
		for _, discs := range blocks {
			if slices.Max(discs) > 0 {
				return true
			}
		}
	}
	return false
}

// byDiscriminator returns the counts of some blocks of a place by its discriminators, in their order: of each, the largest. Where all have the same, it
// is the counts as they are, without discriminators.
func (of *copyOf) byDiscriminator(at position, some []image.Addr, counts []float64) (by []float64, discs []uint32) {
	most := map[uint32]float64{}
	for i, k := range some {
		for _, d := range of.discs[at][k] {
			most[d] = max(most[d], counts[i])
		}
	}
	if len(most) < 2 {
		return counts, nil
	}
	for _, d := range sortedKeys(most, cmp.Compare) {
		by, discs = append(by, most[d]), append(discs, d)
	}
	return by, discs
}

// mark adds a block to those of a place.
func mark(blocks map[position]map[image.Addr]bool, at position, block image.Addr) {
	if blocks[at] == nil {
		blocks[at] = map[image.Addr]bool{}
	}
	blocks[at][block] = true
}

// choice adds that an instruction of a block of an object's code, which ran n times, chooses.
func (a *archive) choice(object, piece string, frames []image.Frame, block image.Addr, n float64) {
	at, of := a.copiesOf(object, piece, frames)
	for _, c := range of {
		if c.chosen[at] == nil {
			c.chosen[at] = map[image.Addr]float64{}
		}
		c.chosen[at][block] = n
	}
}

// call adds a call instruction of an object's code.
func (a *archive) call(v *view, r *infer.Result, call *image.Call, object, piece string) {
	frames := framesOf(v, call.Site)
	if r.Block[call.Block].Conf == infer.None || call.Cond || len(frames) == 0 || frames[0].Line == 0 || ownPart(call.Target, frames[0].Func) {
		return
	}
	at, of := a.copiesOf(object, piece, frames)
	for _, c := range of {
		c.called(at, call.Target, r.Block[call.Block].N)
	}
}

// ownPart reports whether a symbol is a part of a function that gcc split: its source has no call of that.
func ownPart(symbol, function string) bool {
	for _, part := range []string{".cold", ".part."} {
		if whole, _, ok := strings.Cut(symbol, part); ok {
			return image.SourceName(whole) == image.SourceName(function)
		}
	}
	return false
}

// copiesOf returns the place of an instruction, and the copies that it belongs to.
func (a *archive) copiesOf(object, piece string, frames []image.Frame) (at position, copies []caller) {
	at.line = sourceLine{filepath.Base(frames[0].File), frames[0].Line}
	of, k := a.owners(object, frames, at.line)
	if len(of) == 0 {
		return at, nil
	}
	key := piece
	for _, f := range frames[k+1:] {
		key += "\x00" + f.Func + "\x00" + strconv.Itoa(f.Line)
	}
	at.within = callLines(frames[1 : k+1])
	for _, c := range of {
		if c.copies[key] == nil {
			made := newCopy()
			if c.copies[key] = made; k+1 < len(frames) {
				made.name, made.depth = frames[k].Func, len(frames)-1-k
				made.site, made.callers = a.copiesOf(object, piece, frames[k+1:]) // the line of the call is a place of its own
				for _, c := range made.callers {
					c.sites[made.site.line] = true
				}
			}
		}
		c.copies[key].path(at, frames[:k+1])
		copies = append(copies, caller{c, c.copies[key]})
	}
	return at, copies
}

// owners returns the graphs that an instruction is counted in, and which of its frames they are of: the outermost that has its line, and
// lines of all functions that are inlined there. Where none has, as where these left nothing but that line, it is the outermost
// that has its line.
func (a *archive) owners(object string, frames []image.Frame, at sourceLine) (of []*chart, frame int) {
	has := func(c *chart) bool { return len(c.blocks[at]) > 0 }
	for k, f := range slices.Backward(frames) {
		some := a.graphs(object, image.SourceName(f.Func), has)
		if len(of) == 0 {
			of, frame = some, k
		}
		some = slices.DeleteFunc(slices.Clone(some), func(c *chart) bool { return !a.inlined(object, frames[:k], c) })
		if len(some) > 0 {
			return some, k
		}
	}
	return of, frame
}

// callLines is position.within of calls, the innermost first.
func callLines(frames []image.Frame) string {
	within := ""
	for _, f := range frames {
		within += " " + strconv.Itoa(f.Line)
	}
	return within
}

// path adds the paths of a place and of the calls around it.
func (of *copyOf) path(at position, frames []image.Frame) {
	if of.paths[at] != nil {
		return
	}
	for _, f := range slices.Backward(frames) {
		of.paths[at] = append(of.paths[at], f.Line)
	}
	for k := 1; k < len(frames); k++ {
		call := position{sourceLine{filepath.Base(frames[k].File), frames[k].Line}, callLines(frames[k+1:])}
		if of.paths[call] != nil {
			break
		}
		of.paths[call] = of.paths[at][:len(frames)-k]
	}
}

// graphs returns the graphs of the functions of a name that are what is asked for: those of the object itself, if there are any.
func (a *archive) graphs(object, name string, are func(*chart) bool) []*chart {
	of := graphsIn(a.named, object, name, are)
	if len(of) == 0 {
		of = graphsIn(a.own, object, a.ownName(name), are)
	}
	return of
}

// ownName is image.OwnName, which is asked for at each instruction of a function without a graph.
func (a *archive) ownName(name string) string {
	own, ok := a.owns[name]
	if !ok {
		own = image.OwnName(name)
		a.owns[name] = own
	}
	return own
}

func graphsIn(named map[objectFunction][]*chart, object, name string, are func(*chart) bool) []*chart {
	for _, where := range []string{object, ""} {
		var of []*chart
		for _, c := range named[objectFunction{where, name}] {
			if are(c) {
				of = append(of, c)
			}
		}
		if len(of) > 0 {
			return of
		}
	}
	return nil
}

// flows returns executions of all arcs of each chart, of all copies together; nil of one of whose copies nothing is known. What was inlined
// comes before what it was inlined into: how often it was entered tells how often the call was made.
func (a *archive) flows() [][]float64 {
	type fit struct {
		chart int
		of    *copyOf
		by    float64
	}
	var fits []fit
	graphs, sums := make([]*infer.Graph, len(a.charts)), make([][]float64, len(a.charts))
	for i, c := range a.charts {
		if len(c.copies) == 0 {
			continue
		}
		if graphs[i] = infer.NewGraph(c.fn.Blocks, c.edges()); graphs[i] == nil {
			continue
		}
		sums[i] = make([]float64, len(c.fn.Arcs))
		most, rest, by := c.heaviest()
		for _, of := range most {
			fits = append(fits, fit{i, of, by})
		}
		for _, of := range rest {
			of.enter(of.busiest())
		}
	}
	slices.SortStableFunc(fits, func(a, b fit) int { return cmp.Compare(b.of.depth, a.of.depth) })
	for _, f := range fits {
		arcs, entered, ok := a.charts[f.chart].fit(graphs[f.chart], f.of, a.from, a.cold)
		for i, n := range arcs {
			sums[f.chart][i] += n * f.by
		}
		if ok {
			f.of.enter(entered)
		}
	}
	return sums
}

// enter says how often a copy that was inlined later was entered: the call was made as often, if no line tells of that. Where several graphs are
// of the name that the code has, there is a copy in each, of the same code.
func (of *copyOf) enter(n float64) {
	call := madeCall{of.site, of.name}
	for _, c := range of.callers {
		if !c.told(of.site) {
			c.called(of.site, of.name, max(0, n-c.made[call]))
			c.made[call] = max(c.made[call], n)
		}
	}
}

// What control is guessed to divide by, where nothing tells: of two sides of a branch, how often one runs for each time that the other does.
// A side without a line leaves a value as it is, as of x ? y : 0, which gcc makes no branch of: where it follows if the condition is false, most of
// gcc's own counters have it run more often. It costs less to be wrong so, too: gcc goes straight on through it, where it would lay
// a side that runs as often as not elsewhere, and jump there and back. A side of whose lines the code has none, or only beside a choice, was
// mostly never to run, as behind a condition that a call's arguments decide; or it became a choice, and gcc takes what it tests for to be so
// less often than not.
const emptySide, absentSide = 3, 0.33

// edges returns the arcs for infer.
func (c *chart) edges() []infer.GraphEdge {
	edges := make([]infer.GraphEdge, len(c.fn.Arcs))
	outs, ins := make([][]int, c.fn.Blocks), make([]int, c.fn.Blocks)
	for i, a := range c.fn.Arcs {
		outs[a.From] = append(outs[a.From], i)
		ins[a.To]++
	}
	for i, a := range c.fn.Arcs {
		edges[i] = infer.GraphEdge{From: a.From, To: a.To, Unlikely: a.MayEnd() && len(outs[a.From]) > 1}
	}
	wrote, called := map[sourceLine]bool{}, map[sourceLine]bool{}
	for _, of := range c.copies {
		for at := range of.calls {
			called[at.line] = true
		}
		maps.Copy(called, of.sites)
		for at, blocks := range of.at {
			for k := range blocks { // a choice is in place of some lines
				_, chosen := of.chosen[at][k]
				wrote[at.line] = wrote[at.line] || !chosen
			}
		}
		maps.Copy(wrote, of.sites)
	}
	lines, code := make([]bool, c.fn.Blocks), make([]bool, c.fn.Blocks)
	for _, l := range c.lines {
		lines[l.block] = true
		code[l.block] = code[l.block] || wrote[l.line]
	}
	gone := make([]bool, c.fn.Blocks) // their call is not in the code
	for line, blocks := range c.calls {
		for _, b := range blocks {
			gone[b] = !called[line]
		}
	}
	for _, sides := range outs {
		sides = slices.DeleteFunc(sides, func(i int) bool { return c.fn.Arcs[i].Flags&gcov.Fake != 0 })
		if len(sides) != 2 {
			continue
		}
		for k, i := range sides { // the first is of a condition that is true
			b, other := edges[i].To, edges[sides[1-k]].To
			switch {
			case ins[b] > 1:
			case k == 1 && !lines[b] && ins[other] > 1:
				edges[i].Share = emptySide
			case lines[b] && !code[b] && code[other], gone[b] && !gone[other]:
				edges[i].Share = absentSide
			}
		}
	}
	return edges
}

// copiesShare is how much of a function's executions is enough, mostCopies how many copies of it are, and mostBlocks how many blocks of
// all copies together: BenchmarkGCDA searches in 3,000 for half a second.
const copiesShare, mostCopies, mostBlocks = 0.99, 64, 20000

// heaviest returns the copies that ran most, the rest of them, and by how much all together ran more often than the first.
func (c *chart) heaviest() (most, rest []*copyOf, by float64) {
	all, ran := 0.0, map[string]float64{}
	for key, of := range c.copies {
		for _, at := range sortedKeys(of.at, comparePositions) {
			for _, b := range sortedKeys(of.at[at], cmp.Compare) {
				ran[key] += of.at[at][b]
			}
		}
	}
	keys := sortedKeys(c.copies, func(a, b string) int { return cmp.Or(cmp.Compare(ran[b], ran[a]), cmp.Compare(a, b)) })
	for _, key := range keys {
		all += ran[key]
	}
	some := 0.0
	for i, key := range keys {
		if i >= mostCopies || i > 0 && (i+1)*c.fn.Blocks > mostBlocks || some > copiesShare*all {
			rest = append(rest, c.copies[key])
			continue
		}
		most, some = append(most, c.copies[key]), some+ran[key]
	}
	if some == 0 {
		return most, rest, 1
	}
	return most, rest, all / some
}

// busiest returns how often the block of a copy's code ran that ran most.
func (of *copyOf) busiest() float64 {
	most := 0.0
	for _, blocks := range of.at {
		for _, n := range blocks {
			most = max(most, n)
		}
	}
	return most
}
