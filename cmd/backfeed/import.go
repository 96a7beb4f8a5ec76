package main

import (
	"fmt"
	"slices"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/sample/collect"
)

var importCmd = &command{
	name: "import", args: "SRC... [--symfs DIR] [--binary FILE] -o FILE", short: "turn recordings of other tools into one of backfeed",
	reads: symfsHelp,
	long: `Of what was counted exactly, each block of instructions that ran gets its number of executions. Added
to a recording of the same program (` + "`backfeed merge`" + `, or both named as SRC), it is kept beside the samples.

import reads Go's cover profiles too, as ` + "`go tool covdata textfmt`" + ` writes them of programs built with
-cover -covermode=count (or atomic), and puts their counts to places of the program that --binary names, the same source built
without -cover. A block of source gets a place if that is certain: if lines that are its alone have
code in one procedure, entered through one block of instructions that has code of no other line, and
if its function is inlined nowhere. How many have one, and why others have none, is told.

` + keptCallersHelp,
	examples: `backfeed import perf.data -o app.bfr
backfeed import perf.data --callers -o deep.bfr
backfeed import cpu.pprof -o app.bfr
backfeed import cover.txt --binary ./server -o counts.bfr`,
	run: runImport,
}

// runImport reads and writes: what is written is backfeed's.
func runImport(c *cli, args []string) error {
	fs := c.flags()
	opt := c.inputs()
	fs.StringVar(&opt.Covered, "binary", "", "the cover profiles are of the source of the Go program in `file`")
	fs.Alias("image", "binary")
	out := fs.StringP("output", "o", "", "write the recording to `file`")
	callers := keepsCallers(fs)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if err := c.wantsFile(*out, "a recording"); err != nil {
		return err
	}
	if opt.Covered != "" && !slices.ContainsFunc(fs.Args(), input.IsCover) {
		return c.usage(fs.Refuse("it is the program of cover profiles, and no source is one", "binary"))
	}
	if !slices.ContainsFunc(fs.Args(), input.IsCounted) && !slices.ContainsFunc(fs.Args(), input.HasStacks) {
		if err := fs.Refuse("samples need no images here, only counts and stacks do, and no source has any", "symfs"); err != nil {
			return c.usage(err)
		}
	}
	if err := callers.into(opt, fs, fs.Args()); err != nil {
		return c.usage(err)
	}
	opt.Apart = true // as they are; who reads the recording weighs them
	src, err := c.read(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	return c.writeRecording(*out, src.Recording)
}

const keptCallersHelp = `Of the stacks of perf.data and of OTLP profiles, 7 callers are kept. --callers=16 keeps the 16 innermost,
--callers up to 127: for inclusive figures and flame graphs. Of recursion, each depth is a stack of its own.`

// A keptCallers is a flag: how many callers of a stack to keep, of recordings that others made.
type keptCallers struct{ callersFlag }

func keepsCallers(fs *flagset.Set) *keptCallers {
	v := keptCallers{"7"}
	fs.Var(&v, "callers", "of stacks of perf.data and OTLP, keep so many callers: no; all, up to 127; or up to `N`")
	fs.Lookup("callers").NoOptDefVal = "all"
	return &v
}

func (*keptCallers) Words() []string       { return []string{"no", "all"} }
func (*keptCallers) Accepts(s string) bool { return isCallers(s) }
func (v *keptCallers) Set(s string) error {
	if !v.Accepts(s) {
		return fmt.Errorf("want no, all or 1 to %d", collect.MaxFrames)
	}
	return v.callersFlag.Set(s)
}

// into has sources read so if the flag is given, and refuses it if none is of others' stacks.
func (v *keptCallers) into(opt *input.Options, fs *flagset.Set, sources []string) error {
	if !fs.Changed("callers") {
		return nil // 7 are usual
	}
	if !slices.ContainsFunc(sources, input.HasStacks) {
		return fs.Refuse("of perf.data and OTLP profiles, callers are chosen from, and no source is one", "callers")
	}
	_, callers := v.of()
	if opt.StackDepth = 1 + callers; callers == 0 {
		opt.StackDepth = -1 // no stacks
	}
	return nil
}
