package main

import (
	"fmt"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

var topstallsCmd = &command{
	name: "topstalls", args: "SRC... [--symfs DIR] [--cause CAUSE] [--image FILE|--proc PROC]", short: "list the instructions that waited longest, and what for",
	reads: symfsHelp,
	long: `A stall is the time of an instruction beyond the least that the machine model gives it. Its share is
of all time; cycles are those of all executions, "each" those of one. Letters are the causes that cannot
be ruled out, the likeliest first, without those that explain less than a tenth at most; JSON has all,
with the least and the most that each explains:

` + "  " + legendLines + `

"conf" has two letters (none, low, medium, high): program-wide and within-function confidence of
executions. --conf goes by the latter. Shares of time are as
good as the samples are; cycles of one execution are as good as the count, which the program-wide confidence is about.

With --image or --proc, shares are of all time still. ` + procHelp,
	examples: `backfeed topstalls app.bfr
backfeed topstalls app.bfr --cause dcache-miss --conf medium
backfeed topstalls app.bfr --proc main.handle`,
	run: runTopstalls,
}

// legendLines are the letters of causes for a command's help.
var legendLines = report.Legend(76, "\n  ")

func runTopstalls(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	n := fs.IntP("lines", "n", 20, "list at most `N` instructions; 0 lists all")
	least := c.choice("conf", "list stalls whose counts are known at least this well", "low", "medium", "high")
	want := fs.String("cause", "", "list stalls that `cause`, a name or a letter, may explain, by how much it may")
	inImage := fs.String("image", "", "only in the image with that `path` or build ID")
	inProc := fs.String("proc", "", "only in procedure `name`")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *inImage != "" && *inProc != "" {
		return c.usage(errImageAndProc)
	}
	pick := report.StallFilter{Conf: infer.Low}
	for conf := infer.Low; conf <= infer.High; conf++ {
		if conf.String() == least.Value {
			pick.Conf = conf
		}
	}
	if *want != "" {
		cause, err := report.CauseNamed(*want)
		if err != nil {
			return c.usage(fmt.Errorf("--cause: %w", err))
		}
		pick.Cause, pick.One = cause, true
	}
	opt.Images = []string{*inImage}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	if pick.In, err = subjectOf(src, *inImage, *inProc); err != nil {
		return err
	}
	x, err := src.Explain()
	if err != nil {
		return err
	}
	doc := report.NewTopStalls(src.Profile, x, pick, *n)
	return c.print("-", format, doc, doc.Stalls, doc.Text)
}
