package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

var topstallsCmd = &command{
	name: "topstalls", args: "SRC... [--symfs DIR] [--cause CAUSE]", short: "list the instructions that waited longest, and what for",
	reads: symfsHelp,
	long: `A stall is the time of an instruction beyond the least that the machine model gives it. Its share is
of all time; cycles are those of all executions, "each" those of one. Letters are the causes that cannot
be ruled out, the likeliest first, without those that explain less than a tenth at most; JSON has all,
with the least and the most that each explains:

` + "  " + legendLines + `

"conf" has two letters (none, low, medium, high): how well executions are known among all of
the program, and among those of their procedure, which --conf goes by. Shares of time are as
good as the samples are; cycles of one execution are as good as the count.`,
	examples: `backfeed topstalls app.bfr
backfeed topstalls app.bfr --cause dcache-miss --conf medium`,
	run: runTopstalls,
}

// legendLines are the letters of causes for a command's help.
var legendLines = legend(76, "\n  ")

// A stallRow is one instruction that stalls.
type stallRow struct {
	Share       float64          `json:"share"` // of all time
	Sum         float64          `json:"sum"`   // of the shares so far
	Cycles      float64          `json:"cycles"`
	Executions  float64          `json:"executions"`
	Confidence  infer.Confidence `json:"confidence"`
	Within      infer.Confidence `json:"confidence_within"`
	Stall       float64          `json:"stall"` // cycles per execution
	Least       float64          `json:"least"` // cycles per execution that are no stall
	Blame       string           `json:"blame"` // letters
	Culprits    []culpritRow     `json:"culprits"`
	Unexplained float64          `json:"unexplained"` // cycles per execution
	Image       string           `json:"image"`
	report.Name
	Addr        string `json:"addr"`
	Instruction string `json:"instruction"`
	File        string `json:"file,omitempty"`
	Line        int    `json:"line,omitempty"`
}

// A topstallsDoc is what topstalls prints as JSON.
type topstallsDoc struct {
	timeHeader
	Stalled      float64    `json:"stalled"`      // share of all time that is stalls
	Chosen       float64    `json:"chosen"`       // the same of stalls of the confidence and the cause that were asked for
	Instructions int        `json:"instructions"` // that have such stalls
	Stalls       []stallRow `json:"items"`        // the longest first
}

func runTopstalls(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	n := fs.IntP("lines", "n", 20, "list at most `N` instructions; 0 lists all")
	least := c.choice("conf", "list stalls whose counts are known at least this well", "low", "medium", "high")
	want := fs.String("cause", "", "list stalls that `cause`, a name or a letter, may explain, by how much it may")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	pick := stallFilter{conf: infer.Low}
	for conf := infer.Low; conf <= infer.High; conf++ {
		if conf.String() == least.value {
			pick.conf = conf
		}
	}
	if *want != "" {
		cause, err := causeNamed(*want)
		if err != nil {
			return c.usage(fmt.Errorf("--cause: %w", err))
		}
		pick.cause, pick.one = cause, true
	}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	x, err := src.Explain()
	if err != nil {
		return err
	}
	doc := topStalls(src, x, pick, *n)
	return c.print("-", format, doc, doc.Stalls, doc.text)
}

// A stallFilter chooses stalls.
type stallFilter struct {
	conf  infer.Confidence // at least
	cause infer.Cause
	one   bool // only stalls that cause may explain, as far as it may
}

// of returns the cycles per execution of s that are asked for.
func (f *stallFilter) of(s *infer.Stall) float64 {
	if !f.one {
		return s.Cycles
	}
	for _, c := range s.Culprits {
		if c.Cause == f.cause {
			return c.Most
		}
	}
	return 0
}

// A stalled is a stall that may become a row.
type stalled struct {
	sampledProc
	infer.InstTime
	cycles float64
}

// topStalls finds the n stalls that cost most, all for 0.
func topStalls(s *input.Session, x *infer.Explainer, pick stallFilter, n int) *topstallsDoc {
	doc := &topstallsDoc{timeHeader: newTimeHeader(s, "backfeed.topstalls/2", x), Stalls: []stallRow{}}
	all := float64(max(1, doc.Samples)) * doc.CyclesPerSample
	var top []stalled
	for ip, e := range x.All() {
		for i := range e.Insts {
			t := &e.Insts[i]
			doc.Stalled += t.Stall.Cycles * t.N / all
			cycles := pick.of(&t.Stall) * t.N
			if !(cycles > 0) || e.Result.Block[t.Block].Within < pick.conf {
				continue
			}
			doc.Chosen += cycles / all
			doc.Instructions++
			top = append(top, stalled{sampledProc{ip, e.Result}, *t, cycles})
		}
		if n > 0 && len(top) > 16*n+4096 { // those of a large program would be larger than it
			top = longest(top, n)
		}
	}
	sum := 0.0
	for _, t := range longest(top, n) {
		sum += t.cycles / all
		doc.Stalls = append(doc.Stalls, newStallRow(&t, t.cycles/all, sum))
	}
	return doc
}

// longest sorts stalls and returns the first n, all for 0.
func longest(all []stalled, n int) []stalled {
	slices.SortStableFunc(all, func(a, b stalled) int { return cmp.Compare(b.cycles, a.cycles) })
	if n > 0 && len(all) > n {
		clear(all[n:])
		all = all[:n]
	}
	return all
}

func newStallRow(t *stalled, share, sum float64) stallRow {
	f := t.r.Block[t.Block]
	row := stallRow{
		Share: share, Sum: sum, Cycles: t.cycles, Executions: t.N, Confidence: f.Conf, Within: f.Within,
		Stall: t.Stall.Cycles, Least: t.Least, Blame: blame(&t.Stall), Culprits: culpritRows(&t.Stall), Unexplained: t.Stall.Unexplained,
		Image: t.ip.ID.Path, Name: report.NameOf(t.r.Proc.Name), Addr: hex(t.Addr), Instruction: t.ip.Image.Text(t.Addr),
	}
	if ln, err := t.ip.Image.Lines(); err == nil {
		if frames := ln.Frames(t.Addr); len(frames) > 0 {
			row.File, row.Line = frames[0].File, frames[0].Line
		}
	}
	return row
}

func (doc *topstallsDoc) text(w io.Writer, style report.Style) error {
	if err := doc.timeHeader.write(w, style); err != nil {
		return err
	}
	report.Fprintf(w, style, "Stalls are %s of the time; those asked for are %s, at %d instructions.\n\n", report.Percent(doc.Stalled), report.Percent(doc.Chosen), doc.Instructions)
	columns := []report.Column{report.Right("share"), report.Right("sum").Drop(2), report.Right("cycles").Drop(1), report.Right("executions").Drop(4), report.Left("conf").Drop(5),
		report.Right("each"), report.Left("blame"), report.Right("pc"), report.Procedures("procedure"), report.Left("line").Drop(3), report.Instructions("instruction").Main()}
	t := report.NewTable(columns...)
	for _, r := range doc.Stalls {
		t.Row(report.Percent(r.Share), report.Percent(r.Sum), report.Count(r.Cycles), report.Count(r.Executions), letterOf(r.Confidence)+letterOf(r.Within),
			cycles(r.Stall), r.Blame, r.Addr, r.In(style), lineOf(r.File, r.Line), r.Instruction)
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", legend(96, "\n"))
	return err
}

// cycles prints cycles of one execution.
func cycles(n float64) string {
	if n < 0.995 {
		return fmt.Sprintf("%.2f", n)
	}
	return report.Count(n)
}

// lineOf names a line of a file; nothing if it is unknown.
func lineOf(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0: // compilers put code down to a file alone that they made up
		return path.Base(file)
	}
	return fmt.Sprintf("%s:%d", path.Base(file), line)
}
