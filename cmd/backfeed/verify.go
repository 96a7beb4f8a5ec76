package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/document"
	"backfeed/infer/truth"
)

var verifyCmd = &command{
	name: "verify", args: "COUNTS --truth FILE [--samples SRC] [--runs N] [--symfs DIR]", short: "compare inferred counts with exact ones",
	long: `COUNTS is a counts document (backfeed infer --format json). The file of --truth is what callgrind counted:

    valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes \
        --callgrind-out-file=FILE PROGRAM

or the same as JSON, compressed or not; testdata/qemu makes that of programs for AArch64, too. Of several
processes there are several: give --truth for each. Runs need not be equally long: one scale is fitted
to all counts. Instructions weigh by their samples in SRC, which the images are needed for, or else by
their exact executions. Confidence is held to its promise, program-wide and within each function, and so is
what entries of procedures may be off by: after the scale or, with --runs, as they are.
Callgrind counts the repetitions of string instructions; in images that are found they count once for
each execution. The two histograms are figures 8 and 9 of the DCPI paper (Anderson et al., SOSP 1997).`,
	examples: `backfeed infer app.bfr --format json -o counts.json
backfeed verify counts.json --truth app.callgrind --samples app.bfr`,
	run: runVerify,
}

func runVerify(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	sources := fs.StringArray("samples", nil, "weigh instructions by the samples of `SRC`; may be given again")
	truths := truthFiles(fs)
	runs := fs.Int("runs", 0, "COUNTS is of `N` runs of what was counted: entries are compared with no scale")
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	if fs.NArg() == 2 && len(*truths) == 0 {
		*truths = fs.Args()[1:]
		c.warn("the exact counts are named by --truth FILE now; the old way will go")
	} else if fs.NArg() != 1 {
		return c.usage(nil)
	}
	if len(*truths) == 0 {
		return c.usage(errors.New("want --truth FILE: what is compared with"))
	}
	if fs.Changed("runs") && *runs < 1 {
		return c.usage(fmt.Errorf("--runs %d: want 1 or more", *runs))
	}
	doc, err := input.File(fs.Arg(0), document.Read)
	if err != nil {
		return input.Mistaken(fs.Arg(0), input.WantCounts, err)
	}
	exact, err := readTruth(*truths)
	if err != nil {
		return err
	}
	src, err := c.sampled(*sources, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	var samples truth.SamplesByAddr
	if src.Recording != nil {
		if samples, err = src.SamplesByAddr(doc.Event.Name); err != nil {
			return err
		}
	}
	src.CountOnce(doc, exact)
	a := truth.CompareRuns(doc, exact, samples, float64(*runs))
	if a.Scale == 0 || a.NoBlock == 1 {
		return fail.Errorf(fail.Nothing, "%s and %s have no code in common: are both of the same build?", fs.Arg(0), strings.Join(*truths, ", "))
	}
	figures := report.NewAccuracy(a)
	return c.print("-", format, figures, figures.Measures(), func(w io.Writer, style report.Style) error {
		return report.WriteAccuracy(w, a, len(samples) > 0, style)
	})
}

// truthFiles defines the flag for files of exact counts.
func truthFiles(fs *flagset.Set) *[]string {
	return fs.StringArray("truth", nil, "compare with the exact counts in `file`, of callgrind; may be given again: counts of several processes add up")
}

// readTruth reads exact counts of all files, of which there is one at least, together.
func readTruth(files []string) (*truth.Counts, error) {
	var all *truth.Counts
	for _, file := range files {
		one, err := input.File(file, truth.Read)
		if err != nil {
			return nil, input.Mistaken(file, input.WantTruth, err)
		}
		if all == nil {
			all = one
		} else if err := all.Add(one); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}

// sampled reads the samples of all paths, of which there may be none.
func (c *cli) sampled(paths []string, opt *input.Options) (*input.Session, error) {
	if len(paths) == 0 {
		if err := c.fs.Refuse("it chooses from what --samples names", "since", "until", "label", "between"); err != nil {
			return nil, c.usage(err)
		}
		return input.New(*opt)
	}
	return c.read(paths, opt)
}
