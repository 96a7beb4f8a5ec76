package main

import (
	"errors"
	"io"

	"backfeed/infer/source"
)

var reportCmd = &command{
	name: "report", args: "SRC... [--html FILE] [--against SRC] [--symfs DIR] [--source DIR]", short: "say what matters most of where time went, and why; as one page, all of it",
	reads: symfsHelp,
	long: `It prints what was recorded, and five findings: where the time goes, the longest stalls with their
likeliest cause, what a profile would tell the compiler, what another layout of the code would bring, and
what is not known. The procedures with most cycles follow.

With --html it writes a page instead. The page is one file, to attach to a ticket: procedures with their executions, CPI and the likeliest
causes of their stalls; causes by image and recording; how far the figures are to be trusted; the
flow graph and the annotated code of the hottest procedures; how executed code of the hottest image
lies in memory; what a build would do with the recording, and the commands that make its files; the
flame graph of a recording with stacks. It needs a browser and nothing else: no
network, and scripts only for comfort: flow graphs then have all blocks, where there is room, and move.
Code that took hardly any time is left out, and so are further procedures once their code has 3 MB: the
file stays below 5 MB.

--against names an older recording, of the same build or another: the page then has what differs by procedure, the
blocks of the five that changed most beside those before, and, if both have stacks, a flame graph of the change.
Flags that choose from stores choose from both.

With --source DIR the code has its source beside it, where a file below DIR has the end of its path.

--truth holds the counts to exact ones, as the command verify does.`,
	examples: `backfeed report app.bfr
backfeed report app.bfr --html app.html --source .
backfeed report new.bfr --html new.html --against old.bfr`,
	run: runReport,
}

func runReport(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	opt.StackDepth = deepStack // of the flame graph
	html := fs.String("html", "", "write the page to `file`")
	n := fs.IntP("lines", "n", 20, "show `N` procedures at most, those with the most cycles; in a page, their code")
	fs.Alias("procedures", "lines")
	dirs := fs.StringArray("source", nil, "show source, of files below `dir`; may be given several times")
	against := fs.StringArray("against", nil, "compare with the older recording `SRC`; may be given several times")
	truths := truthFiles(fs)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *n < 0 {
		return c.usage(errors.New("-n: want a number that is not negative"))
	}
	if err := fs.Refuse("without --html there is no page", onlyIf(*html == "", "source", "truth", "against")...); err != nil {
		return c.usage(err)
	}
	if err := fs.Refuse("a page is HTML", onlyIf(*html != "", "format")...); err != nil {
		return c.usage(err)
	}
	if err := c.selects(fs.Args()); err != nil {
		return err
	}
	src, old, err := c.inferredAgainst(fs.Args(), *against, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	v, err := c.view(src, fs.Args(), *truths)
	if err != nil {
		return err
	}
	if old != nil {
		defer old.Close()
		v.Against(old)
	}
	if *html == "" {
		c.progress("looking for what matters most")
		o := v.Overview(*n)
		c.clearProgress()
		return c.print("-", format, o, o.Items, o.Print)
	}
	var text *source.Text
	if len(*dirs) > 0 { // the page leaves this machine: nothing is in it that nobody asked for
		if text, err = source.Only(*dirs); err != nil {
			return err
		}
		v.SetSource(text)
	}
	page, err := v.Report(*n, func(done, total int) { c.progress("writing the code of %d of %d procedures", done, total) })
	c.clearProgress()
	if err != nil {
		return err
	}
	if text != nil {
		c.tellWithheld(text)
	}
	if err := c.write(*html, func(w io.Writer) error { return page.Write(w) }); err != nil {
		return err
	}
	if *html != "-" {
		c.warn("wrote %s; open it in a browser", *html)
	}
	return nil
}

// onlyIf returns names if they are to be refused.
func onlyIf(is bool, names ...string) []string {
	if !is {
		return nil
	}
	return names
}
