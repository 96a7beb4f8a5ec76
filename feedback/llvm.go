package feedback

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// LLVMOptions choose what WriteLLVM writes.
type LLVMOptions struct {
	Image  string // path or build ID; "" is every image with lines that clang, rustc or gcc made
	Format LLVMFormat
	Old    []byte // the profile that is replaced; what noise explains stays as it is there
}

// LLVMFormat is one of the forms in which LLVM reads sample profiles.
type LLVMFormat uint8

const (
	LLVMText      LLVMFormat = iota
	LLVMExtBinary            // which also names the functions that did not run
)

// LLVMStats say what WriteLLVM wrote.
type LLVMStats struct {
	Images  []sample.ImageID
	Others  []sample.ImageID // builds of a program by another compiler, which were left out
	Samples uint64           // in the images
	Procs   int              // procedures that went into the profile
	Funcs   int              // functions in it: procedures of one name are one function
	Lines   int              // lines with a count, those of inlined bodies included
	Inlined int              // inlined call sites
	Targets int              // targets at calls
	Silent  int              // functions that the profile says did not run
	Total   uint64           // sum of the functions' totals: executions of instructions times their bytes
	FS      bool             // some image has flow-sensitive discriminators: compile with -mllvm -profile-isfs
	Probes  bool             // counts are by probe: compile with -fpseudo-probe-for-profiling
	Rust    uint64           // of Total, in functions of rustc's
	Dotted  uint64           // of Rust, in those that LLVM does not find: see dotted
	Skipped Skipped

	// Instructions that were executed, inferred: of what Skipped counts, and of the images in all.
	Dropped  map[Reason]float64
	Executed float64
}

// WriteLLVM writes a sample profile of LLVM's, for
// -fprofile-sample-use of clang and profile-sample-use of rustc. As text it is
//
//	# samples: N
//	NAME:TOTAL:HEAD
//	 OFFSET[.DISCRIMINATOR]: COUNT [CALLEE:COUNT]...
//	 OFFSET[.DISCRIMINATOR]: INLINED:TOTAL
//	  OFFSET...
//
// LLVM skips the comment; it is for DecideLLVM, which says what two recordings could
// differ by. An offset is a line relative to that of the function's declaration, modulo
// 2^16. The count of a line is that of the block that ran most often among those
// with one of its instructions, times the duplication factor of unrolled or
// vectorised code: the maximum, never the sum (ProfileGeneratorBase::
// updateBodySamplesforFunctionProfile in LLVM). A total is the executions of all
// instructions, those of inlined bodies included, times their bytes (its
// populateBodySamplesForAllFunctions): clang compares totals with the counts of
// lines to see whether an inlined call was hot, and with totals that leave out the
// bytes, SQLite runs 0.4 % more instructions. A line of code that is known not to
// run has a count of 0; one of which nothing is known is not there. Nor are procedures that
// are absent, and names that the text form cannot carry: fitsLLVMText.
//
// Where the image with the most samples was built with
// -fpseudo-probe-for-profiling, offsets are probes and there are no
// discriminators; the total is the sum of all counts, and each body ends with
//
//	!CFGChecksum: N
//
// by which LLVM knows such a profile, and functions that have changed. It then
// takes no counts of images without probes.
func WriteLLVM(w io.Writer, p *infer.Profile, rec *sample.Recording, opt LLVMOptions) (LLVMStats, error) {
	l := newLLVMWriter()
	var ips []*infer.ImageProfile
	var most *infer.ImageProfile
	for _, ip := range p.Images {
		switch {
		case opt.Image != "" && ip.ID.Path != opt.Image && ip.ID.Build.String() != opt.Image:
		case ip.Image.Go != "":
			l.leave(SkipLang, ip.Procs)
		default:
			ips = append(ips, ip)
			if most == nil || ip.Samples > most.Samples {
				most = ip
			}
		}
	}
	if opt.Image == "" {
		ips = l.leaveOthers(ips, madeByLLVM)
	}
	if most != nil {
		_, err := most.Image.Probes()
		l.stats.Probes = !errors.Is(err, image.ErrNoProbes)
	}
	counts := countsOf(p, rec)
	for _, ip := range ips {
		if err := l.add(newView(ip, counts)); err != nil {
			return l.stats, err
		}
	}
	l.settle(opt.Old)
	err := l.write(w, opt.Format)
	l.stats.Executed = l.all
	return l.stats, err
}

// leaveOthers leaves out the builds of a program that another compiler made, where one of LLVM is among them: its functions have the same names,
// and other lines and discriminators.
func (l *llvmWriter) leaveOthers(ips []*infer.ImageProfile, made func(*infer.ImageProfile) bool) (own []*infer.ImageProfile) {
	name := func(ip *infer.ImageProfile) string { return filepath.Base(ip.ID.Path) }
	several, ours := map[string]int{}, map[string]bool{}
	for _, ip := range ips {
		several[name(ip)]++
	}
	of := map[*infer.ImageProfile]bool{}
	for _, ip := range ips {
		if several[name(ip)] > 1 && made(ip) {
			of[ip], ours[name(ip)] = true, true
		}
	}
	for _, ip := range ips {
		if ours[name(ip)] && !of[ip] {
			l.leave(SkipOtherBuild, ip.Procs)
			l.stats.Others = append(l.stats.Others, ip.ID)
			continue
		}
		own = append(own, ip)
	}
	return own
}

// madeByLLVM reports whether a compiler of LLVM made the most of an image's procedures, by samples.
func madeByLLVM(ip *infer.ImageProfile) bool {
	ln, err := ip.Image.Lines()
	if err != nil {
		return false
	}
	var own, all uint64
	for _, r := range ip.Procs {
		if u := ln.Unit(r.Proc.Addr); u.Producer != "" {
			all += r.Samples
			if isLLVM(u) {
				own += r.Samples
			}
		}
	}
	return 2*own > all
}

// settle writes in place of an old profile, if it is one and counts are by line. Counts
// are not quantised: to 3 bits, they cost SQLite 0.9 to 1.7 % more taken branches, by
// three recordings, and still leave 71 to 77 % of the counts different.
func (l *llvmWriter) settle(profile []byte) {
	old, err := readSampleProfile(bytes.NewReader(profile))
	if err != nil || len(old.funcs) == 0 || hasHashes(old.funcs) || l.stats.Probes {
		return
	}
	l.funcs = newSettler(old.funcs, l.funcs).functions(old.funcs, l.funcs, func(name string) bool { return l.named[name] })
}

// add adds an image, in the unit that the profile counts.
func (l *llvmWriter) add(v *view) error {
	if l.stats.Probes {
		switch probes, err := v.Image.Probes(); {
		case errors.Is(err, image.ErrNoProbes):
			l.leave(SkipNoProbes, v.Procs)
		case err != nil:
			return err
		default:
			l.probed(v, probes)
		}
		return nil
	}
	ln, err := v.Image.Lines()
	if err != nil {
		l.of(v.Procs)
		l.skip(SkipImageLines, executed(v.Procs))
		return nil
	}
	v.lines = ln
	l.image(v)
	return nil
}

// An llvmWriter collects the functions of all images.
type llvmWriter struct {
	*tree
	named  map[string]bool // functions of the images
	silent map[string]bool // those of them that no sample was taken in
	stats  LLVMStats
}

func newLLVMWriter() *llvmWriter {
	t := newTree()
	return &llvmWriter{tree: t, named: map[string]bool{}, silent: map[string]bool{}, stats: LLVMStats{Skipped: t.skipped, Dropped: t.dropped}}
}

// image adds the procedures of an image, by line.
func (l *llvmWriter) image(v *view) {
	l.addImage(v)
	l.stats.FS = l.stats.FS || v.lines.FSDiscriminators()
	l.tree.image(v, llvmDialect)
	l.stats.Procs = l.procs
	l.addNames(v, func(s image.Symbol) bool {
		u := v.lines.Unit(s.Addr)
		return u.Producer != "" && llvmDialect.made(u)
	})
}

// probed adds the procedures of an image, by probe.
func (l *llvmWriter) probed(v *view, probes []image.Probe) {
	l.addImage(v)
	d := probeDecoder{tree: l.tree, sites: newSites(v), probes: probes}
	d.image()
	l.stats.Procs = l.procs
	l.addNames(v, func(s image.Symbol) bool { return len(d.within(s.Addr, s.Addr+image.Addr(s.Size))) > 0 })
}

func (l *llvmWriter) addImage(v *view) {
	l.stats.Images = append(l.stats.Images, v.ID)
	l.stats.Samples += v.Samples
}

// addNames adds the functions that were made by the compiler, and those that have no
// sample. It takes one that is named so to be cold, and one of which it hears
// nothing to be new.
func (l *llvmWriter) addNames(v *view, made func(image.Symbol) bool) {
	sampled := map[int]bool{}
	for _, r := range v.Procs {
		if r.Samples > 0 {
			sampled[r.Proc.Index] = true
		}
	}
	for i, s := range v.code.Symbols() {
		if s.Source != image.FromPLT && made(s) {
			l.named[image.SourceName(s.Name)] = true
			if !sampled[i] {
				l.silent[image.SourceName(s.Name)] = true
			}
		}
	}
}

var llvmDialect = dialect{
	made:          func(u image.Unit) bool { return u.Lang != "go" && u.Lang != "asm" },
	name:          image.SourceName,
	discriminator: llvmDiscriminator,
	seldom:        true,
}

// isLLVM reports whether a compiler of LLVM made a unit.
func isLLVM(u image.Unit) bool {
	return strings.Contains(u.Producer, "clang") || strings.Contains(u.Producer, "rustc") || strings.Contains(u.Producer, "LLVM")
}

// llvmDiscriminator takes LLVM's triples apart. What clang's passes on machine code have added to is plain.
func llvmDiscriminator(v *view, u image.Unit) func(uint32) discriminator {
	if !isLLVM(u) {
		return gccDiscriminator(madeByGCC(u))
	}
	if v.lines.FSDiscriminators() {
		return plain
	}
	return func(raw uint32) discriminator {
		return discriminator{disc: image.BaseDiscriminator(raw), copies: uint64(image.DuplicationFactor(raw))}
	}
}

// plain is a discriminator of which nothing is to be taken apart.
func plain(raw uint32) discriminator { return discriminator{disc: raw, copies: 1} }

// write writes the functions: binary in the order of llvm-profdata, the largest
// total first; as text by name, so that a new count moves no lines.
func (l *llvmWriter) write(w io.Writer, format LLVMFormat) error {
	if format == LLVMText {
		l.keep(fitsLLVMText)
	} else {
		l.keep(fitsBinary)
		maps.DeleteFunc(l.silent, func(name string, _ bool) bool { return !fitsBinary(name) })
	}
	names := sortedKeys(l.funcs, cmp.Compare)
	names = slices.DeleteFunc(names, func(name string) bool {
		f := l.funcs[name]
		return len(f.body) == 0 && len(f.inlined) == 0
	})
	if len(names) == 0 {
		return l.stats.Skipped.empty("llvm: no function has both counts and lines")
	}
	l.stats.Funcs = len(names)
	for _, name := range names {
		total := l.funcs[name].total
		l.stats.Total += total
		if isRust(name) {
			l.stats.Rust += total
			if dotted(name) {
				l.stats.Dotted += total
			}
		}
		l.stats.add(l.funcs[name])
		delete(l.silent, name)
	}
	if format == LLVMExtBinary {
		l.stats.Silent = len(l.silent)
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(l.funcs[b].total, l.funcs[a].total) })
		return l.writeBinary(w, names)
	}
	bw := bufio.NewWriter(w)
	if l.stats.Samples > 0 {
		fmt.Fprintf(bw, "%s%d\n", samplesComment, l.stats.Samples)
	}
	for _, name := range names {
		f := l.funcs[name]
		fmt.Fprintf(bw, "%s:%d:%d\n", name, f.total, f.head)
		l.writeBody(bw, f, 1)
	}
	return bw.Flush()
}

// rustName is what rustc calls functions: by its newer mangling _R and a path, by the older a name like those of C++
// that ends in a hash.
var rustName = regexp.MustCompile(`^(_R[BCIMNXY]|_ZN.*17h[0-9a-f]{16}E$)`)

// isRust reports whether rustc made the name.
func isRust(name string) bool { return rustName.MatchString(name) }

// dotted reports whether LLVM looks the function up by another name than it has: for
// functions without the attribute sample-profile-suffix-elision-policy, which rustc does
// not write, FunctionSamples::getCanonicalFnName drops all from the first dot on. rustc's
// older mangling has dots in paths of types, as in those of most methods of traits.
func dotted(name string) bool { return strings.Contains(name, ".") }

// add counts what is in the body of f.
func (s *LLVMStats) add(f *function) {
	for _, at := range f.lines() {
		s.Lines++
		s.Targets += len(f.calls[at])
	}
	for _, g := range f.inlined {
		s.Inlined++
		s.add(g)
	}
}

// writeBody writes the lines of f, indented by depth, then its inlined calls.
func (l *llvmWriter) writeBody(w *bufio.Writer, f *function, depth int) {
	for _, at := range f.lines() {
		fmt.Fprintf(w, "%*s%v: %d", depth, "", at, f.body[at])
		for _, callee := range f.callees(at) {
			fmt.Fprintf(w, " %s:%d", callee, f.calls[at][callee])
		}
		fmt.Fprintln(w)
	}
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		fmt.Fprintf(w, "%*s%v: %s:%d\n", depth, "", c.at, c.callee, f.inlined[c].total)
		l.writeBody(w, f.inlined[c], depth+1)
	}
	if l.stats.Probes {
		fmt.Fprintf(w, "%*s!CFGChecksum: %d\n", depth, "", f.checksum)
	}
}
