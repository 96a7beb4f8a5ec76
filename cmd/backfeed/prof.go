package main

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/sample"
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

// A procRow is one procedure, or samples that have none.
type procRow struct {
	Samples    uint64   `json:"samples"`
	Share      float64  `json:"share"`
	Sum        float64  `json:"sum"`                  // of the shares so far
	Executions *float64 `json:"executions,omitempty"` // nil is unknown
	Confidence string   `json:"confidence,omitempty"`
	Image      string   `json:"image,omitempty"`
	report.Name
	Lost string `json:"lost,omitempty"`
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
	if *proc != "" && experiment.value != "usertime" {
		return c.usage(errors.New("--proc goes with --experiment usertime"))
	}
	other := by.value != "procedure" || *allEvents
	if other && experiment.value != "pcsamp" {
		return c.usage(errors.New("--by and --all-events go with --experiment pcsamp"))
	}
	if experiment.value == "usertime" {
		opt.StackDepth = deepStack
	}
	if experiment.value == "fpe" {
		if err := fs.refuse("fpe shows where signals came from, and infers nothing", "event", "model"); err != nil {
			return c.usage(err)
		}
		return c.fpe(fs.Args(), opt, *n, format)
	}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	switch experiment.value {
	case "usertime":
		return c.usertime(src, *proc, *n, format)
	case "ideal":
		return c.ideal(src, *n, format)
	}
	if other {
		events := []string{src.Profile.Event.Name}
		if *allEvents {
			events = profEvents(src)
		}
		t := profBy(src, by.value, events, *n)
		rows := t.rows()
		return c.print("-", format, report.ItemsOf("backfeed.prof-by/2", rows), rows, t.text)
	}
	rows := procRows(src.Profile, src.Named)
	if *n > 0 && len(rows) > *n {
		rows = rows[:*n]
	}
	return c.print("-", format, report.ItemsOf("backfeed.prof/2", rows), rows, func(w io.Writer, style report.Style) error { return writeProcs(w, rows, style) })
}

// procRows lists all samples of p, by falling numbers; fileless are some of those
// that it calls lost, by name.
func procRows(p *infer.Profile, fileless map[compare.Named]uint64) []procRow {
	rows := []procRow{}
	share := func(n uint64) float64 { return float64(n) / float64(max(p.Samples.Total, 1)) }
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			if r.Samples == 0 {
				continue
			}
			row := procRow{Samples: r.Samples, Share: share(r.Samples), Image: ip.ID.Path, Name: report.NameOf(r.Proc.Name)}
			if r.Entries.Conf != infer.None {
				row.Executions = &r.Entries.N
				row.Confidence = r.Entries.Conf.String()
			}
			rows = append(rows, row)
		}
	}
	known := map[sample.Loss]uint64{}
	for at, n := range fileless {
		if at.Event == p.Event.Name && at.Name != "" {
			rows = append(rows, procRow{Samples: n, Share: share(n), Image: at.Image.Path, Name: report.NameOf(at.Name)})
			known[at.Loss] += n
		}
	}
	for why, n := range p.Samples.Lost {
		if n -= known[why]; n > 0 {
			rows = append(rows, procRow{Samples: n, Share: share(n), Lost: string(why)})
		}
	}
	slices.SortFunc(rows, func(a, b procRow) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Image, b.Image),
			cmp.Compare(a.Linker(), b.Linker()), cmp.Compare(a.Lost, b.Lost))
	})
	sum := 0.0
	for i := range rows {
		sum += rows[i].Share
		rows[i].Sum = min(sum, 1)
	}
	return rows
}

func writeProcs(w io.Writer, rows []procRow, style report.Style) error {
	t := report.NewTable(report.Right("samples"), report.Right("share"), report.Right("sum").Drop(1),
		report.Right("executions").Drop(2), report.Paths("image"), report.Procedures("procedure").Main())
	for _, r := range rows {
		executions := math.NaN()
		if r.Executions != nil {
			executions = *r.Executions
		}
		t.Row(report.Integer(r.Samples), report.Percent(r.Share), report.Percent(r.Sum),
			report.Count(executions), r.Image, r.Or(r.Lost, style))
	}
	return t.Print(w, style)
}

// deepStack is how many frames of a stack usertime reads: all that Linux records
// (kernel.perf_event_max_stack, 127 unless it was raised).
const deepStack = 127

// usertime shows time by call stack, that of proc by caller and callee.
func (c *cli) usertime(src *input.Session, proc string, lines int, format *choice) error {
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
		return fail.Errorf(fail.Nothing, "prof: %s is on no call stack", proc)
	}
	return c.print("-", format, doc, edges, func(w io.Writer, style report.Style) error { return doc.ButterflyText(w, edges, style) })
}

// fpe shows where signals of arithmetic came from.
func (c *cli) fpe(paths []string, opt *input.Options, lines int, format *choice) error {
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
