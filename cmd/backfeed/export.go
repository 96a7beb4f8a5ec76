package main

import (
	"fmt"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/terminal"
	"backfeed/sample/perfdata"
)

const defaultDepth = 32

var exportCmd = &command{
	name: "export", args: "SRC... [--format perf-data|perf-script] [--depth N] [--symfs DIR] [-o FILE]", short: "write the paths of walks as branch records of perf",
	reads: symfsHelp,
	long: `record --calibrate keeps paths: which branches a walk took, one after the other. export writes them as what perf record -b
makes on a machine whose processor has branch records, for tools that read those.

perf-data is a perf.data file: perf report and perf script, perf2bolt and create_llvm_prof read it.
perf-script is what perf script prints of it, for llvm-profgen --perfscript.

A sample has --depth branches. No branch is in two samples; readers know nothing of the code between the
last branch of one and the first of the next, so the deeper, the better. perf report --branch-history
takes up to 127.

--call-chains writes the return addresses of calls too that a walk came into and not out of, as
llvm-profgen wants for profiles with contexts. Of calls that began before a walk nothing is known: contexts
begin where it did, and such a profile may be worth less than one without.

Paths are a sample, of walks that begin where time is spent: as records of cycles are. emit uses all that
was counted, and is the better profile where it has one.`,
	examples: `backfeed export app.bfr -o perf.data
perf2bolt ./app -p perf.data -o app.fdata
backfeed export app.bfr --format perf-script -o app.script
llvm-profgen --binary=./app --perfscript=app.script --output=app.prof
backfeed export app.bfr --depth 100 -o perf.data
perf report -i perf.data --branch-history`,
	run: runExport,
}

func runExport(c *cli, args []string) error {
	fs := c.flags()
	var opt emit.StackOptions
	format := c.choice("format", "what to write", "perf-data", "perf-script")
	fs.StringVar(&opt.Image, "image", "", "write the paths that lead through the image with that `path` or build ID, and no others")
	fs.IntVar(&opt.Depth, "depth", defaultDepth, "write up to `N` branches of a path as one sample")
	fs.BoolVar(&opt.Callers, "call-chains", false, "write the return addresses of calls that began during a walk, too")
	in, out := c.inputs(), c.output()
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if opt.Depth < 2 || opt.Depth > perfdata.MaxBranches {
		return c.usage(fmt.Errorf("no --depth %d: want 2 to %d", opt.Depth, perfdata.MaxBranches))
	}
	if format.Value == "perf-data" && *out == "-" && terminal.Is(c.stdout) {
		return fail.Errorf(fail.Usage, "export: perf.data is not for a terminal; name a file with -o")
	}
	in.Images = []string{opt.Image}
	src, err := c.read(fs.Args(), in)
	if err != nil {
		return err
	}
	defer src.Close()
	stacks, summary, err := emit.Stacks(src, opt)
	if err != nil {
		return err
	}
	write := stacks.Write
	if format.Value == "perf-script" {
		if len(stacks.Processes) > 1 {
			return fail.Errorf(fail.Usage, "export --format perf-script: %d programs lie at the same addresses, and the text does not tell their processes apart: name one with --image", len(stacks.Processes))
		}
		write = stacks.WriteScript
	}
	if err := c.write(*out, write); err != nil {
		return err
	}
	c.warn("%s", summary)
	return nil
}
