package feedback

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// LLVMOptions choose what WriteLLVM writes.
type LLVMOptions struct {
	Image string // path or build ID; "" is every image with lines that clang, rustc or gcc made
}

// LLVMStats say what WriteLLVM wrote.
type LLVMStats struct {
	Images  []sample.ImageID
	Procs   int    // procedures that went into the profile
	Funcs   int    // functions in it: procedures of one name are one function
	Lines   int    // lines with a count, those of inlined bodies included
	Inlined int    // inlined call sites
	Targets int    // targets at calls
	Total   uint64 // sum of the functions' totals: executions of instructions times their bytes
	FS      bool   // some image has flow-sensitive discriminators: compile with -mllvm -profile-isfs
	Skipped Skipped
}

const (
	SkipNoLines    Reason = "procedures without line numbers"
	SkipNoStart    Reason = "instructions of functions whose first line is unknown"
	SkipLang       Reason = "procedures of languages that LLVM does not compile"
	SkipNoInstLine Reason = "instructions without a line"
	SkipImageLines Reason = "images without a line table"
)

// WriteLLVM writes a sample profile in LLVM's text format, for
// -fprofile-sample-use of clang and profile-sample-use of rustc:
//
//	NAME:TOTAL:HEAD
//	 OFFSET[.DISCRIMINATOR]: COUNT [CALLEE:COUNT]...
//	 OFFSET[.DISCRIMINATOR]: INLINED:TOTAL
//	  OFFSET...
//
// An offset is a line relative to that of the function's declaration, modulo
// 2^16. The count of a line is that of the block that ran most often among those
// with one of its instructions, times the duplication factor of unrolled or
// vectorised code: the maximum, never the sum (ProfileGeneratorBase::
// updateBodySamplesforFunctionProfile in LLVM). A total is the executions of all
// instructions, those of inlined bodies included, times their bytes (its
// populateBodySamplesForAllFunctions): clang compares totals with the counts of
// lines to see whether an inlined call was hot, and with totals that leave out the
// bytes, SQLite runs 0.4 % more instructions. A line of code that is known not to
// run has a count of 0; one of which nothing is known is not there.
func WriteLLVM(w io.Writer, p *infer.Profile, rec *sample.Recording, opt LLVMOptions) (LLVMStats, error) {
	l := newLLVMWriter()
	for _, ip := range p.Images {
		if opt.Image != "" && ip.ID.Path != opt.Image && ip.ID.Build.String() != opt.Image {
			continue
		}
		if ip.Image.Go != "" {
			l.stats.Skipped[SkipLang] += len(ip.Procs)
			continue
		}
		ln, err := ip.Image.Lines()
		if err != nil {
			l.stats.Skipped[SkipImageLines]++
			continue
		}
		v := newView(ip, p, rec)
		v.lines = ln
		l.image(v)
	}
	err := l.write(w)
	return l.stats, err
}

// An llvmWriter collects the functions of all images.
type llvmWriter struct {
	funcs map[string]*llvmFunc
	stats LLVMStats
}

func newLLVMWriter() *llvmWriter {
	return &llvmWriter{funcs: map[string]*llvmFunc{}, stats: LLVMStats{Skipped: Skipped{}}}
}

// An llvmFunc is a function, or the body of an inlined call to one.
type llvmFunc struct {
	total   uint64
	head    uint64
	body    map[llvmLine]uint64
	calls   map[llvmLine]map[string]uint64
	inlined map[llvmCall]*llvmFunc
}

func newLLVMFunc() *llvmFunc {
	return &llvmFunc{
		body:    map[llvmLine]uint64{},
		calls:   map[llvmLine]map[string]uint64{},
		inlined: map[llvmCall]*llvmFunc{},
	}
}

// An llvmLine is a place in a function.
type llvmLine struct {
	offset uint16
	disc   uint32
}

// An llvmCall is an inlined call.
type llvmCall struct {
	at     llvmLine
	callee string
}

// image adds the procedures of an image. A procedure and the cold part that was
// split off it are one piece of code: of a line that is in both, the maximum
// counts. Procedures that are copies of one function ran one by one: their counts
// add up.
func (l *llvmWriter) image(v *view) {
	l.stats.Images = append(l.stats.Images, v.ID)
	l.stats.FS = l.stats.FS || v.lines.FSDiscriminators()
	s := newSites(v)
	pieces := map[string]*llvmFunc{}
	names := map[string]string{} // of functions, by piece
	for _, r := range v.Procs {
		name, ok := l.nameOf(v, r)
		if !ok {
			continue
		}
		piece := withoutCold(r.Proc.Name)
		if pieces[piece] == nil {
			pieces[piece] = newLLVMFunc()
			names[piece] = name
		}
		d := llvmDecoder{llvmWriter: l, view: v, sites: s, top: name, prefixed: prefixed(v, r)}
		d.proc(pieces[piece], r)
	}
	for _, piece := range sortedKeys(pieces, cmp.Compare) {
		name := names[piece]
		if l.funcs[name] == nil {
			l.funcs[name] = newLLVMFunc()
		}
		l.funcs[name].add(pieces[piece])
	}
}

// nameOf gives the name of the function that r is code of, or counts why r
// cannot be in the profile.
func (l *llvmWriter) nameOf(v *view, r *infer.Result) (string, bool) {
	if !known(r) {
		l.stats.Skipped[SkipUnknown]++
		return "", false
	}
	if u := v.lines.Unit(r.Proc.Addr); u.Lang == "go" || u.Lang == "asm" {
		l.stats.Skipped[SkipLang]++
		return "", false
	}
	for i := range r.Proc.Blocks {
		if fs := v.lines.Frames(r.Proc.Blocks[i].Start); len(fs) > 0 {
			l.stats.Procs++
			return canonical(fs[len(fs)-1].Func), true
		}
	}
	l.stats.Skipped[SkipNoLines]++
	return "", false
}

// prefixed tells whether the discriminators of r are LLVM's triples. GCC's are
// plain, and so is what clang's passes on machine code have added to.
func prefixed(v *view, r *infer.Result) bool {
	producer := v.lines.Unit(r.Proc.Addr).Producer
	return !v.lines.FSDiscriminators() &&
		(strings.Contains(producer, "clang") || strings.Contains(producer, "rustc") || strings.Contains(producer, "LLVM"))
}

// An llvmDecoder adds the code of one procedure to a function.
type llvmDecoder struct {
	*llvmWriter
	*view
	sites    *sites
	top      string // name of the function
	prefixed bool
}

func (d *llvmDecoder) proc(f *llvmFunc, r *infer.Result) {
	if !isPart(r.Proc.Name) {
		f.head += whole(r.Entries.N)
	}
	for i := range r.Proc.Blocks {
		if r.Block[i].Conf == infer.None {
			continue
		}
		n := whole(r.Block[i].N)
		for _, in := range d.code.Insts(&r.Proc.Blocks[i]) {
			d.inst(f, in, n)
		}
	}
	for i := range r.Proc.Calls {
		d.call(f, r, i)
	}
}

// inst adds n executions of an instruction.
func (d *llvmDecoder) inst(f *llvmFunc, in image.Inst, n uint64) {
	frames := d.lines.Frames(in.Addr)
	if len(frames) == 0 {
		d.stats.Skipped[SkipNoInstLine]++
		return
	}
	f, ok := d.descend(f, frames, n*uint64(in.Len))
	if !ok {
		return
	}
	if frames[0].Line == 0 {
		d.stats.Skipped[SkipNoInstLine]++
		return
	}
	at, copies := d.line(frames[0])
	f.body[at] = max(f.body[at], n*copies)
}

// descend adds n to the totals of f and of the inlined bodies around frames[0],
// and gives the innermost.
func (d *llvmDecoder) descend(f *llvmFunc, frames []image.Frame, n uint64) (*llvmFunc, bool) {
	for _, fr := range frames {
		if fr.StartLine == 0 {
			d.stats.Skipped[SkipNoStart]++
			return nil, false
		}
	}
	f.total += n
	for i := len(frames) - 2; i >= 0; i-- {
		at, _ := d.line(frames[i+1])
		c := llvmCall{at, canonical(frames[i].Func)}
		if f.inlined[c] == nil {
			f.inlined[c] = newLLVMFunc()
		}
		f = f.inlined[c]
		f.total += n
	}
	return f, true
}

// line gives the place of a frame within its function, and how many copies of
// it the compiler has said to have made.
func (d *llvmDecoder) line(f image.Frame) (at llvmLine, copies uint64) {
	at = llvmLine{uint16(f.Line - f.StartLine), f.Disc}
	if !d.prefixed {
		return at, 1
	}
	at.disc = image.BaseDiscriminator(f.Disc)
	return at, uint64(image.DuplicationFactor(f.Disc))
}

// call adds the targets of a call.
func (d *llvmDecoder) call(f *llvmFunc, r *infer.Result, i int) {
	c := r.Proc.Calls[i]
	if whole(r.Call[i].N) == 0 {
		return
	}
	frames := d.lines.Frames(c.Site)
	if len(frames) == 0 || frames[0].Line == 0 {
		return
	}
	targets := d.sites.targets(r, i)
	if len(targets) == 0 && c.To == 0 && c.Target == "" {
		d.stats.Skipped[SkipIndirect]++
	}
	f, ok := d.descend(f, frames, 0)
	if !ok {
		return
	}
	at, _ := d.line(frames[0])
	for _, t := range targets {
		n := whole(r.Call[i].N * t.share)
		sym, ok := d.symbolAt(t.to)
		if !ok || isPart(sym.Name) || n == 0 {
			continue // a jump between two parts of one function
		}
		if f.calls[at] == nil {
			f.calls[at] = map[string]uint64{}
		}
		f.calls[at][canonical(sym.Name)] += n
	}
}

// add adds the counts of o to f.
func (f *llvmFunc) add(o *llvmFunc) {
	f.total += o.total
	f.head += o.head
	for at, n := range o.body {
		f.body[at] += n
	}
	for at, calls := range o.calls {
		if f.calls[at] == nil {
			f.calls[at] = map[string]uint64{}
		}
		for callee, n := range calls {
			f.calls[at][callee] += n
		}
	}
	for c, g := range o.inlined {
		if f.inlined[c] == nil {
			f.inlined[c] = newLLVMFunc()
		}
		f.inlined[c].add(g)
	}
}

// canonical gives the name that a function has in its source's compilation: the
// passes append to it when they copy or split the function. A .__uniq. suffix is
// from the front end and stays.
func canonical(name string) string {
	for {
		cut, ok := cutSuffix(name, ".llvm.", ".part.", ".cold", ".constprop.", ".isra.", ".lto_priv.")
		if !ok {
			return name
		}
		name = cut
	}
}

// withoutCold gives the name of the procedure that a cold part was split off.
func withoutCold(name string) string {
	cut, _ := cutSuffix(name, ".cold")
	return cut
}

// isPart tells whether the symbol is a part of a function that is not entered by
// calls of that function.
func isPart(name string) bool {
	return strings.Contains(name, ".cold") || strings.Contains(name, ".part.")
}

// cutSuffix removes the last suffix of name if it is one of those given,
// followed by nothing or a number.
func cutSuffix(name string, suffixes ...string) (string, bool) {
	for _, suffix := range suffixes {
		i := strings.LastIndex(name, suffix)
		if i <= 0 {
			continue
		}
		if rest := strings.TrimPrefix(name[i+len(suffix):], "."); strings.Trim(rest, "0123456789") == "" {
			return name[:i], true
		}
	}
	return name, false
}

// write writes the functions as llvm-profdata does: the largest total first.
func (l *llvmWriter) write(w io.Writer) error {
	names := sortedKeys(l.funcs, cmp.Compare)
	names = slices.DeleteFunc(names, func(name string) bool {
		f := l.funcs[name]
		return len(f.body) == 0 && len(f.inlined) == 0
	})
	if len(names) == 0 {
		return fmt.Errorf("llvm: no function has both counts and lines%s: %w", l.stats.Skipped, ErrEmpty)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(l.funcs[b].total, l.funcs[a].total) })
	bw := bufio.NewWriter(w)
	for _, name := range names {
		f := l.funcs[name]
		l.stats.Funcs++
		l.stats.Total += f.total
		fmt.Fprintf(bw, "%s:%d:%d\n", name, f.total, f.head)
		l.body(bw, f, 1)
	}
	return bw.Flush()
}

// body writes the lines of f, indented by depth, then its inlined calls.
func (l *llvmWriter) body(w *bufio.Writer, f *llvmFunc, depth int) {
	lines := sortedKeys(f.body, compareLines)
	for at := range f.calls {
		if _, ok := f.body[at]; !ok {
			lines = append(lines, at) // a call in a block of which nothing is known
		}
	}
	slices.SortFunc(lines, compareLines)
	for _, at := range lines {
		l.stats.Lines++
		fmt.Fprintf(w, "%*s%v: %d", depth, "", at, f.body[at])
		calls := f.calls[at]
		callees := sortedKeys(calls, cmp.Compare)
		slices.SortStableFunc(callees, func(a, b string) int { return cmp.Compare(calls[b], calls[a]) })
		for _, callee := range callees {
			l.stats.Targets++
			fmt.Fprintf(w, " %s:%d", callee, calls[callee])
		}
		fmt.Fprintln(w)
	}
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		l.stats.Inlined++
		fmt.Fprintf(w, "%*s%v: %s:%d\n", depth, "", c.at, c.callee, f.inlined[c].total)
		l.body(w, f.inlined[c], depth+1)
	}
}

func (at llvmLine) String() string {
	if at.disc == 0 {
		return fmt.Sprint(at.offset)
	}
	return fmt.Sprintf("%d.%d", at.offset, at.disc)
}

func compareLines(a, b llvmLine) int {
	return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.disc, b.disc))
}

func compareCalls(a, b llvmCall) int {
	return cmp.Or(compareLines(a.at, b.at), cmp.Compare(a.callee, b.callee))
}
