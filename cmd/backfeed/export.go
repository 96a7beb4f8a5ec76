package main

import (
	"fmt"
	"io"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/terminal"
	"backfeed/sample/perfdata"
)

const defaultDepth = 32

var exportCmd = &command{
	name: "export", args: "SRC... [--format perf-data|perf-script|lcov|sarif] [--depth N] [--source DIR] [--symfs DIR] [-o FILE]", short: "write branch records of perf, or counts and stalls for editors",
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

lcov and sarif are for editors and forges, of what was inferred. lcov is a tracefile with the executions of lines
and functions: what shows coverage shows it (genhtml, Coverage Gutters of VS Code, coverage.el, GitLab). A line has
the count of its block that ran most, summed over the places that it was inlined into; of lines that are missing
nothing is known, nor of functions without a sample, which may have run. sarif is SARIF 2.1.0: the stalls with 0.05
% of the time and more, by line and likeliest cause, as notes: at most 5000, in 10 MB (the SARIF viewer of VS Code,
GitHub's and GitLab's code scanning). Those two formats serve most editors as they are; neither needs an extension
of ours. With --source DIR, files are named by their paths below DIR, as forges want, and others are left out.

Paths are a sample, of walks that begin where time is spent: as records of cycles are. emit uses all that
was counted, and is the better profile where it has one.`,
	examples: `backfeed export app.bfr -o perf.data
perf2bolt ./app -p perf.data -o app.fdata
create_llvm_prof --binary=./app --profile=perf.data --out=app.prof
backfeed export app.bfr --format perf-script -o app.script
llvm-profgen --binary=./app --perfscript=app.script --output=app.prof
backfeed export app.bfr --depth 100 -o perf.data
perf report -i perf.data --branch-history
backfeed export app.bfr --format sarif --source . -o app.sarif
backfeed export app.bfr --format lcov --source . -o lcov.info`,
	run: runExport,
}

func runExport(c *cli, args []string) error {
	fs := c.flags()
	var opt emit.StackOptions
	format := c.choice("format", "what to write", "perf-data", "perf-script", "lcov", "sarif")
	fs.StringVar(&opt.Image, "image", "", "write the paths that lead through the image with that `path` or build ID, and no others")
	fs.IntVar(&opt.Depth, "depth", defaultDepth, "write up to `N` branches of a path as one sample")
	fs.BoolVar(&opt.Callers, "call-chains", false, "write the return addresses of calls that began during a walk, too")
	dirs := fs.StringArray("source", nil, "for lcov and sarif: name files by their paths below `dir`, and leave out others; may be given several times")
	in, out := c.inputs(), c.output()
	c.inference(in)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if format.Value == "lcov" || format.Value == "sarif" {
		if err := fs.Refuse("lcov and sarif have no paths", "depth", "call-chains"); err != nil {
			return c.usage(err)
		}
		in.Images, in.Only, in.Infer.Executions = []string{opt.Image}, opt.Image, true
		return c.exportLines(fs.Args(), in, format.Value, *dirs, *out)
	}
	if err := fs.Refuse("it is for lcov and sarif", "source", "event", "model"); err != nil {
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

// exportLines writes what editors read, of counts that are inferred.
func (c *cli) exportLines(paths []string, in *input.Options, format string, dirs []string, out string) error {
	places, err := emit.NewPlaces(dirs)
	if err != nil {
		return err
	}
	src, err := c.inferred(paths, in)
	if err != nil {
		return err
	}
	defer src.Close()
	if src.Profile == nil {
		return fail.Errorf(fail.Nothing, "export --format %s: a profile of functions and lines alone has no images, and nothing is inferred from it", format)
	}
	var summary []string
	err = c.write(out, func(w io.Writer) (err error) {
		if format == "lcov" {
			summary, err = emit.Lcov(w, src, places)
		} else {
			summary, err = emit.SARIF(w, src, places, version())
		}
		return err
	})
	for _, s := range summary {
		c.warn("%s", s)
	}
	return err
}
