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
	*tree
	stats LLVMStats
}

func newLLVMWriter() *llvmWriter {
	t := newTree()
	return &llvmWriter{tree: t, stats: LLVMStats{Skipped: t.skipped}}
}

// image adds the procedures of an image.
func (l *llvmWriter) image(v *view) {
	l.stats.Images = append(l.stats.Images, v.ID)
	l.stats.FS = l.stats.FS || v.lines.FSDiscriminators()
	l.tree.image(v, llvmDialect)
	l.stats.Procs = l.procs
}

var llvmDialect = dialect{
	made:          func(u image.Unit) bool { return u.Lang != "go" && u.Lang != "asm" },
	name:          canonical,
	discriminator: llvmDiscriminator,
}

// llvmDiscriminator takes LLVM's triples apart. GCC's discriminators are plain,
// and so is what clang's passes on machine code have added to.
func llvmDiscriminator(v *view, u image.Unit) func(uint32) (uint32, uint64) {
	isLLVM := strings.Contains(u.Producer, "clang") || strings.Contains(u.Producer, "rustc") || strings.Contains(u.Producer, "LLVM")
	if v.lines.FSDiscriminators() || !isLLVM {
		return func(raw uint32) (uint32, uint64) { return raw, 1 }
	}
	return func(raw uint32) (uint32, uint64) {
		return image.BaseDiscriminator(raw), uint64(image.DuplicationFactor(raw))
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
func (l *llvmWriter) body(w *bufio.Writer, f *function, depth int) {
	lines := sortedKeys(f.body, compareSpots)
	for at := range f.calls {
		if _, ok := f.body[at]; !ok {
			lines = append(lines, at) // a call in a block of which nothing is known
		}
	}
	slices.SortFunc(lines, compareSpots)
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
