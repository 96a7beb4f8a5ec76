package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/source"
)

var listCmd = &command{
	name: "list", args: "PROC SRC... [--symfs DIR] [--source DIR]", short: "show a procedure's code with what its instructions cost and wait for",
	reads: symfsHelp,
	long: procHelp + `

samples  as recorded: on a core that executes out of order, a timer's are at the instruction after
time     share of the procedure's time at the instruction that was waited for, which all that follows goes by
events   of a recording of several events: the part of an event's samples in the procedure that is at the
         instruction. The two with most samples have a column, with --all-events all; above is how many there
         are of each. They are as recorded, too: most events are caught some instructions later
cyc/exec  cycles per execution; least is what the machine model expects, "for" what that waits for: an
         instruction's result, a unit, or the fetching of code
conf     program-wide and within-function confidence of executions (none, low, medium, high): how well they
         are known, and how well beside those of the procedure; cyc/exec is no better than the former

A bar before an instruction is its stall: a mark for each cycle beyond the least, up to 24, its letters
(` + "`backfeed help topstalls`" + ` has them), and what the likeliest causes explain, from which instruction on if not
the one below. Stalls of less than 1 % of the procedure's time are not drawn.

Code with less than 0.5 % of the procedure's time is folded. Stretches are in order of time, or all
by address with --address.

` + sourceHelp,
	examples: `backfeed list main.handle app.bfr --source .
backfeed list ./app:lookup app.bfr --address -n 0
backfeed list lookup perf.data --all-events`,
	run: runList,
}

func runList(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	dirs := fs.StringArray("source", nil, "look up source files below `dir`; may be given several times")
	v := report.ListView{}
	fs.BoolVar(&v.Address, "address", false, "list by address, not by time")
	fs.BoolVar(&v.All, "unfolded", false, "fold nothing")
	fs.Alias("all", "unfolded")
	fs.BoolVar(&v.Events, "all-events", false, "in text, have a column for each event, not for two")
	fs.IntVarP(&v.N, "lines", "n", 200, "show at most `N` instructions in text; 0 shows all")
	if err := fs.Parse(args); err != nil || fs.NArg() < 2 {
		return c.usage(err)
	}
	if format.Value == "json" || format.Value == "csv" {
		if err := fs.Refuse("--format "+format.Value+" has all instructions, by address", "lines", "unfolded", "address", "all-events"); err != nil {
			return c.usage(err)
		}
	}
	text, err := source.NewText(*dirs, input.SymfsDirs(opt.Symfs))
	if err != nil {
		return err
	}
	v.Source = text
	src, err := c.inferred(fs.Args()[1:], opt)
	if _, there := os.Stat(fs.Arg(0)); errors.Is(err, os.ErrNotExist) && there == nil {
		return fmt.Errorf("%w; %s is a file, and the procedure comes before the recordings: backfeed list PROC SRC", err, fs.Arg(0))
	}
	if err != nil {
		return err
	}
	defer src.Close()
	of, err := procOf(src, fs.Arg(0))
	if err != nil {
		return err
	}
	x, err := src.Explain()
	if err != nil {
		return err
	}
	text.Expect(of.Image.Image, of.Result.Proc)
	doc := report.NewList(src.Profile, x, of)
	doc.AddEvents(src.Recording, of)
	err = c.print("-", format, doc, doc.Insts, func(w io.Writer, style report.Style) error { return doc.Text(w, style, &v) })
	c.tellWithheld(text)
	return err
}

// procOf finds the procedure that the user means.
func procOf(s *input.Session, want string) (report.Subject, error) {
	ip, r, err := s.Proc(want)
	return report.Subject{Image: ip, Result: r}, err
}

var errImageAndProc = errors.New("--image with --proc: an image's procedure is --proc IMAGE:PROC")

// subjectOf returns the image or the procedure of that name; everything if there is neither name.
func subjectOf(s *input.Session, image, proc string) (of report.Subject, err error) {
	switch {
	case proc != "":
		return procOf(s, proc)
	case image != "":
		of.Image, err = s.Image(image)
	}
	return of, err
}

// tellWithheld says once per reason which source files are not shown.
func (c *cli) tellWithheld(s *source.Text) {
	for _, note := range report.SourceNotes(s, s.Missing()) {
		c.warn("%s", note)
	}
}
