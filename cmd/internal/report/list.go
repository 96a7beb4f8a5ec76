package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/infer/source"
)

// A List is what list prints as JSON.
type List struct {
	TimeHeader
	Image string `json:"image"`
	Name
	Addr         string           `json:"addr"`
	Size         uint64           `json:"size"` // bytes
	Complete     bool             `json:"complete"`
	ProcSamples  uint64           `json:"procedure_samples"`
	Share        float64          `json:"share"` // of all samples
	Executions   float64          `json:"executions"`
	ExecutedConf infer.Confidence `json:"executions_confidence"`
	Factor       float64          `json:"executions_factor,omitempty"` // what Executions may be off by, with 90 % confidence: infer.Profile.EntryFactor
	Callers      int              `json:"callers"`                     // procedures that are known to call it
	Cycles       float64          `json:"cycles"`                      // in all executions
	Uncounted    float64          `json:"uncounted_cycles"`            // of Cycles: in code whose executions are not known
	Ideal        float64          `json:"ideal"`                       // cycles of the others, if nothing took longer than the model's least
	CPI          *float64         `json:"cpi,omitempty"`               // cycles per instruction, of the others; nil is unknown
	Spent        []SpentRow       `json:"spent"`
	Events       []ListEvent      `json:"events,omitempty"` // others of the recording that have samples in it, the one with most first
	Insts        []ListRow        `json:"instructions"`     // by address
}

// A ListRow is an instruction.
type ListRow struct {
	Addr        string            `json:"addr"`
	Bytes       int               `json:"bytes"`
	Block       string            `json:"block"` // its basic block's address
	Samples     uint64            `json:"samples"`
	Events      map[string]uint64 `json:"events,omitempty"` // samples of other events, by event
	Time        float64           `json:"time"`             // share of the procedure's time
	Executions  float64           `json:"executions"`
	Confidence  infer.Confidence  `json:"confidence"`
	Within      infer.Confidence  `json:"confidence_within"`
	Each        *float64          `json:"cycles_per_execution,omitempty"` // nil is unknown
	Least       float64           `json:"least"`
	Why         string            `json:"why"`            // what least comes from
	For         string            `json:"for,omitempty"`  // the instruction's address, or the unit
	Stall       float64           `json:"stall"`          // cycles per execution beyond least
	Blame       string            `json:"blame"`          // letters
	Culprits    []CulpritRow      `json:"culprits"`       // the likeliest first
	Unexplained float64           `json:"unexplained"`    // cycles per execution
	Instruction string            `json:"instruction"`    // GNU syntax
	File        string            `json:"file,omitempty"` // of the innermost inlined function
	Line        int               `json:"line,omitempty"`
	Inlined     []FrameRow        `json:"inlined,omitempty"` // functions around that one, innermost first
	Function    string            `json:"function,omitempty"`
}

// A FrameRow is a place that a function was inlined at.
type FrameRow struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"` // of the call
}

// foldBelow is the share of the procedure's time below which a block is folded.
const foldBelow = 0.005

// bubbleFrom is the share of the procedure's time from which a stall is drawn.
const bubbleFrom = 0.01

// Shorter procedures, and gaps between what is shown, are not folded: instructions.
const (
	shortProc = 60
	shortGap  = 3
)

// A Subject is what an explanation is about: a procedure with its image, an image without
// a procedure, or everything, if both are nil.
type Subject struct {
	Image  *infer.ImageProfile
	Result *infer.Result
}

// NewList explains one procedure.
func NewList(prof *infer.Profile, x *explain.Explainer, of Subject) *List {
	e, p := x.Explain(of.Image, of.Result), of.Result.Proc
	doc := &List{
		TimeHeader: NewTimeHeader(prof, "backfeed.list/2", x), Image: of.Image.ID.Path, Name: NameOf(p.Name), Addr: Hex(p.Addr), Size: p.Size,
		Complete: p.Complete, ProcSamples: of.Result.Samples, Executions: of.Result.Entries.N, ExecutedConf: of.Result.Entries.Conf, Factor: prof.EntryFactor(of.Result),
		Callers: callers(prof, of), Cycles: e.Cycles, Spent: SpentRows(&e.Summary), Insts: []ListRow{},
	}
	doc.Share = float64(of.Result.Samples) / float64(max(1, prof.Samples.Total))
	ln, err := of.Image.Image.Lines()
	if err != nil {
		ln = nil // assembly only
	}
	ideal := e.Ideal()
	doc.Ideal, doc.Uncounted = ideal.Ideal, ideal.Uncounted
	if cpi := ideal.CPI(); !math.IsNaN(cpi) {
		doc.CPI = &cpi
	}
	for i := range e.Insts {
		t := &e.Insts[i]
		doc.Insts = append(doc.Insts, newListRow(of, t, e.Cycles, ln))
	}
	return doc
}

func newListRow(of Subject, t *explain.InstTime, all float64, ln *image.Lines) ListRow {
	f := of.Result.Block[t.Block]
	row := ListRow{
		Addr: Hex(t.Addr), Bytes: t.Len, Block: Hex(of.Result.Proc.Blocks[t.Block].Start), Samples: t.Samples, Time: t.Total / max(all, 1e-300),
		Executions: t.N, Confidence: f.Conf, Within: f.Within, Least: t.Least, Why: t.Static.String(), Stall: t.Stall.Cycles, Blame: Blame(&t.Stall),
		Culprits: culpritRows(&t.Stall), Unexplained: t.Stall.Unexplained, Instruction: of.Image.Image.Text(t.Addr),
	}
	if t.N > 0 {
		row.Each = &t.Time
	}
	switch _, slow := t.Static.Cause(); {
	case slow:
		row.For = Hex(t.For)
	case t.Why == machine.Dependency:
		row.For = Hex(t.On)
	case t.Why == machine.Unit:
		row.For = t.Unit
	}
	if ln == nil {
		return row
	}
	for i, fr := range ln.Frames(t.Addr) {
		if i == 0 {
			row.File, row.Line, row.Function = fr.File, fr.Line, functionOf(&fr)
			continue
		}
		row.Inlined = append(row.Inlined, FrameRow{functionOf(&fr), fr.File, fr.Line})
	}
	return row
}

// functionOf returns the name of a function of the source, as procedures have theirs.
func functionOf(fr *image.Frame) string { return cmp.Or(image.DemangleShort(fr.Func), fr.Name) }

// callers counts the procedures that are known to call one.
func callers(prof *infer.Profile, of Subject) int {
	n := 0
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			for i := range r.Proc.Calls {
				call := &r.Proc.Calls[i]
				if r.Call[i].N > 0 && (ip == of.Image && call.To == of.Result.Proc.Addr || ip != of.Image && call.Target == of.Result.Proc.Name) {
					n++
					break
				}
			}
		}
	}
	return n
}

// A ListView says how a listing is shown.
type ListView struct {
	Source  *source.Text
	Address bool // order
	All     bool // fold nothing
	N       int  // instructions at most; 0 is all
	Events  bool // have columns of all events, not of the first two
}

// Columns of the listing that notes start at.
const (
	firstColumn = 0
	stallColumn = 3
)

// Text writes the listing, shown as v says.
func (doc *List) Text(w io.Writer, style Style, v *ListView) error {
	if err := doc.TimeHeader.write(w, style); err != nil {
		return err
	}
	doc.writeTotals(w, style)
	if err := writeSpent(w, doc.Spent, style); err != nil {
		return err
	}
	fmt.Fprintln(w)
	columns := []Column{Right("samples").Drop(5), Right("time")}
	for _, e := range doc.shownEvents(v) {
		columns = append(columns, Right(e.head()))
	}
	l := NewListing(append(columns, Right("executions").Drop(4), Right("cyc/exec"), Right("least").Drop(2),
		Left("for").Drop(1), Left("conf").Drop(3), Right("address"), Instructions("instruction").Main())...)
	doc.show(l, v)
	return l.Print(w, style)
}

func (doc *List) writeTotals(w io.Writer, style Style) {
	Fprintf(w, style, "\n%s of %s, %d bytes at %s\n", doc.In(style), doc.Image, doc.Size, doc.Addr)
	executions := "executions unknown"
	if doc.ExecutedConf != infer.None {
		executions = fmt.Sprintf("%s executions (program-wide confidence %s)", Count(doc.Executions), doc.ExecutedConf)
		if doc.Factor > 0 {
			beside := ""
			if document.Seen(doc.CommonFactor) {
				beside = "beside others "
			}
			executions = fmt.Sprintf("%s executions, %swithin a factor of %g (program-wide confidence %s)", Count(doc.Executions), beside, doc.Factor, doc.ExecutedConf)
		}
	}
	Fprintf(w, style, "%d samples, %s of all; %s, known callers: %d\n", doc.ProcSamples, Percent(doc.Share), executions, doc.Callers)
	if doc.CPI != nil {
		Fprintf(w, style, "%s cycles; CPI %s; actual / ideal %s, by the machine model's least of %s cycles\n", Count(doc.Cycles),
			Ratio(*doc.CPI), Ratio((doc.Cycles-doc.Uncounted)/doc.Ideal), Count(doc.Ideal))
	}
	for _, e := range doc.Events {
		Fprintf(w, style, "%s\n", e.line())
	}
	if !doc.Complete {
		fmt.Fprintln(w, "An indirect jump leads to where nothing is known: counts are local guesses.")
	}
	fmt.Fprintln(w)
}

// A stretch is instructions that are shown or folded together.
type stretch struct {
	from, to int // indices into Insts
	time     float64
	shown    bool
}

// show fills the listing.
func (doc *List) show(l *Listing, v *ListView) {
	all := doc.stretches(v)
	var shown []stretch
	for _, s := range all {
		if s.shown {
			shown = append(shown, s)
		}
	}
	if !v.Address {
		slices.SortStableFunc(shown, func(a, b stretch) int { return cmp.Compare(b.time, a.time) })
	}
	var folded fold
	if v.Address {
		shown = all
	} else {
		for _, s := range all {
			if !s.shown {
				folded.add(doc, s.from, s.to)
			}
		}
	}
	n := 0
	for _, s := range shown {
		if !s.shown {
			var f fold
			f.add(doc, s.from, s.to)
			l.Note(Dim, firstColumn, f.String())
			continue
		}
		if len(shown) > 1 && !v.Address && (v.N <= 0 || n < v.N) {
			l.Note(Dim, firstColumn, fmt.Sprintf("--- %s of the time, %s to %s", Percent(s.time), doc.Insts[s.from].Addr, doc.Insts[s.to-1].Addr))
		}
		to := s.to
		if v.N > 0 {
			to = min(to, s.from+max(0, v.N-n))
		}
		doc.showCode(l, v, s.from, to)
		n += to - s.from
		folded.add(doc, to, s.to)
	}
	if folded.insts > 0 {
		l.Note(Dim, firstColumn, folded.String())
	}
}

// A fold is what is not shown.
type fold struct {
	insts, bytes, pieces int
	time                 float64
}

func (f *fold) add(doc *List, from, to int) {
	if from < to {
		f.pieces++
	}
	for _, r := range doc.Insts[from:to] {
		f.insts, f.bytes, f.time = f.insts+1, f.bytes+r.Bytes, f.time+r.Time
	}
}

func (f *fold) String() string {
	pieces := ""
	if f.pieces > 1 {
		pieces = fmt.Sprintf(" in %d pieces", f.pieces)
	}
	return fmt.Sprintf("... %d instructions%s, %d bytes, %s of the time", f.insts, pieces, f.bytes, Percent(f.time))
}

// stretches divides the code into what is shown and what is folded.
func (doc *List) stretches(v *ListView) (all []stretch) {
	for i := 0; i < len(doc.Insts); {
		s := stretch{from: i, to: i}
		for ; s.to < len(doc.Insts) && doc.Insts[s.to].Block == doc.Insts[i].Block; s.to++ {
			s.time += doc.Insts[s.to].Time
		}
		s.shown = v.All || s.time >= foldBelow || len(doc.Insts) <= shortProc
		all = append(all, s)
		i = s.to
	}
	all = joined(all)
	for i := 1; i+1 < len(all); i++ { // between others that are shown
		all[i].shown = all[i].shown || all[i].to-all[i].from <= shortGap
	}
	return joined(all)
}

// joined joins neighbours that are both shown or both folded.
func joined(all []stretch) []stretch {
	var out []stretch
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].shown == s.shown {
			out[n-1].to, out[n-1].time = s.to, out[n-1].time+s.time
			continue
		}
		out = append(out, s)
	}
	return out
}

// showCode shows instructions with their source lines and stalls.
func (doc *List) showCode(l *Listing, v *ListView, from, to int) {
	where, chain := "", ""
	events := doc.shownEvents(v)
	for i := from; i < to; i++ {
		r := &doc.Insts[i]
		if now := r.chain() + lineOf(r.File, r.Line); r.Line > 0 && now != where {
			line := r.sourceLine(v.Source)
			if now := r.chain(); now != chain {
				line, chain = line+"  ["+cmp.Or(now, r.Function)+"]", now
			}
			l.Note(Dim, firstColumn, line)
			where = now
		}
		if r.Stall > 0 && r.Stall*r.Executions >= bubbleFrom*doc.Cycles {
			l.Note(Loud, stallColumn+len(events), r.bubble())
		}
		executions, each := math.NaN(), math.NaN()
		if r.Confidence != infer.None {
			executions = r.Executions
		}
		if r.Each != nil {
			each = *r.Each
		}
		samples, time := "", ""
		if r.Samples > 0 {
			samples = Integer(r.Samples)
		}
		if r.Time > 0 {
			time = Percent(r.Time)
		}
		cells := []string{samples, time}
		for _, e := range events {
			cell := ""
			if n := r.Events[e.Event]; n > 0 {
				cell = Share(n, e.Samples)
			}
			cells = append(cells, cell)
		}
		l.Row(append(cells, Count(executions), cycles(each), cycles(r.Least), r.For, letterOf(r.Confidence)+letterOf(r.Within), r.Addr, r.Instruction)...)
	}
}

// sourceLine is the line of the source, as far as it is here.
func (r *ListRow) sourceLine(source *source.Text) string {
	text, _ := source.Line(r.File, r.Line)
	return strings.TrimRight(lineOf(r.File, r.Line)+"  "+text, " ")
}

// chain names the inlined function that an instruction is of, and where it was inlined;
// nothing if it is of the procedure itself.
func (r *ListRow) chain() string {
	if len(r.Inlined) == 0 {
		return ""
	}
	chain := r.Function
	for _, f := range r.Inlined {
		chain += " in " + f.Function + " " + lineOf(f.File, f.Line)
	}
	return chain
}

// between prints cycles of one execution that are at least and at most so many.
func between(least, most float64) string {
	switch {
	case least < 0.005:
		return "up to " + cycles(most)
	case cycles(least) == cycles(most):
		return cycles(most)
	}
	return cycles(least) + " to " + cycles(most)
}

// longestBubble is how many cycles a bar shows at most.
const longestBubble = 24

// bubble draws the stall before an instruction: a mark for each cycle, the letters
// of the culprits, and what the first of them explain.
func (r *ListRow) bubble() string {
	marks := strings.Repeat("▒", min(longestBubble, max(1, int(math.Round(r.Stall)))))
	if r.Stall > longestBubble {
		marks += "»"
	}
	var parts []string
	for i, c := range r.Culprits {
		if i == 3 || c.Most < blameShare*r.Stall {
			break
		}
		part := c.Cause + " " + between(c.Least, c.Most)
		if c.From != "" && c.From != r.Addr {
			part += " of " + c.From
		}
		parts = append(parts, part)
	}
	if r.Unexplained >= blameShare*r.Stall {
		parts = append(parts, "unexplained "+cycles(r.Unexplained))
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s  %s", marks, cycles(r.Stall), r.Blame, strings.Join(parts, ", ")), " ")
}
