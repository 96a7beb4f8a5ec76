package main

import (
	"errors"
	"io"

	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/document"
)

var inferCmd = &command{
	name: "infer", args: "SRC... [--symfs DIR] [--stalls] [-o FILE]", short: "infer how often every block, edge and call ran",
	reads: symfsHelp,
	long: `The format json is the counts document; its schema is infer/document/counts.schema.json. The format csv has
its blocks; text and markdown sum it up. Confidence is a promise: 9 counts in 10 are within 10 % of the truth where it is
high, within a factor 2 where it is medium; low promises nothing. "confidence" is program-wide, about the count
itself: low where nothing but time was sampled, but for loops that wait for nothing. "confidence_within" is about how often a block runs beside the others of
its procedure, which samples of a timer tell; the text shows it by samples. The topic accuracy of backfeed help says how
often they held. Indirect calls have targets with shares, as far as walks, call stacks or branch records saw them.

--stalls adds to the blocks of sampled procedures the cycles of an execution, the least that they can take by the machine
model, and culprits of the rest: from samples of cycles or of a timer alone. Of a culprit, least is what no
other explains. Cycles are no surer than the counts that they were divided by.`,
	examples: `backfeed infer app.bfr
backfeed infer app.bfr --format json -o counts.json
backfeed infer app.bfr --image app --places 20`,
	run: runInfer,
}

func runInfer(c *cli, args []string) error {
	fs := c.flags()
	opt, out, format := c.inputs(), c.output(), c.format()
	c.names()
	c.inference(opt)
	n := fs.IntP("lines", "n", 20, "list at most `N` procedures in text; 0 lists all")
	want := fs.String("image", "", "infer what ran of the image with that `path` or build ID, and of no other")
	fs.IntVar(&opt.Infer.Places, "places", 0, "instead of counts, list the `N` blocks whose counts, if exact, would make most others surer")
	stalls := fs.Bool("stalls", false, "tell of blocks what cycles an execution took, takes at least, and what may explain the rest; with --format json")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if fs.Changed("places") && opt.Infer.Places == 0 {
		return c.usage(errors.New("--places 0: want 1 or more"))
	}
	if *stalls && (format.Value != "json" || opt.Infer.Places > 0) {
		return c.usage(errors.New("--stalls is for the counts document: --format json"))
	}
	if format.Value == "json" || format.Value == "csv" || opt.Infer.Places > 0 {
		if err := fs.Refuse("only the table of procedures is cut", "lines"); err != nil {
			return c.usage(err)
		}
	}
	opt.Infer.Executions, opt.Images, opt.Only = true, []string{*want}, *want
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	if opt.Infer.Places > 0 {
		rows := report.PlaceRows(src.Profile)
		return c.print(*out, format, report.ItemsOf("backfeed.places/2", rows), rows, func(w io.Writer, style report.Style) error { return report.WritePlaces(w, rows, style) })
	}
	if format.Value == "json" {
		targets := feedback.NewTargets(src.Profile, src.Recording)
		add := targets.Document
		if *stalls {
			x, err := src.Explain()
			if err != nil {
				return err
			}
			add = func(ip *infer.ImageProfile, r *infer.Result, d *document.Proc) {
				targets.Document(ip, r, d)
				x.Document(ip, r, d)
			}
		}
		return c.writeAsJSON(*out, func(w io.Writer) error { return infer.WriteDocument(w, src.Profile, add) })
	}
	if format.Value == "csv" {
		return c.print(*out, format, nil, report.BlockRows(src.Profile), nil)
	}
	return c.print(*out, format, nil, nil, func(w io.Writer, style report.Style) error {
		return report.WriteProfile(w, src.Profile, *n, style)
	})
}
