package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/feedback"
	"backfeed/sample"
)

var emitCmd = &command{
	name: "emit", args: "go|llvm|gcc|bolt|propeller SRC... [--symfs DIR] [-o FILE]", short: "write a profile for a compiler or post-link optimiser",
	long: symfsHelp + `

go    a pprof profile for go build -pgo
llvm  a sample profile for clang -fprofile-sample-use; the sampled build needs -g and
      -fdebug-info-for-profiling, or -fpseudo-probe-for-profiling, which then is needed with
      the profile, too. --format extbinary is LLVM's own form: it also names the functions that
      did not run
gcc   an .afdo profile for gcc -fauto-profile, of gcc 12 to 16; the sampled build needs -g.
      --gcc-version is for a gcc of another version than the one that made the image
bolt  an fdata profile for llvm-bolt -data; the image needs its relocations (-Wl,--emit-relocs)
propeller
      clusters of blocks for clang -fbasic-block-sections=list=FILE and, in the file named by --ld,
      an order for ld.lld --symbol-ordering-file; the sampled build needs -fbasic-block-address-map,
      and the next one the same source and flags

--image names the image to write about, by path or build ID. Without it, llvm is given all images
that its compilers made, the others the one with the most samples that the format fits. A profile
that would be of no use is not written.

--if-changed, for go and llvm, leaves a file alone unless a decision clearly changes. Then counts that
were not hot and are not stay as they are in it, and hot ones within a factor of 2, so that few lines
change; if calls with 15 % of the weight change sides, or the file is of fewer than 1000 samples and
there are four times as many now, all is new, as it is without the flag. Weights for go are rounded to
3 significant bits. Profiles by probe are written anew.`,
	run: runEmit,
}

// An emitter writes one format and sums up what it wrote.
type emitter func(w io.Writer, src *source, opt emitOptions) (summary string, err error)

type emitOptions struct {
	image  string // path or build ID; "" is the emitter's choice
	format string // of those that the consumer reads; "" is the usual one
	keep   string // consumer that a file which is there is kept for; "" is none
	old    []byte // what is in that file
	ld     string // file for the linker
	gcc    int    // major version of the gcc that reads the profile; 0 is that of the image
	write  func(path string, f func(io.Writer) error) error
}

var emitters = map[string]emitter{"go": emitGo, "llvm": emitLLVM, "gcc": emitGCC, "bolt": emitBOLT, "propeller": emitPropeller}

func runEmit(c *cli, args []string) error {
	fs := c.flags()
	symfs, out, opt := c.symfs(), c.output(), c.inference()
	image := fs.String("image", "", "write about the image with that `path` or build ID")
	format := fs.String("format", "", "for llvm: `text` or extbinary (default text)")
	ld := fs.String("ld", "", "for propeller: write the order for the linker to `file`")
	gcc := fs.Int("gcc-version", 0, "for gcc: write for gcc of major version `N` (default that of the image)")
	ifChanged := c.ifChanged()
	if err := fs.Parse(args); err != nil || fs.NArg() < 2 {
		return c.usage(err)
	}
	emit := emitters[fs.Arg(0)]
	if emit == nil {
		return c.usage(fmt.Errorf("no format %q: want %s", fs.Arg(0), strings.Join(slices.Sorted(maps.Keys(emitters)), ", ")))
	}
	if _, ok := llvmFormats[*format]; !ok || *format != "" && fs.Arg(0) != "llvm" {
		return c.usage(fmt.Errorf("no --format %s of %s", *format, fs.Arg(0)))
	}
	if (*ld != "") != (fs.Arg(0) == "propeller") {
		return c.usage(errors.New("propeller, and nothing else, wants --ld FILE for the linker"))
	}
	keep, err := usedBy(*ifChanged, fs.Arg(0), *out)
	if err != nil {
		return c.usage(err)
	}
	if *gcc != 0 && (fs.Arg(0) != "gcc" || *gcc < 12) {
		return c.usage(fmt.Errorf("no --gcc-version %d of %s: want 12 or later, of gcc", *gcc, fs.Arg(0)))
	}
	if (fs.Arg(0) == "go" || fs.Arg(0) == "gcc") && *out == "-" && isTerminal(c.stdout) {
		return fail.Errorf(fail.Usage, "emit %s: the profile is not for a terminal; name a file with -o", fs.Arg(0))
	}
	src, err := c.inferred(fs.Args()[1:], *symfs, *image, *opt)
	if err != nil {
		return err
	}
	defer src.close()
	if *image != "" {
		ip, err := src.image(*image)
		if err != nil {
			return err
		}
		*image = nameOf(ip.ID)
	}
	if err := c.emit(*out, emit, src, emitOptions{image: *image, format: *format, keep: keep, ld: *ld, gcc: *gcc, write: c.write}); err != nil {
		return err
	}
	c.tellThin(src.recording, "merge several recordings")
	return nil
}

// nameOf names an image to package feedback.
func nameOf(id sample.ImageID) string {
	if id.Build.IsZero() {
		return id.Path
	}
	return id.Build.String()
}

// emit writes one profile and tells what is in it.
func (c *cli) emit(out string, emit emitter, src *source, opt emitOptions) error {
	var summary string
	err := c.writeUnless(opt.keep, out, func(w io.Writer, old []byte) error {
		var err error
		opt.old = old
		summary, err = emit(w, src, opt)
		return err
	})
	if errors.Is(err, feedback.ErrEmpty) || errors.Is(err, feedback.ErrUnfit) {
		return fail.Wrap(fail.Nothing, err)
	}
	if err != nil {
		return err
	}
	c.warn("%s", summary)
	return nil
}

func emitGo(w io.Writer, src *source, opt emitOptions) (string, error) {
	st, err := feedback.WriteGo(w, src.profile, src.recording, feedback.GoOptions{Image: opt.image, Round: true, Old: opt.old})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d call edges, %d of them inlined, %d indirect%s",
		st.Image.Path, st.Edges, st.Inlined, st.Indirect, skipList(st.Skipped)), nil
}

var llvmFormats = map[string]feedback.LLVMFormat{"": feedback.LLVMText, "text": feedback.LLVMText, "extbinary": feedback.LLVMExtBinary}

func emitLLVM(w io.Writer, src *source, opt emitOptions) (string, error) {
	st, err := feedback.WriteLLVM(w, src.profile, src.recording, feedback.LLVMOptions{Image: opt.image, Format: llvmFormats[opt.format], Old: opt.old})
	if err != nil {
		return "", err
	}
	var images []string
	for _, id := range st.Images {
		images = append(images, id.Path)
	}
	summary := fmt.Sprintf("%s: %d functions, %d lines, %d inlined call sites%s",
		strings.Join(images, ", "), st.Funcs, st.Lines, st.Inlined, skipList(st.Skipped))
	if st.FS {
		summary += "; discriminators are flow-sensitive: compile with -mllvm -profile-isfs"
	}
	if st.Probes {
		summary += "; counts are by probe: compile with -fpseudo-probe-for-profiling"
	}
	return summary, nil
}

func emitBOLT(w io.Writer, src *source, opt emitOptions) (string, error) {
	st, err := feedback.WriteBOLT(w, src.profile, src.recording, feedback.BOLTOptions{Image: opt.image})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d procedures, %d edges, %d calls%s", st.Image.Path, st.Procs, st.Edges, st.Calls, skipList(st.Skipped)), nil
}

// skipList tells what a profile leaves out: "; left out: 3 procedures without lines".
func skipList(skipped feedback.Skipped) string {
	var parts []string
	for _, why := range mostFirst(skipped) {
		if n := skipped[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(parts, ", ")
}
