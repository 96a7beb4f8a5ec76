package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/terminal"
	"backfeed/feedback"
	"backfeed/sample"
)

var emitCmd = &command{
	name: "emit", args: "go|llvm|gcc|gcda|bolt|propeller SRC... [--symfs DIR] [-o FILE]", short: "write a profile for a compiler or post-link optimiser",
	reads: symfsHelp,
	long: `With --image, that image alone is inferred, which of a whole machine's store takes a fraction of the time. Without, llvm is given all images with lines but Go's, bolt the one with the most samples of those that keep their
relocations, and the others the one with the most that the format fits. A profile that would be of no use is not written. The program's file must be there as it
ran, so keep the binaries that you deploy: backfeed knows them by their build IDs.`,
	sub: []*command{
		emitCommand("go", "a profile for go build -pgo", `Go's compiler reads `+"`-pgo=FILE`"+`, or the file default.pgo if it lies beside package main. It inlines hot calls, and turns
indirect calls that mostly have one callee into direct ones: for that the recording needs callers, which record
and the agent keep, or walks (--calibrate).

`+ifChangedHelp+` Weights are rounded to 3 significant bits.`,
			"backfeed emit go app.bfr -o default.pgo\ngo build -pgo=default.pgo .", emit.Go),
		emitCommand("llvm", "a sample profile for clang and rustc", `The sampled build needs -g and -fdebug-info-for-profiling, or -fpseudo-probe-for-profiling, which then is
needed with the profile, too.

`+ifChangedHelp+` Profiles by probe are written anew.`,
			"backfeed emit llvm app.bfr -o app.prof\nclang -O2 -fprofile-sample-use=app.prof -o app app.c", emit.LLVM),
		emitCommand("gcc", "an .afdo profile for gcc -fauto-profile", `It is for gcc 12 to 16. The sampled build needs -g. gcc makes half as much of it as of what emit gcda writes, and may
take more branches than without a profile: measure the build. Take it where one profile is to serve several builds of a changing source.`,
			"backfeed emit gcc app.bfr -o app.afdo\ngcc -O2 -fauto-profile=app.afdo -fno-tracer -o app app.c", emit.GCC),
		emitGCDACmd,
		emitCommand("bolt", "an fdata profile for llvm-bolt", `The image needs its relocations (-Wl,--emit-relocs).`,
			"backfeed emit bolt app.bfr -o app.fdata\nllvm-bolt ./app -data app.fdata -reorder-blocks=ext-tsp -o app.bolt", emit.BOLT),
		emitCommand("propeller", "clusters of blocks for clang, and an order for lld", `The clusters are for clang -fbasic-block-sections=list=FILE, the order in the file named by --ld for
ld.lld --symbol-ordering-file. The sampled build needs -fbasic-block-address-map, and the next one the same source
and flags. Some blocks are cloned, so that more of them fall through.`,
			"backfeed emit propeller app.bfr -o app.clusters --ld app.order", emit.Propeller),
	},
	run: runGroup,
}

const ifChangedHelp = `--if-changed leaves a file alone unless a decision clearly changes. Then counts that were not hot and are
not stay as they are in it, and hot ones within a factor of 2, so that few lines change; if calls with 15 % of the
weight change sides, or the file is of fewer than 1000 samples and there are four times as many now, all is new,
as it is without the flag.`

// emitCommand is one of emit's commands.
func emitCommand(name, short, long, example string, write emit.Format) *command {
	return &command{name: "emit " + name, args: "SRC... [--symfs DIR] [-o FILE]", short: "write " + short, long: long, reads: symfsHelp, examples: example,
		run: func(c *cli, args []string) error { return runEmit(c, args, name, write) }}
}

func runEmit(c *cli, args []string, name string, write emit.Format) error {
	fs := c.flags()
	image := fs.String("image", "", "write about the image with that `path` or build ID")
	var opt emit.Options
	ifChanged, format := new(bool), &flagset.Choice{}
	switch name {
	case "go":
		ifChanged = c.ifChanged()
	case "llvm":
		format = c.choice("format", "how to write it; extbinary is LLVM's own form, which also names the functions that did not run", "text", "extbinary")
		ifChanged = c.ifChanged()
	case "gcc":
		fs.IntVar(&opt.GCC, "gcc-version", 0, "write for gcc of major version `N` (default that of the image)")
	case "propeller":
		fs.StringVar(&opt.LD, "ld", "", "write the order for the linker to `file`")
	}
	in, out := c.inputs(), c.output()
	c.inference(in)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	opt.Form = format.Value
	if name == "propeller" && opt.LD == "" {
		return c.usage(errors.New("want --ld FILE for the linker"))
	}
	keep, err := usedBy(*ifChanged, name, *out)
	if err != nil {
		return c.usage(err)
	}
	if fs.Changed("gcc-version") && opt.GCC < 12 {
		return c.usage(fmt.Errorf("no --gcc-version %d: want 12 or later", opt.GCC))
	}
	if (name == "go" || name == "gcc") && *out == "-" && terminal.Is(c.stdout) {
		return fail.Errorf(fail.Usage, "emit %s: the profile is not for a terminal; name a file with -o", name)
	}
	in.Images, in.Only = []string{*image}, *image
	in.ByName, in.Infer.Executions = name == "go", true
	src, err := c.inferred(fs.Args(), in)
	if err != nil {
		return err
	}
	defer src.Close()
	if src.Calls != nil {
		write = emit.GoNames
		if err := fs.Refuse("a profile of functions and lines alone has no images, and nothing is inferred from it", "image", "symfs", "event", "model"); err != nil {
			return c.usage(err)
		}
	} else if *image != "" {
		ip, err := src.Image(*image)
		if err != nil {
			return err
		}
		opt.Image = emit.NameOf(ip.ID)
	}
	opt.Write, opt.Wrote, opt.LLVM = c.write, new(sample.ImageID), new(feedback.LLVMStats)
	wrote, err := c.emit(*out, keep, write, src, opt)
	if err != nil {
		return err
	}
	if wrote && *out != "-" {
		switch file := whole(*out); name {
		case "go":
			c.tellGoBuild(*out, src, *opt.Wrote)
		case "llvm":
			c.warn("next: %s", emit.LLVMBuild(file, 2*opt.LLVM.Rust > opt.LLVM.Total))
		case "gcc":
			c.warn("next: %s", emit.GCCBuild(file))
		case "bolt":
			im := src.Found(*opt.Wrote)
			c.warn("next: %s", emit.BOLTRewrite(file, whole(src.OwnFile(*opt.Wrote)), im))
		case "propeller":
			c.tellPropeller(*out, opt.LD)
		}
	}
	c.tellThin(src, orMore)
	return nil
}

// tellPropeller says how to build with the clusters and the order of functions in these files.
func (c *cli) tellPropeller(clusters, order string) {
	if clusters != "-" && order != "-" {
		c.warn("next: clang -fbasic-block-sections=list=%s -fuse-ld=lld -Wl,--symbol-ordering-file=%s%s", prose.ShellWord(whole(clusters)), prose.ShellWord(whole(order)), emit.AsRecorded)
	}
}

// whole is the absolute path of a file, as make, cargo and go run compilers in other directories; path itself where that is not known.
func whole(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// emit writes one profile and tells what is in it. If keep names a consumer, a file that is
// there stays unless it would decide otherwise: then nothing is told of the profile that was not written.
func (c *cli) emit(out, keep string, write emit.Format, src *input.Session, opt emit.Options) (wrote bool, err error) {
	var summary []string
	wrote, err = c.writeUnless(keep, out, func(w io.Writer, old []byte) error {
		var err error
		opt.Old = old
		summary, err = write(w, src, opt)
		return err
	})
	if err := c.tellUnfit(src, err); err != nil || !wrote {
		return false, err
	}
	for _, s := range summary {
		c.warn("%s", s)
	}
	return true, nil
}

// tellUnfit says what of the code could not be read for a profile, and returns the error of making that, if there is one: where
// there is nothing to write, it says what was not found.
func (c *cli) tellUnfit(src *input.Session, err error) error {
	for _, s := range emit.Unread(src.Profile) {
		c.warn("%s", s)
	}
	if errors.Is(err, feedback.ErrEmpty) || errors.Is(err, feedback.ErrUnfit) {
		if id, n := src.Unfound(); n > src.Profile.Samples.Used { // what was looked at instead is not what the user means
			err = fmt.Errorf("%w; %s, which has %s of the samples, was not found: %w", err, report.Clean(id.Path), report.Share(n, src.Profile.Samples.Total), src.Missing(id))
		} else {
			err = emit.Advised(err)
		}
		return fail.Wrap(fail.Nothing, err)
	}
	return err
}
