package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/sample"
)

var emitCmd = &command{
	name: "emit", args: "go|llvm|gcc|bolt|propeller SRC... [--symfs DIR] [-o FILE]", short: "write a profile for a compiler or post-link optimiser",
	reads: symfsHelp,
	long: `Without --image, llvm is given all images that its compilers made, the others the one with the most samples
that the format fits. A profile that would be of no use is not written. The program's file must be there as it
ran, so keep the binaries that you deploy: backfeed knows them by their build IDs.`,
	sub: []*command{
		emitCommand("go", "a profile for go build -pgo", `Go's compiler reads `+"`-pgo=FILE`"+`, or the file default.pgo if it lies beside package main. It inlines hot calls, and turns
indirect calls that mostly have one callee into direct ones: for that the recording needs callers, which
record has, and agent and record -a with --callers.

`+ifChangedHelp+` Weights are rounded to 3 significant bits.`,
			"backfeed emit go app.bfr -o default.pgo\ngo build -pgo=default.pgo .", emitGo),
		emitCommand("llvm", "a sample profile for clang and rustc", `The sampled build needs -g and -fdebug-info-for-profiling, or -fpseudo-probe-for-profiling, which then is
needed with the profile, too.

`+ifChangedHelp+` Profiles by probe are written anew.`,
			"backfeed emit llvm app.bfr -o app.prof\nclang -O2 -fprofile-sample-use=app.prof -o app app.c", emitLLVM),
		emitCommand("gcc", "an .afdo profile for gcc -fauto-profile", `It is for gcc 12 to 16. The sampled build needs -g.`,
			"backfeed emit gcc app.bfr -o app.afdo\ngcc -O2 -fauto-profile=app.afdo -o app app.c", emitGCC),
		emitCommand("bolt", "an fdata profile for llvm-bolt", `The image needs its relocations (-Wl,--emit-relocs).`,
			"backfeed emit bolt app.bfr -o app.fdata\nllvm-bolt ./app -data app.fdata -reorder-blocks=ext-tsp -o app.bolt", emitBOLT),
		emitCommand("propeller", "clusters of blocks for clang, and an order for lld", `The clusters are for clang -fbasic-block-sections=list=FILE, the order in the file named by --ld for
ld.lld --symbol-ordering-file. The sampled build needs -fbasic-block-address-map, and the next one the same source
and flags.`,
			"backfeed emit propeller app.bfr -o app.clusters --ld app.order", emitPropeller),
	},
	run: runGroup,
}

const ifChangedHelp = `--if-changed leaves a file alone unless a decision clearly changes. Then counts that were not hot and are
not stay as they are in it, and hot ones within a factor of 2, so that few lines change; if calls with 15 % of the
weight change sides, or the file is of fewer than 1000 samples and there are four times as many now, all is new,
as it is without the flag.`

// emitCommand is one of emit's commands.
func emitCommand(name, short, long, example string, emit emitter) *command {
	return &command{name: "emit " + name, args: "SRC... [--symfs DIR] [-o FILE]", short: "write " + short, long: long, reads: symfsHelp, examples: example,
		run: func(c *cli, args []string) error { return runEmit(c, args, name, emit) }}
}

// An emitter writes one format and sums up what it wrote.
type emitter func(w io.Writer, src *input.Session, opt emitOptions) (summary string, err error)

type emitOptions struct {
	image  string // path or build ID; "" is the emitter's choice
	format string // of those that the consumer reads; "" is the usual one
	keep   string // consumer that a file which is there is kept for; "" is none
	old    []byte // what is in that file
	ld     string // file for the linker
	gcc    int    // major version of the gcc that reads the profile; 0 is that of the image
	write  func(path string, f func(io.Writer) error) error
	wrote  *sample.ImageID // is told what a profile for go is about, if it is not nil
}

func runEmit(c *cli, args []string, name string, emit emitter) error {
	fs := c.flags()
	image := fs.String("image", "", "write about the image with that `path` or build ID")
	var opt emitOptions
	ifChanged, format := new(bool), &choice{}
	switch name {
	case "go":
		ifChanged = c.ifChanged()
	case "llvm":
		format = c.choice("format", "how to write it; extbinary is LLVM's own form, which also names the functions that did not run", "text", "extbinary")
		ifChanged = c.ifChanged()
	case "gcc":
		fs.IntVar(&opt.gcc, "gcc-version", 0, "write for gcc of major version `N` (default that of the image)")
	case "propeller":
		fs.StringVar(&opt.ld, "ld", "", "write the order for the linker to `file`")
	}
	in, out := c.inputs(), c.output()
	c.inference(in)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	opt.format = format.value
	if name == "propeller" && opt.ld == "" {
		return c.usage(errors.New("want --ld FILE for the linker"))
	}
	keep, err := usedBy(*ifChanged, name, *out)
	if err != nil {
		return c.usage(err)
	}
	if opt.gcc != 0 && opt.gcc < 12 {
		return c.usage(fmt.Errorf("no --gcc-version %d: want 12 or later", opt.gcc))
	}
	if (name == "go" || name == "gcc") && *out == "-" && isTerminal(c.stdout) {
		return fail.Errorf(fail.Usage, "emit %s: the profile is not for a terminal; name a file with -o", name)
	}
	in.Images = []string{*image}
	src, err := c.inferred(fs.Args(), in)
	if err != nil {
		return err
	}
	defer src.Close()
	if *image != "" {
		ip, err := src.Image(*image)
		if err != nil {
			return err
		}
		opt.image = nameOf(ip.ID)
	}
	opt.keep, opt.write, opt.wrote = keep, c.write, new(sample.ImageID)
	if err := c.emit(*out, emit, src, opt); err != nil {
		return err
	}
	switch next := nextSteps[name]; {
	case name == "go":
		c.tellGoBuild(*out, src, *opt.wrote)
	case next != "" && *out != "-":
		c.warn("next: "+next, shellWord(*out))
	}
	c.tellThin(src.Recording, "merge several recordings")
	return nil
}

// nextSteps are the commands that read the formats.
var nextSteps = map[string]string{
	"llvm":      "clang -fprofile-sample-use=%s, with the same sources and options as the recorded build",
	"gcc":       "gcc -fauto-profile=%s, with the same sources and options as the recorded build",
	"bolt":      "llvm-bolt APP -o APP.bolt -data=%s -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions, with APP linked by -Wl,--emit-relocs",
	"propeller": "clang -fbasic-block-sections=list=%s, and the order of functions for ld.lld --symbol-ordering-file",
}

// nameOf names an image to package feedback.
func nameOf(id sample.ImageID) string {
	if id.Build.IsZero() {
		return id.Path
	}
	return id.Build.String()
}

// emit writes one profile and tells what is in it.
func (c *cli) emit(out string, emit emitter, src *input.Session, opt emitOptions) error {
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

func emitGo(w io.Writer, src *input.Session, opt emitOptions) (string, error) {
	st, err := feedback.WriteGo(w, src.Profile, src.Recording, feedback.GoOptions{Image: opt.image, Round: true, Old: opt.old})
	if err != nil {
		return "", err
	}
	if opt.wrote != nil {
		*opt.wrote = st.Image
	}
	return fmt.Sprintf("%s: %d call edges, %d of them inlined, %d indirect%s",
		st.Image.Path, st.Edges, st.Inlined, st.Indirect, leftOut(st.Skipped, st.Dropped, float64(st.Weight)*st.Scale)), nil
}

var llvmFormats = map[string]feedback.LLVMFormat{"": feedback.LLVMText, "text": feedback.LLVMText, "extbinary": feedback.LLVMExtBinary}

func emitLLVM(w io.Writer, src *input.Session, opt emitOptions) (string, error) {
	st, err := feedback.WriteLLVM(w, src.Profile, src.Recording, feedback.LLVMOptions{Image: opt.image, Format: llvmFormats[opt.format], Old: opt.old})
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

func emitBOLT(w io.Writer, src *input.Session, opt emitOptions) (string, error) {
	st, err := feedback.WriteBOLT(w, src.Profile, src.Recording, feedback.BOLTOptions{Image: opt.image})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d procedures, %d edges, %d calls%s", st.Image.Path, st.Procs, st.Edges, st.Calls, skipList(st.Skipped)), nil
}

// skipList reports what a profile leaves out and what to do about it.
func skipList(skipped feedback.Skipped) string { return leftOut(skipped, nil, 0) }

// Shares of all weight below which it does not matter what is left out, and below which it is not named.
const littleWeight, leastNamed = 0.05, 0.01

// leftOut reports what a profile leaves out, what share of all weight that is, where it is known, and
// what to do about it: "; left out: 3 procedures without line numbers: compile with -g". weight is what the
// profile has, dropped what it lacks of that.
func leftOut(skipped feedback.Skipped, dropped map[feedback.Reason]float64, weight float64) string {
	all := weight
	for _, n := range dropped {
		all += n
	}
	var parts, todo []string
	others, otherShare := 0, 0.0
	for _, why := range report.MostFirst(skipped) {
		n := skipped[why]
		if n == 0 {
			continue
		}
		part, share := fmt.Sprintf("%d %s", n, why), 1.0
		if dropped != nil {
			share = dropped[why] / max(all, 1)
			if share < leastNamed {
				others, otherShare = others+n, otherShare+share
				continue
			}
			part += fmt.Sprintf(" (%s of the weight)", report.Percent(share))
		}
		parts = append(parts, part)
		if do := feedbackAdvice[why]; do != "" && share >= littleWeight && !slices.Contains(todo, do) {
			todo = append(todo, do)
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d of other kinds (%s)", others, report.Percent(otherShare)))
	}
	switch {
	case len(parts) == 0:
		return ""
	case len(todo) == 0:
		return "; left out: " + strings.Join(parts, ", ") + ": nothing to do"
	}
	return "; left out: " + strings.Join(parts, ", ") + ": to have more, " + strings.Join(todo, ", and ")
}

const debugInfo = "compile with -g, or have the debug file where --symfs looks"

// feedbackAdvice says what would bring in what is left out, by reason. Of the others nobody has to do
// anything: they are not in the source, hardly run, or no consumer could use them.
var feedbackAdvice = map[feedback.Reason]string{
	feedback.SkipUnseen:                            "record for longer",
	feedback.SkipNoLine:                            "build without -ldflags=-w and do not strip",
	feedback.SkipIndirect:                          "record with callers or branch records (perf record -b, record --calibrate), which see where calls lead",
	feedback.SkipUnknown:                           "record for longer",
	feedback.SkipNoSymbol:                          "keep the symbol table: do not strip",
	feedback.SkipNoLines:                           debugInfo,
	feedback.SkipNoInstLine:                        debugInfo,
	feedback.SkipNoStart:                           debugInfo,
	feedback.SkipImageLines:                        debugInfo,
	feedback.SkipNoProbes:                          "compile with -fpseudo-probe-for-profiling",
	"functions that the map of basic blocks lacks": "compile with -fbasic-block-address-map",
}
