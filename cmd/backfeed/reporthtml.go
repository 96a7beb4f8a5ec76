package main

import (
	"errors"
	"fmt"
	"io"

	"backfeed/cmd/internal/report"
	"backfeed/infer/source"
)

var reportCmd = &command{
	name: "report", args: "--html FILE SRC... [--symfs DIR] [--source DIR]", short: "write one page that says where time went, and why",
	reads: symfsHelp,
	long: `The page is one file, to attach to a ticket: procedures with their executions, CPI and the likeliest
causes of their stalls; causes by image and recording; how far the figures are to be trusted; the
flow graph and the annotated code of the hottest procedures; how executed code of the hottest image
lies in memory. It needs a browser and nothing else: no network, no script. Code that took hardly
any time is left out, and so are further procedures once the file has 8 MB.

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
	n := fs.IntP("procedures", "n", 20, "show the code of `N` procedures at most, those with the most cycles")
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
	if len(*dirs) > 0 { // the page leaves this machine: nothing is in it that nobody asked for
		if v.source, err = source.Only(*dirs); err != nil {
			return err
		}
	}
	page, err := v.report(*n, func(done, total int) { c.progress("writing the code of %d of %d procedures", done, total) })
	c.clearProgress()
	if err != nil {
		return err
	}
	if v.source != nil {
		c.tellWithheld(v.source)
	}
	return c.write(*html, func(w io.Writer) error { return page.Write(w) })
}

const (
	maxReport = 8 << 20 // bytes of a report after which no procedure is added
	maxRows   = 200     // procedures in its list
)

// report makes all pages one, with the code of n procedures. It calls progress, if there
// is one, with those that are done.
func (v *view) report(n int, progress func(done, total int)) (*report.Page, error) {
	page := report.NewPage("Where the time went", v.lead())
	procs := &sheet{page: report.NewPage("", "")}
	written := 0
	inside := map[*viewed]bool{}
	for i, p := range v.procs[:min(n, len(v.procs))] {
		if written > maxReport {
			break
		}
		if progress != nil {
			progress(i, min(n, len(v.procs)))
		}
		v.addProc(procs, p, p.id, true)
		if procs.err != nil {
			return nil, procs.err
		}
		section := &procs.page.Sections[len(procs.page.Sections)-1]
		section.Quiet = true
		written += len(section.Body)
		inside[p] = true
	}
	list := &report.ProcList{Heads: report.ProcHeads()}
	for _, p := range v.procs[:min(maxRows, len(v.procs))] {
		row := p.row
		if inside[p] {
			row.Href = "#" + p.id
		}
		list.Rows = append(list.Rows, row)
	}
	list.Caption = fmt.Sprintf("%d of %d procedures with samples, by cycles; the code of %d is below", len(list.Rows), len(v.procs), len(inside))
	s := &sheet{page: page}
	s.add("procedures", "Procedures", list.HTML)
	s.add("images", "Images", table(v.imageTable(), ""))
	v.addCauses(s)
	v.addImageCauses(s)
	v.addConfidence(s)
	if s.err != nil {
		return nil, s.err
	}
	heat, err := v.heatMap(v.hottestImage())
	if err != nil {
		return nil, err
	}
	heat.Sections[0].Title = heat.Title
	page.Append(heat)
	s.add("reading", "How to read the code below", text("%s", listingNote(v.x)))
	page.Sections = append(page.Sections, procs.page.Sections...)
	return page, s.err
}
