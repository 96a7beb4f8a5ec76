package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
)

// A StallRow is one instruction that stalls.
type StallRow struct {
	Share       float64          `json:"share"` // of all time
	Sum         float64          `json:"sum"`   // of the shares so far
	Cycles      float64          `json:"cycles"`
	Executions  float64          `json:"executions"`
	Confidence  infer.Confidence `json:"confidence"`
	Within      infer.Confidence `json:"confidence_within"`
	Stall       float64          `json:"stall"` // cycles per execution
	Least       float64          `json:"least"` // cycles per execution that are no stall
	Blame       string           `json:"blame"` // letters
	Culprits    []CulpritRow     `json:"culprits"`
	Unexplained float64          `json:"unexplained"` // cycles per execution
	Image       string           `json:"image"`
	Name
	Addr        string `json:"addr"`
	Instruction string `json:"instruction"`
	File        string `json:"file,omitempty"`
	Line        int    `json:"line,omitempty"`

	Of    Subject    `json:"-"` // its procedure
	Block image.Addr `json:"-"` // the block that it is in
}

// A TopStalls is what topstalls prints as JSON.
type TopStalls struct {
	TimeHeader
	Stalled      float64    `json:"stalled"`      // share of all time that is stalls
	Chosen       float64    `json:"chosen"`       // the same of stalls of the confidence, the cause and the code that were asked for
	Instructions int        `json:"instructions"` // that have such stalls
	Stalls       []StallRow `json:"items"`        // the longest first
}

// A StallFilter chooses stalls.
type StallFilter struct {
	Conf  infer.Confidence // at least
	Cause explain.Cause
	One   bool    // only stalls that cause may explain, as far as it may
	In    Subject // only those in it
}

// in reports whether r, of ip, is asked for.
func (f *StallFilter) in(ip *infer.ImageProfile, r *infer.Result) bool {
	return (f.In.Image == nil || f.In.Image == ip) && (f.In.Result == nil || f.In.Result == r)
}

// of returns the cycles per execution of s that are asked for.
func (f *StallFilter) of(s *explain.Stall) float64 {
	if !f.One {
		return s.Cycles
	}
	for _, c := range s.Culprits {
		if c.Cause == f.Cause {
			return c.Most
		}
	}
	return 0
}

// A stalled is a stall that may become a row.
type stalled struct {
	Subject
	explain.InstTime     // of stalls without causes, once it is one of the n
	at               int // index into the Insts of its Explanation
	cycles           float64
}

// NewTopStalls finds the n stalls that cost most, all for 0.
func NewTopStalls(prof *infer.Profile, x *explain.Explainer, pick StallFilter, n int) *TopStalls {
	f := NewStallFinder(prof, x, pick, n)
	if n > 0 && !pick.One { // which they are does not hang on causes: those of n are enough
		for s := range x.Stalls() {
			f.addStalls(s)
		}
		f.explain(x)
		return f.Top()
	}
	for ip, e := range x.All() {
		f.Add(ip, e)
	}
	return f.Top()
}

// explain adds the causes of the stalls that cost most.
func (f *StallFinder) explain(x *explain.Explainer) {
	f.top = longest(f.top, f.n)
	of := map[*infer.Result][]*stalled{}
	for i := range f.top {
		t := &f.top[i]
		of[t.Result] = append(of[t.Result], t)
	}
	stalls := slices.Collect(maps.Values(of))
	explain.InParallel(len(stalls), func(i int) {
		e := x.ExplainTime(stalls[i][0].Image, stalls[i][0].Result)
		for _, t := range stalls[i] {
			t.InstTime = e.Insts[t.at]
		}
	})
}

// A StallFinder finds the stalls that cost most among those of the procedures that it is given.
type StallFinder struct {
	doc  *TopStalls
	all  float64 // cycles
	pick StallFilter
	n    int
	top  []stalled
	out  float64 // cycles: what has no more is not among the n
}

// NewStallFinder makes one for the n stalls that cost most, all for 0.
func NewStallFinder(prof *infer.Profile, x *explain.Explainer, pick StallFilter, n int) *StallFinder {
	doc := &TopStalls{TimeHeader: NewTimeHeader(prof, "backfeed.topstalls/2", x), Stalls: []StallRow{}}
	return &StallFinder{doc: doc, all: float64(max(1, doc.Samples)) * doc.CyclesPerSample, pick: pick, n: n}
}

// Add adds the stalls of a procedure.
func (f *StallFinder) Add(ip *infer.ImageProfile, e *explain.Explanation) {
	for i := range e.Insts {
		t := &e.Insts[i]
		if cycles, ok := f.count(Subject{ip, e.Result}, t.Block, t.Stall.Cycles, f.pick.of(&t.Stall)); ok {
			f.top = append(f.top, stalled{Subject{ip, e.Result}, *t, i, cycles})
		}
	}
	f.bound()
}

// addStalls adds the stalls of a procedure, whose causes are not known yet.
func (f *StallFinder) addStalls(s explain.ProcStalls) {
	for _, t := range s.Stalls {
		if cycles, ok := f.count(Subject{s.Image, s.Result}, t.Block, t.Cycles, t.Cycles); ok {
			f.top = append(f.top, stalled{Subject: Subject{s.Image, s.Result}, at: t.At, cycles: cycles})
		}
	}
	f.bound()
}

// count counts an instruction of block b of a procedure that stalls for so many cycles per execution, of which some are asked for. It returns the
// latter for all executions, and whether they may be among the n that cost most.
func (f *StallFinder) count(of Subject, b int, stall, asked float64) (cycles float64, ok bool) {
	n := of.Result.Block[b].N
	f.doc.Stalled += stall * n / f.all
	if cycles = asked * n; !(cycles > 0) || of.Result.Block[b].Within < f.pick.Conf || !f.pick.in(of.Image, of.Result) {
		return 0, false
	}
	f.doc.Chosen += cycles / f.all
	f.doc.Instructions++
	return cycles, cycles > f.out
}

// bound lets go of stalls that are not among the n: those of a large program would be larger than it.
func (f *StallFinder) bound() {
	if f.n > 0 && len(f.top) > 16*f.n+1024 {
		f.top = longest(f.top, f.n)
		f.out = f.top[f.n-1].cycles
	}
}

// Top returns what was found.
func (f *StallFinder) Top() *TopStalls {
	sum := 0.0
	for _, t := range longest(f.top, f.n) {
		sum += t.cycles / f.all
		f.doc.Stalls = append(f.doc.Stalls, newStallRow(&t, t.cycles/f.all, sum))
	}
	f.top = nil
	return f.doc
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

func newStallRow(t *stalled, share, sum float64) StallRow {
	f := t.Result.Block[t.Block]
	row := StallRow{
		Share: share, Sum: sum, Cycles: t.cycles, Executions: t.N, Confidence: f.Conf, Within: f.Within,
		Stall: t.Stall.Cycles, Least: t.Least, Blame: Blame(&t.Stall), Culprits: culpritRows(&t.Stall), Unexplained: t.Stall.Unexplained,
		Image: t.Image.ID.Path, Name: NameOf(t.Result.Proc.Name), Addr: Hex(t.Addr), Instruction: t.Image.Image.Text(t.Addr),
		Of: t.Subject, Block: t.Result.Proc.Blocks[t.Block].Start,
	}
	if ln, err := t.Image.Image.Lines(); err == nil {
		if frames := ln.Frames(t.Addr); len(frames) > 0 {
			row.File, row.Line = frames[0].File, frames[0].Line
		}
	}
	return row
}

// Text writes the table, and what its letters mean.
func (doc *TopStalls) Text(w io.Writer, style Style) error {
	if err := doc.TimeHeader.write(w, style); err != nil {
		return err
	}
	Fprintf(w, style, "Stalls are %s of the time; those asked for are %s, at %d instructions.\n\n", Percent(doc.Stalled), Percent(doc.Chosen), doc.Instructions)
	columns := []Column{Right("share"), Right("sum").Drop(2), Right("cycles").Drop(1), Right("executions").Drop(4), Left("conf").Drop(5),
		Right("each"), Left("blame"), Right("pc"), Procedures("procedure"), Left("line").Drop(3), Instructions("instruction").Main()}
	t := NewTable(columns...)
	for _, r := range doc.Stalls {
		t.Row(Percent(r.Share), Percent(r.Sum), Count(r.Cycles), Count(r.Executions), letterOf(r.Confidence)+letterOf(r.Within),
			cycles(r.Stall), r.Blame, r.Addr, r.In(style), lineOf(r.File, r.Line), r.Instruction)
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", Legend(96, "\n"))
	return err
}

// cycles prints cycles of one execution.
func cycles(n float64) string {
	if n < 0.995 {
		return fmt.Sprintf("%.2f", n)
	}
	return Count(n)
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
