package main

import (
	"errors"
	"fmt"
	"io"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/layout"
)

// advice are the flags that ask for advice in place of an order.
type advice struct {
	fluff, align, huge bool
	lines              int
}

func (c *cli) advice() *advice {
	a := &advice{}
	c.fs.BoolVar(&a.fluff, "fluff", false, "list the code that is cold by evidence, as text or json")
	c.fs.BoolVar(&a.align, "align", false, "list the loops, targets of jumps and functions that should be aligned, as text or json")
	c.fs.BoolVar(&a.huge, "huge-pages", false, "say which code should be on 2 MB pages, as text or json")
	c.fs.IntVarP(&a.lines, "lines", "n", 20, "of advice, list at most `N` items in text; 0 lists all")
	return a
}

// asked reports whether the user wants advice.
func (a *advice) asked() bool { return a.fluff || a.align || a.huge }

// check refuses what makes no sense together.
func (a *advice) check(fs *flagset.Set, target *flagset.Choice) error {
	asked := 0
	for _, b := range []bool{a.fluff, a.align, a.huge} {
		if b {
			asked++
		}
	}
	switch {
	case asked > 1:
		return errors.New("--fluff, --align and --huge-pages are asked for one at a time")
	case asked == 1 && fs.Changed("for") && target.Value != "text" && target.Value != "json":
		return fmt.Errorf("--for %s is an order, not advice; want text or json", target.Value)
	case asked == 0:
		return fs.Refuse("it goes with --fluff, --align or --huge-pages", "lines")
	}
	if target.Value == "json" {
		if err := fs.Refuse("--for json has all items", "lines"); err != nil {
			return err
		}
	}
	return fs.Refuse("it is about an order, and --fluff, --align and --huge-pages make none", "html", "startup", "holdout", "relinked", "ld")
}

// advise prints what the user asked for.
func (c *cli) advise(a *advice, target *flagset.Choice, out string, src *input.Session, ip *infer.ImageProfile) error {
	var doc any
	var text func(io.Writer, report.Style) error
	c.progress("looking at %d functions of %s", len(ip.Procs), ip.ID.Path)
	defer c.clearProgress()
	switch {
	case a.align:
		al := layout.Align(ip)
		doc = report.NewAlignment(ip, al)
		text = func(w io.Writer, style report.Style) error { return report.WriteAlignment(w, ip, al, a.lines, style) }
	case a.huge:
		order, err := c.order(src, ip, "", 0)
		if err != nil {
			return err
		}
		h := layout.Huge(ip, order)
		doc = report.NewHugePages(ip, h)
		text = func(w io.Writer, style report.Style) error { return report.WriteHugePages(w, ip, h, a.lines, style) }
	default:
		f := layout.FindFluff(src.Profile, ip, func(done, total int) {
			c.progress("looking at %d functions of %s: %d%%", total, ip.ID.Path, 100*done/max(total, 1))
		})
		doc = report.NewFluff(src.Profile, ip, f)
		text = func(w io.Writer, style report.Style) error {
			return report.WriteFluff(w, src.Profile, ip, f, a.lines, style)
		}
	}
	if target.Value == "json" {
		return c.writeJSON(out, doc)
	}
	return c.writeText(out, c.style(out), text)
}
