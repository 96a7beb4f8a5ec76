package main

import (
	"io"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/report"
	"backfeed/layout"
)

var layoutCmd = &command{
	name: "layout", args: "IMAGE SRC... [--symfs DIR] [--for lld|gold|ld|ld-script|bolt|propeller|mold|go|text|json] [--holdout SRC]... [--relinked FILE] [--startup[=TIME]] [--fluff|--align|--huge-pages] [--html FILE] [--always] [-o FILE]", short: "suggest an order for the functions of an image",
	reads: symfsHelp,
	long: `IMAGE is the path of an image, here or where it was recorded, or its build ID. Functions that call
each other often come to lie together, those that never ran stay behind. For linkers, the hot ones are then moved so that a run
drawn from the counts, through libraries too, misses fewer lines in an instruction cache of 32 KB. Where the result is clearly
better in neither pages nor misses, or clearly worse in one, as linked is as good: nothing is written, and the exit code is 3.

` + layoutForHelp + `

` + layoutScoresHelp + `

` + startupHelp + `

--fluff lists the code that is cold by evidence instead, as text or json: blocks that nothing leads to
that ran, and whole procedures that all recordings together never entered, with what refers to them
and how often they ran at most. What merely has no sample is listed apart: it may have run.

--align lists the loops, targets of jumps and functions that lie in more 32-byte windows or 64-byte
lines than they need, with what aligning them saves and costs and the options that do it. --huge-pages
says how many 2 MB pages the hot code needs, and how to put it there. Both print text or json.

--html draws where in memory the executed instructions lie, as linked and as the reader of the order
would place them, page by page and cache line by cache line: one file, for any browser. The order
itself is then written only if --for or --output asks for it.`,
	examples: `backfeed layout ./app app.bfr --for lld -o app.order
backfeed layout ./app app.bfr --for text --holdout other.bfr
backfeed layout ./app start.bfr --startup 200ms --for lld -o app.order
backfeed layout ./app app.bfr --fluff`,
	run: runLayout,
}

func runLayout(c *cli, args []string) error {
	fs := c.flags()
	opt, out := c.inputs(), c.output()
	c.inference(opt)
	c.names()
	target := c.choice("for", "who reads the order", layoutTargets...)
	ld := fs.String("ld", "", "for propeller: write the order for the linker to `file`")
	advice := c.advice()
	html := fs.String("html", "", "draw both layouts as a heat map in `file`")
	judge := c.judgement()
	startup := c.startup()
	always := fs.Bool("always", false, "write an order for a linker even if it is not clearly better than what is linked")
	if err := fs.Parse(args); err != nil || fs.NArg() < 2 {
		return c.usage(err)
	}
	if err := advice.check(fs, target); err != nil {
		return c.usage(err)
	}
	if target.Value != "text" && !advice.asked() && *html == "" {
		if err := fs.Refuse("--for "+target.Value+" is for a tool, which knows the linker's names", "mangled"); err != nil {
			return c.usage(err)
		}
	}
	if err := checkLD(target.Value, *ld); err != nil {
		return c.usage(err)
	}
	if err := checkStartup(target.Value, *startup); err != nil {
		return c.usage(err)
	}
	if err := emit.Unordered(target.Value, nil); err != nil {
		return err
	}
	if err := judge.check(target.Value); err != nil {
		return c.usage(err)
	}
	opt.Images = []string{fs.Arg(0)}
	opt.Infer.Executions = true
	src, err := c.inferred(fs.Args()[1:], opt)
	if err != nil {
		return err
	}
	defer src.Close()
	ip, err := src.Image(fs.Arg(0))
	if err != nil {
		return err
	}
	if advice.asked() {
		return c.advise(advice, target, *out, src, ip)
	}
	ordering := *html == "" || fs.Changed("for") || fs.Changed("output")
	if ordering {
		if err := emit.Unordered(target.Value, ip.Image); err != nil {
			return err
		}
	}
	order, err := c.order(src, ip, target.Value, *startup)
	if err != nil {
		return err
	}
	if len(order.Symbols) == 0 && target.Value != "go" {
		return emit.NoSymbols(ip, order)
	}
	if *html != "" {
		c.progress("drawing the layout of %d functions of %s", len(order.Symbols), ip.ID.Path)
		err := c.write(*html, func(w io.Writer) error {
			return report.NewHeatMap(src.Profile, ip, order, movesBlocks[target.Value], report.Style{Mangled: c.mangled}).Write(w)
		})
		if err != nil || !ordering {
			return err
		}
		c.clearProgress()
	}
	if target.Value == "propeller" {
		return c.emitClusters(*out, *ld, src, ip)
	}
	var scores []layout.Judged
	if target.Value == "text" || target.Value == "json" {
		if scores, err = judge.of(c, fs.Arg(0), order, ip, opt); err != nil {
			return err
		}
	}
	if target.Value != "text" && target.Value != "json" {
		c.tellStart(order.Start)
	}
	return c.writeLayout(*out, target.Value, order, ip, scores, *always || order.Start != nil)
}
