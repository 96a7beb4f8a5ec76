package main

import (
	"errors"
	"io"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
)

var profCmd = &command{
	name: "prof", args: "SRC... [--symfs DIR] [--by procedure|image|file|line] [--experiment pcsamp|usertime|ideal|fpe]", short: "list procedures by samples, with how often each ran, by call stack, or against their ideal time",
	reads: symfsHelp,
	long: `Executions are inferred; a dash means that nothing is known. What no procedure could be given
stands at its place in the list, in parentheses, so that the shares add up to all samples.
Recorded code of the kernel and of JIT compilers is named as far as this machine knows it now.

--experiment shows the same samples otherwise, by the names that SpeedShop had for them:

pcsamp    as above
usertime  by call stack: samples in a procedure and what it called (inclusive), once however often it
          is on the stack, and in itself (exclusive); with --proc, who called it and whom it called.
          Stacks come from record, which keeps 8 frames, from record -a --callers, and from perf record
          --call-graph fp; the last line says how many of them reach to where their thread began. What
          was inlined is its caller's.
ideal     what procedures would cost if nothing held them up: executions times the least cycles that
          the machine model has, without instrumenting; the ratio of the cycles that samples tell to
          that; and instructions executed. All inferred: executions share one factor that is unknown.
          Of a program that waits all the time, executions come out too high, and the ratio too low.
fpe       where SIGFPE came from, by instruction, of perf record -e signal:signal_generate --filter
          'sig == 8' -g -- CMD: integer divisions by zero, and exceptions of floating point that
          the program unmasked. Masked ones, which are all unless it did, raise no signal and are not
          seen. x87 reports at the instruction after; others at the very one.

--by adds samples up by something else. A source line is that of the innermost inlined function; samples
of several processes that ran one image are not told apart, since recordings do not.

Of event samples, as of cache misses (perf record -e), --event names those to show, --all-events shows
all side by side, in the order of those that executions are inferred from.`,
	examples: `backfeed prof app.bfr
backfeed prof app.bfr --by line -n 50
backfeed prof /var/lib/backfeed --since 24h --by image
backfeed prof app.bfr --experiment usertime --proc main.main`,
	run: runProf,
}

func runProf(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	n := fs.IntP("lines", "n", 20, "print at most `N` lines; 0 prints all")
	experiment := c.choice("experiment", "what to show", "pcsamp", "usertime", "ideal", "fpe")
	by := c.choice("by", "what to add samples up by", "procedure", "image", "file", "line")
	allEvents := fs.Bool("all-events", false, "show the samples of all events side by side")
	proc := fs.String("proc", "", "with usertime, show callers and callees of procedure `name`")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *proc != "" && experiment.Value != "usertime" {
		return c.usage(errors.New("--proc goes with --experiment usertime"))
	}
	other := by.Value != "procedure" || *allEvents
	if other && experiment.Value != "pcsamp" {
		return c.usage(errors.New("--by and --all-events go with --experiment pcsamp"))
	}
	if experiment.Value == "usertime" {
		opt.StackDepth = deepStack
	}
	if experiment.Value == "fpe" {
		if err := fs.Refuse("fpe shows where signals came from, and infers nothing", "event", "model"); err != nil {
			return c.usage(err)
		}
		return c.fpe(fs.Args(), opt, *n, format)
	}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	switch experiment.Value {
	case "usertime":
		return c.usertime(src, *proc, *n, format)
	case "ideal":
		return c.ideal(src, *n, format)
	}
	if other {
		events := []string{src.Profile.Event.Name}
		if *allEvents {
			events = report.ProfEvents(src.Profile, src.Recording)
		}
		t := report.NewProfTable(sideOf(src), src.Open, by.Value, events, *n)
		rows := t.Rows()
		return c.print("-", format, report.ItemsOf("backfeed.prof-by/2", rows), rows, t.Text)
	}
	rows := report.ProfRows(src.Profile, src.Named)
	if *n > 0 && len(rows) > *n {
		rows = rows[:*n]
	}
	return c.print("-", format, report.ItemsOf("backfeed.prof/2", rows), rows, func(w io.Writer, style report.Style) error { return report.WriteProf(w, rows, style) })
}

// deepStack is how many frames of a stack usertime reads: all that Linux records
// (kernel.perf_event_max_stack, 127 unless it was raised).
const deepStack = 127

// usertime shows time by call stack, that of proc by caller and callee.
func (c *cli) usertime(src *input.Session, proc string, lines int, format *flagset.Choice) error {
	times := src.Profile.CallTimes(src.Recording)
	doc := report.NewUsertime(src.Profile, times, lines)
	if doc == nil {
		return fail.Errorf(fail.Nothing, "prof: no call stacks were recorded; want perf record --call-graph fp, record, or record -a --callers")
	}
	if proc == "" {
		return c.print("-", format, doc, doc.Rows, doc.Text)
	}
	edges := doc.Butterfly(times, proc)
	if len(edges) == 0 {
		return fail.Errorf(fail.Nothing, "prof: %s is on no call stack (prof --experiment usertime without --proc lists what is)", proc)
	}
	return c.print("-", format, doc, edges, func(w io.Writer, style report.Style) error { return doc.ButterflyText(w, edges, style) })
}

// fpe shows where signals of arithmetic came from.
func (c *cli) fpe(paths []string, opt *input.Options, lines int, format *flagset.Choice) error {
	src, err := c.read(paths, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	doc, seen := report.NewFPE(src.Recording, src.Open, lines)
	if !seen {
		return fail.Errorf(fail.Nothing, "prof: no signals were recorded; want perf record -e signal:signal_generate --filter 'sig == 8' -g --buildid-all -- CMD")
	}
	src.TellImages(src.Recording)
	return c.print("-", format, doc, doc.Rows, doc.Text)
}

// ideal shows the time that procedures would take if nothing held them up.
func (c *cli) ideal(src *input.Session, lines int, format *flagset.Choice) error {
	x, err := src.Explain()
	if err != nil {
		return err
	}
	doc := report.NewIdeal(src.Profile, x, lines)
	return c.print("-", format, doc, doc.Rows, doc.Text)
}
