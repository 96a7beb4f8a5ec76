package main

import (
	"errors"
	"io"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

var profCmd = &command{
	name: "prof", args: "SRC... [--symfs DIR] [--by procedure|image|file|line|process|thread|cpu|cgroup|time|run] [--experiment pcsamp|usertime|ideal|mix|fpe]", short: "list procedures by samples, with how often each ran, by call stack, or against their ideal time; and what instructions did",
	reads: symfsHelp,
	long: `Without other flags, a line is a procedure: its samples, and how often it ran, inferred, and the factor
that this is within, up or down, with 90 % confidence. A dash means that nothing is known. Samples in no known procedure are listed in parentheses, so shares add up to 100 %;
--image lists those of one image alone, whose shares are of all still.
Code of JIT compilers is named as this machine knows it now, and so is the kernel's where it cannot be read.

--by adds samples up by image, source file or source line. A line is that of the innermost inlined
function. Processes that ran the same image are one.

--by process, thread, cpu, cgroup and time say what ran, where and when: by the names that processes and
threads had, and by slices of 125 ms or more, at most 64 in a recording. record keeps that, control groups
with -a, --callers, --calibrate or --off-cpu alone, and processors but for ptrace. perf record keeps
all of it, with --all-cgroups these too; stores keep none. Waits have the name that their thread left with,
and are of the slice in which they ended. --between reads a part of the time alone, for every command.
--by run lists the runs that were recorded: when, on which host, and of a command what it used in all, with
children: processor time, most memory of a process, page faults, switches, and blocks of 512 bytes.

--experiment shows the same samples otherwise, by SpeedShop's names:

pcsamp    as above
usertime  by call stack. Inclusive are samples in a procedure and what it called; exclusive are those in
          itself. --proc shows who called it and whom it called. Inlined code is its caller's. Shares
          are of all samples, as above. Stacks come from record --callers, from record, which keeps 8 frames, and from perf record
          --call-graph fp or dwarf. The last line says how many reach to where their thread began.
ideal     what procedures would cost if nothing held them up: executions times the least cycles of the
          machine model. Beside it are the ratio of the sampled cycles to that, and the instructions
          executed. All is inferred: executions share one factor that is unknown, unless record --calibrate
          saw how often code runs: then it is said how well it is known. Of a program that
          mostly waits, executions come out too high, and the ratio too low. --inclusive adds what
          procedures call, by the call stacks of samples.
mix       what instructions did, by kind: how often each kind ran, inferred, and its part of all; how many
          read and write memory, and lead elsewhere. --proc is for one procedure. On five programs, the
          parts were within 0.02 of those by exact counts, of branches that are taken within 0.12.
fpe       where SIGFPE came from, by instruction: integer divisions by zero, and exceptions of floating
          point that the program unmasked. Masked ones raise no signal and are not seen. x87 reports at
          the instruction after. Record with perf record -e signal:signal_generate
          --filter 'sig == 8' -g -- CMD.

A recording may have several events, such as cache misses beside cycles (perf record -e). --event names the
one to show; --all-events shows all side by side. --event off-cpu shows the time that threads were off the
processor, as record --off-cpu has it; off-cpu:interruptible, uninterruptible, stopped, runnable and unknown
that for one reason, and wall all time, on the processor and off it. They are times, exact for the place that a
thread left from; in JSON a sample is a microsecond. Nothing is inferred of them.`,
	examples: `backfeed prof app.bfr
backfeed prof app.bfr --by line -n 50
backfeed prof app.bfr --image libc.so.6
backfeed prof app.bfr --by time
backfeed prof app.bfr --between 10s,20s
backfeed prof app.bfr --event wall --experiment usertime
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
	experiment := c.choice("experiment", "what to show", "pcsamp", "usertime", "ideal", "mix", "fpe")
	by := c.choice("by", "what to add samples up by", slices.Concat([]string{"procedure", "image", "file", "line"}, report.ProfSplits, []string{"run"})...)
	inclusive := fs.Bool("inclusive", false, "with ideal, add what procedures call, by call stacks")
	allEvents := fs.Bool("all-events", false, "show the samples of all events side by side")
	proc := fs.String("proc", "", "with usertime, show callers and callees of procedure `name`; with mix, its instructions alone")
	inImage := fs.String("image", "", "list procedures of the image with that `path` or build ID alone")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *proc != "" && experiment.Value != "usertime" && experiment.Value != "mix" {
		return c.usage(errors.New("--proc goes with --experiment usertime or mix"))
	}
	if *inImage != "" && (experiment.Value != "pcsamp" || by.Value != "procedure" || *allEvents) {
		return c.usage(errors.New("--image goes with --experiment pcsamp by procedure"))
	}
	if *inclusive && experiment.Value != "ideal" {
		return c.usage(errors.New("--inclusive goes with --experiment ideal; usertime always is"))
	}
	other := by.Value != "procedure" || *allEvents
	if other && experiment.Value != "pcsamp" {
		return c.usage(errors.New("--by and --all-events go with --experiment pcsamp"))
	}
	if by.Value == "time" {
		if err := fs.Refuse("--by time has a line for each slice of time, in their order", "lines"); err != nil {
			return c.usage(err)
		}
	}
	if slices.Contains(report.ProfSplits, by.Value) {
		if err := fs.Refuse("--by "+by.Value+" shows all events side by side or that of --event, and infers nothing", "all-events", "model"); err != nil {
			return c.usage(err)
		}
		if by.Value != "time" {
			if err := fs.Refuse("what ran and where is known of the whole time alone", "between"); err != nil {
				return c.usage(err)
			}
		}
		return c.profSplit(fs.Args(), opt, by.Value, *n, format)
	}
	if by.Value == "run" {
		if err := fs.Refuse("--by run lists runs, and no samples", "all-events", "event", "model", "between"); err != nil {
			return c.usage(err)
		}
		return c.profRuns(fs.Args(), opt, *n, format)
	}
	if experiment.Value == "usertime" || *inclusive {
		opt.StackDepth = deepStack
	}
	if experiment.Value == "fpe" {
		if err := fs.Refuse("fpe shows where signals came from, and infers nothing", "event", "model"); err != nil {
			return c.usage(err)
		}
		return c.fpe(fs.Args(), opt, *n, format)
	}
	if experiment.Value == "mix" {
		if err := fs.Refuse("mix has a line for each kind of instruction", "lines"); err != nil {
			return c.usage(err)
		}
	}
	if other {
		if err := fs.Refuse("of samples by "+by.Value+", or of all events, nothing is inferred", "model"); err != nil {
			return c.usage(err)
		}
		return c.profTable(fs.Args(), opt, by.Value, *allEvents, *n, format)
	}
	opt.Images = []string{*inImage}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	switch experiment.Value {
	case "usertime":
		return c.usertime(src, *proc, *n, format)
	case "ideal":
		return c.ideal(src, *n, *inclusive, format)
	case "mix":
		return c.mix(src, *proc, format)
	}
	of, err := subjectOf(src, *inImage, "")
	if err != nil {
		return err
	}
	rows := report.ProfRows(src.Profile, src.Named, of.Image)
	rows = firstRows(rows, *n)
	return c.print("-", format, report.ItemsOf("backfeed.prof/2", rows), rows, func(w io.Writer, style report.Style) error {
		return report.WriteProf(w, src.Profile.Event.Name, rows, report.ToldEntries(src.Profile), style)
	})
}

// firstRows returns the first n of rows; 0 is all.
func firstRows[T any](rows []T, n int) []T {
	if n <= 0 {
		return rows
	}
	return rows[:min(n, len(rows))]
}

// profTable adds samples up by what they are in, of which nothing is inferred.
func (c *cli) profTable(paths []string, opt *input.Options, by string, allEvents bool, lines int, format *flagset.Choice) error {
	boundGarbage(gcPercent)
	src, err := c.read(paths, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	event, images, err := src.Choose(by != "image")
	if err != nil {
		return err
	}
	events := []string{event}
	if allEvents {
		events = report.ProfEvents(event, src.Recording)
	}
	t := report.NewProfTable(src.Recording, images, src.Named, src.Open, by, events, lines)
	src.TellImages(src.Recording)
	if !t.Placed() {
		return fail.Errorf(fail.Nothing, "prof: none of the samples of %s is in a known image", event)
	}
	rows := t.Rows()
	return c.print("-", format, report.ItemsOf("backfeed.prof-by/2", rows), rows, t.Text)
}

// profSplit shows what ran, where or when.
func (c *cli) profSplit(paths []string, opt *input.Options, by string, lines int, format *flagset.Choice) error {
	src, err := c.read(paths, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	rows, known := report.ProfSplit(src.Recording, opt.Infer.Event, by)
	if !known {
		return fail.Errorf(fail.Nothing, "prof: nothing is known of samples by %s; want a file that record or perf record wrote, not a store: record knows control groups with -a, --callers, --calibrate and --off-cpu, and processors but for ptrace", by)
	}
	if by != "time" {
		rows = firstRows(rows, lines)
	}
	return c.print("-", format, report.ItemsOf("backfeed.prof-split/1", rows), rows, func(w io.Writer, style report.Style) error {
		return report.WriteProfSplit(w, by, rows, style)
	})
}

// profRuns lists the runs that a recording is of.
func (c *cli) profRuns(paths []string, opt *input.Options, lines int, format *flagset.Choice) error {
	src, err := c.read(paths, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	rows := report.RunRows(src.Recording)
	if len(rows) == 0 {
		return fail.Errorf(fail.Nothing, "prof: no runs are known; want a file that record or perf record wrote, not a store or one of an older version")
	}
	if n := src.Recording.Unlisted; n > 0 {
		c.warn("%d more runs are only counted: a recording lists the first %d", n, sample.MaxRuns)
	}
	rows = firstRows(rows, lines)
	return c.print("-", format, report.ItemsOf("backfeed.prof-runs/1", rows), rows, func(w io.Writer, style report.Style) error {
		return report.WriteRuns(w, rows, prose.ShellWord, style)
	})
}

// deepStack is how many frames of a stack usertime and flame graphs read: all that Linux records
// (kernel.perf_event_max_stack, 127 unless it was raised).
const deepStack = 127

var errNoStacks = fail.Errorf(fail.Nothing, "prof: no sample has a caller: none were recorded, or the program has no frame pointers, by which perf record -g and record find callers, or its images, by which copies of stacks are unwound, "+
	"are not found; record with backfeed record --callers or perf record --call-graph dwarf, which need no frame pointers")

// noStacks is the error of samples of an event none of which has a caller.
func noStacks(event string) error {
	if sample.IsOff(event) {
		return fail.Errorf(fail.Nothing, "prof: none of the time of %s has a caller: %s; prof without --experiment usertime lists the places", event, report.NoStacksOff)
	}
	return errNoStacks
}

// usertime shows time by call stack, that of proc by caller and callee.
func (c *cli) usertime(src *input.Session, proc string, lines int, format *flagset.Choice) error {
	times := src.Profile.CallTimes(src.Recording)
	doc := report.NewUsertime(src.Profile, times, lines)
	if doc == nil {
		return noStacks(src.Profile.Event.Name)
	}
	if blind := doc.Stacks.Blind(src.Profile.Event.Name); blind != "" {
		c.warn("%s", blind)
	}
	if proc == "" {
		return c.print("-", format, doc, doc.Rows, doc.Text)
	}
	edges := doc.Butterfly(times, proc)
	if len(edges) == 0 { // the short forms of names that list knows
		one, err := procOf(src, proc)
		switch {
		case err == nil:
			edges = doc.Butterfly(times, one.Result.Proc.Name)
		case fail.KindOf(err) != fail.Nothing:
			return err
		}
	}
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
func (c *cli) ideal(src *input.Session, lines int, inclusive bool, format *flagset.Choice) error {
	x, err := src.Explain()
	if err != nil {
		return err
	}
	var stacks *sample.Recording
	if inclusive {
		stacks = src.Recording
	}
	doc := report.NewIdeal(src.Profile, x, lines, stacks)
	if doc == nil {
		return noStacks(src.Profile.Event.Name)
	}
	if inclusive {
		if blind := doc.Stacks.Blind(src.Profile.Event.Name); blind != "" {
			c.warn("%s", blind)
		}
	}
	return c.print("-", format, doc, doc.Rows, doc.Text)
}

// mix shows what executed instructions did, in all or in one procedure.
func (c *cli) mix(src *input.Session, proc string, format *flagset.Choice) error {
	var of *report.Subject
	if proc != "" {
		one, err := procOf(src, proc)
		if err != nil {
			return err
		}
		of = &one
	}
	doc := report.NewInstructionMix(src.Profile, of)
	if doc == nil {
		return fail.Errorf(fail.Nothing, "prof: no instruction is known to have run")
	}
	return c.print("-", format, doc, doc.Rows, doc.Text)
}
