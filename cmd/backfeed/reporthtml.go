package main

import (
	"errors"
	"io"

	"backfeed/infer/source"
)

var reportCmd = &command{
	name: "report", args: "--html FILE SRC... [--symfs DIR] [--source DIR]", short: "write one page that says where time went, and why",
	reads: symfsHelp,
	long: `The page is one file, to attach to a ticket: procedures with their executions, CPI and the likeliest
causes of their stalls; causes by image and recording; how far the figures are to be trusted; the
flow graph and the annotated code of the hottest procedures; how executed code of the hottest image
lies in memory. It needs a browser and nothing else: no network, and scripts only for comfort. Code that
took hardly any time is left out, and so are further procedures once the file has 8 MB.

With --source DIR the code has its source beside it, where a file below DIR has the end of its path.

--truth holds the counts to exact ones, as the command verify does.`,
	examples: `backfeed report app.bfr --html app.html --source .`,
	run:      runReport,
}

func runReport(c *cli, args []string) error {
	fs := c.flags()
	opt := c.inputs()
	c.names()
	c.inference(opt)
	html := fs.String("html", "", "write the page to `file`")
	n := fs.IntP("lines", "n", 20, "show the code of `N` procedures at most, those with the most cycles")
	fs.Alias("procedures", "lines")
	dirs := fs.StringArray("source", nil, "show source, of files below `dir`; may be given several times")
	truth := fs.String("truth", "", "compare with the exact counts in `file`, of callgrind")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	switch {
	case *html == "":
		return c.usage(errors.New("--html FILE says what to write"))
	case *n < 0:
		return c.usage(errors.New("-n: want a number that is not negative"))
	}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	v, err := c.view(src, *truth)
	if err != nil {
		return err
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
