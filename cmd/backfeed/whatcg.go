package main

import (
	"errors"
	"fmt"

	"backfeed/cmd/internal/report"
	"backfeed/infer/explain"
)

var whatcgCmd = &command{
	name: "whatcg", args: "SRC... [--symfs DIR] [--image IMAGE|--proc PROC|--cause CAUSE]", short: "say where the cycles go, by cause",
	reads: symfsHelp,
	long: `All time of the recording, of an image or of a procedure adds up to 100 % in the column "share":

static       what the machine model expects of the code: of slow operations (divider, multiplier, lock,
             microcode), of so many instructions (dispatch), of other results that are waited for
             (dependency), of units that others use (unit), of code to be fetched
stall        time beyond that, by the likeliest cause of each stall, as far as that one explains it. "least"
             is what nothing else can explain, "most" what the cause may explain of all stalls
several      what of stalls the likeliest cause cannot explain, but others can
unexplained  what of stalls no cause can explain
uncounted    code whose executions are not known, so that least and stall are not
kernel, elsewhere  samples that are in no procedure of an image that is here

The shares of the top-down method are made from events that count places of the pipeline, where the recording
has them: four at level 1, and their parts down to level 3, by the formulas that Intel publishes for Skylake, Ice
Lake and Golden Cove, AMD for Zen 4 and 5, Arm for Neoverse V1 to V3, N2 and N3. Of Neoverse N1, which counts no
places, Arm publishes the cycles in which either end of the pipeline stalls, and ratios of misses to look at next: they are no
four shares, which stay estimated. Each has the range that
chance makes of its samples, with 95 % confidence, and Intel's the threshold above which it is high, as its parent must
be, too. Below the table is what to do about those that are high; where nothing is published, about the largest
loss. What the recording has no events for is left out, and so are its parts; the last line is a command that records
more. Where events took turns on counters, counts are scaled to all of the time, and the column reliability is the
part of it in which those of a metric were counted (multiplexing reliability). Files of plain ` + "`perf record`" + ` do not tell,
which is said below the table: record few events at once. ` + "`perf record -s`" + ` tells of threads that ended, and of groups (` + "`'{a,b}:S'`" + `);
where the times of its threads contradict each other, as the kernel mixes those of threads that take turns on a
processor, they are not used. Without such events, the four shares are estimated from causes, and are ranges.

--cause lists the procedures that one cause may cost most; with mispredict, also how many of their branches are
expected to be mispredicted by where they go, for 1000 instructions of the recording. ` + procHelp,
	examples: `backfeed whatcg app.bfr
backfeed whatcg perf.data
backfeed whatcg app.bfr --proc lookup
backfeed whatcg app.bfr --cause mispredict -n 5`,
	run: runWhatcg,
}

func runWhatcg(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	inImage := fs.String("image", "", "only of the image with that `path` or build ID")
	inProc := fs.String("proc", "", "only of procedure `name`")
	stall := fs.String("cause", "", "list the procedures that stall for `cause`, a name or a letter")
	n := fs.IntP("lines", "n", 20, "with --cause, list at most `N` procedures; 0 lists all")
	fs.Alias("stall", "cause")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *stall == "" && fs.Changed("lines") {
		return c.usage(errors.New("-n goes with --cause: without it there is one line for each cause"))
	}
	if *inImage != "" && *inProc != "" {
		return c.usage(errImageAndProc)
	}
	var cause explain.Cause
	if *stall != "" {
		var err error
		if cause, err = report.CauseNamed(*stall); err != nil {
			return c.usage(fmt.Errorf("--cause: %w", err))
		}
	}
	opt.Images = []string{*inImage}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	of, err := subjectOf(src, *inImage, *inProc)
	if err != nil {
		return err
	}
	x, err := src.Explain()
	if err != nil {
		return err
	}
	if *stall != "" {
		doc := report.NewBlamed(src.Profile, x, of, cause, *n)
		return c.print("-", format, doc, doc.Procedures, doc.Text)
	}
	doc := report.NewWhatCG(src.Profile, x, of)
	return c.print("-", format, doc, doc.Spent, doc.Text)
}
