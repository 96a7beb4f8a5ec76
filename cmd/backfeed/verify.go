package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/document"
	"backfeed/infer/truth"
	"backfeed/sample"
)

var verifyCmd = &command{
	name: "verify", args: "COUNTS --truth FILE [--samples SRC] [--symfs DIR]", short: "compare inferred counts with exact ones",
	long: `COUNTS is a counts document (backfeed infer --format json). The file of --truth is what callgrind counted:

    valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes \
        --callgrind-out-file=FILE PROGRAM

or the same as JSON, compressed or not; testdata/qemu makes that of programs for AArch64, too. Runs
need not be equally long: one scale is fitted to all counts. Instructions weigh by their samples in
SRC, which the images are needed for, or else by their exact executions. Confidence is held to its
promise, program-wide and within each function. Callgrind counts the repetitions of
string instructions; in images that are found they count once for each execution. The two histograms
are figures 8 and 9 of the DCPI paper (Anderson et al., SOSP 1997).`,
	examples: `backfeed infer app.bfr --format json -o counts.json
backfeed verify counts.json --truth app.callgrind --samples app.bfr`,
	run: runVerify,
}

func runVerify(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	sources := fs.StringArray("samples", nil, "weigh instructions by the samples of `SRC`; may be given again")
	truthFile := fs.String("truth", "", "compare with the exact counts in `file`")
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	if fs.NArg() == 2 && *truthFile == "" {
		*truthFile = fs.Arg(1)
		c.warn("the exact counts are named by --truth FILE now; the old way will go")
	} else if fs.NArg() != 1 {
		return c.usage(nil)
	}
	if *truthFile == "" {
		return c.usage(errors.New("want --truth FILE: what is compared with"))
	}
	doc, err := input.File(fs.Arg(0), document.Read)
	if errors.Is(err, document.ErrFormat) {
		err = fmt.Errorf("%w; want what `backfeed infer --format json` writes", err)
	}
	if err != nil {
		return err
	}
	exact, err := input.File(*truthFile, truth.Read)
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
		if samples, err = samplesByAddr(src, doc.Event.Name); err != nil {
			return err
		}
	}
	c.countOnce(src, doc, exact)
	a := truth.Compare(doc, exact, samples)
	if a.Scale == 0 || a.NoBlock == 1 {
		return fail.Errorf(fail.Nothing, "%s and %s have no code in common: are both of the same build?", fs.Arg(0), *truthFile)
	}
	figures := report.NewAccuracy(a)
	return c.print("-", format, figures, figures.Measures(), func(w io.Writer, style report.Style) error {
		return report.WriteAccuracy(w, a, len(samples) > 0, style)
	})
}

// countOnce takes the repetitions of string instructions off the truth, for images that can be found.
func (c *cli) countOnce(src *input.Session, doc *document.Counts, exact *truth.Counts) {
	var repeated, all, unknown uint64
	for path, it := range exact.Images {
		total := it.Total()
		all += total
		i := slices.IndexFunc(doc.Images, func(im document.Image) bool { return truth.SamePath(im.Path, path) })
		if i < 0 {
			continue // nothing of it is compared
		}
		n, err := countOnce(src, &doc.Images[i], it)
		if err != nil {
			unknown += total
		}
		repeated += n
	}
	if repeated > 0 {
		c.warn("%s of the truth are repetitions of string instructions, which count once for each execution: nothing to do", report.Share(repeated, all))
	}
	if unknown > 0 {
		c.warn("of images with %s of the truth, which are not at hand, string instructions count by their repetitions", report.Share(unknown, all))
	}
}

// countOnce takes those of one image off, and returns how many there were.
func countOnce(src *input.Session, of *document.Image, it *truth.Image) (repetitions uint64, err error) {
	id := sample.ImageID{Path: of.Path}
	if of.BuildID != "" {
		if id.Build, err = sample.ParseBuildID(of.BuildID); err != nil {
			return 0, err
		}
	}
	im, err := src.Open(id)
	if err != nil {
		return 0, err
	}
	return it.CountOnce(im)
}

// sampled reads the samples of all paths, of which there may be none.
func (c *cli) sampled(paths []string, opt *input.Options) (*input.Session, error) {
	if len(paths) == 0 {
		if err := c.fs.refuse("it chooses from a store that --samples names", "since", "until", "label"); err != nil {
			return nil, c.usage(err)
		}
		return input.New(*opt)
	}
	return c.read(paths, opt)
}

// samplesByAddr returns the samples of one event their addresses.
func samplesByAddr(src *input.Session, event string) (truth.SamplesByAddr, error) {
	by := truth.SamplesByAddr{}
	for _, counts := range src.Recording.Counts {
		if counts.Event.Name != event {
			continue
		}
		for _, ic := range counts.Images {
			im, err := src.Open(ic.ID)
			if err != nil {
				continue // told below
			}
			by.Add(ic, im)
		}
	}
	src.TellImages(src.Recording)
	if len(by) == 0 {
		return nil, fail.Errorf(fail.Nothing, "no samples of event %q in an image that can be found (`backfeed images` says which are missing)", event)
	}
	return by, nil
}
