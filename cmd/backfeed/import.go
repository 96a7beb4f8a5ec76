package main

import (
	"slices"

	"backfeed/cmd/internal/input"
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
if its function is inlined nowhere. How many have one, and why others have none, is told.`,
	examples: `backfeed import perf.data -o app.bfr
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
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if err := c.wantsFile(*out, "a recording"); err != nil {
		return err
	}
	if opt.Covered != "" && !slices.ContainsFunc(fs.Args(), input.IsCover) {
		return c.usage(fs.Refuse("it is the program of cover profiles, and no source is one", "binary"))
	}
	if !slices.ContainsFunc(fs.Args(), input.IsCounted) {
		if err := fs.Refuse("samples need no images here, only counts do, and no source has any", "symfs"); err != nil {
			return c.usage(err)
		}
	}
	src, err := c.read(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	return c.writeRecording(*out, src.Recording)
}
