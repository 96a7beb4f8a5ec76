package report

import (
	"fmt"
	"io"
	"math"

	"backfeed/infer/compare"
	"backfeed/infer/document"
	"backfeed/infer/explain"
)

// A RecordingDiff is a compare.Difference as diff prints it.
type RecordingDiff struct {
	Schema  string    `json:"schema"`
	Event   string    `json:"event"`
	Samples [2]uint64 `json:"samples"` // before, after
	By      string    `json:"by"`      // "procedure" or "block"
	Blocks  *BlockSum `json:"blocks,omitempty"`
	Work    *DiffWork `json:"work,omitempty"` // if amounts for each unit of work were compared, and not shares
	Rows    []DiffRow `json:"items"`

	all, real int // rows before any were left out; of them, those that differ by more than chance
}

// A DiffWork is what was done, and what it took for each unit.
type DiffWork struct {
	Done   [2]float64   `json:"done"`
	Unit   string       `json:"unit"` // of amounts: "s" of time, or the event
	All    DiffRow      `json:"all"`  // all samples
	Causes []DiffCaused `json:"causes,omitempty"`

	Spent
}

// A Spent says what is spent where samples are of time.
type Spent struct {
	UserOnly bool        `json:"user_only,omitempty"` // the kernel was not sampled: it is time in user code alone
	Used     *[2]float64 `json:"used,omitempty"`      // seconds for each unit of work that the recorded commands used, those in the kernel included: old, new; if known
}

// time is what samples of time are of, in words.
func (s *Spent) time() string {
	if s.UserOnly {
		return "user time"
	}
	return "processor time"
}

// used says how much commands used, where that is more than was sampled; "" where it is not, or not known.
func (s *Spent) used(amount func(float64) string) string {
	u := s.Used
	if !s.UserOnly || u == nil {
		return ""
	}
	return fmt.Sprintf("%s before, %s after, %s", amount(u[0]), amount(u[1]), signedPercent(u[1]/u[0]-1))
}

// A DiffCaused is what a cause costs for each unit of work, at least and at most.
type DiffCaused struct {
	Cause string     `json:"cause"`
	Old   [2]float64 `json:"old"`
	New   [2]float64 `json:"new"`
	Real  bool       `json:"real"` // the two are apart, and chance does not explain it
}

// A BlockSum counts the blocks of the procedures that are listed by block.
type BlockSum struct {
	Tied  int `json:"tied"`
	Moved int `json:"moved"` // of those tied: elsewhere in the procedure
	Gone  int `json:"gone"`
	New   int `json:"new"`
}

// A DiffRow is one procedure, one block, or samples that have neither.
type DiffRow struct {
	Difference float64  `json:"difference"` // of the shares; of the amounts, if these were compared
	Low        float64  `json:"low"`        // of the difference, with 95 % confidence, by the chance of sampling
	High       float64  `json:"high"`
	Old        DiffSide `json:"old"`
	New        DiffSide `json:"new"`
	Z          float64  `json:"z"`
	P          float64  `json:"p"`
	Real       bool     `json:"real"` // chance does not explain the difference
	Image      string   `json:"image,omitempty"`
	Name
	Tie   string `json:"tie,omitempty"` // of a block: what ties the two
	Moved bool   `json:"moved,omitempty"`
	Lost  string `json:"lost,omitempty"`
}

// A DiffSide is what one recording says of it.
type DiffSide struct {
	Samples    uint64         `json:"samples"`
	Share      float64        `json:"share"`
	Amount     *float64       `json:"amount,omitempty"`     // for each unit of work, if that was compared
	Executions *float64       `json:"executions,omitempty"` // nil is unknown
	CPI        *float64       `json:"cpi,omitempty"`        // cycles per instruction; nil is unknown
	Confidence string         `json:"confidence,omitempty"` // of the executions; CPI has the same
	Addr       *document.Addr `json:"addr,omitempty"`       // of a block
}

// NewRecordingDiff returns at most so many rows of d as diff prints them; 0 is all.
func NewRecordingDiff(d *compare.Difference, lines int) *RecordingDiff {
	doc := &RecordingDiff{Schema: "backfeed.recordings-diff/2", Event: d.Event, Samples: d.Samples, By: "procedure", Rows: []DiffRow{}, all: len(d.Rows), real: d.Real}
	if d.ByBlock {
		doc.By, doc.Blocks = "block", &BlockSum{d.Blocks.Tied, d.Blocks.Moved, d.Blocks.Gone, d.Blocks.New}
	}
	rows := d.Rows
	if lines > 0 {
		rows = rows[:min(lines, len(rows))]
	}
	for i := range rows {
		doc.Rows = append(doc.Rows, newDiffRow(&rows[i], d.Work))
	}
	if w := d.Work; w != nil {
		doc.Work = &DiffWork{Done: w.Done, Unit: w.Unit, All: newDiffRow(&w.All, w), Causes: causesOf(d), Spent: Spent{w.UserOnly, w.Used}}
	}
	return doc
}

func newDiffRow(r *compare.Row, w *compare.Work) DiffRow {
	row := DiffRow{
		Difference: r.Difference, Low: r.Low, High: r.High, Old: newDiffSide(&r.Old), New: newDiffSide(&r.New), Z: r.Z, P: r.P, Real: r.Real,
		Image: r.Image, Name: NameOf(r.Proc), Tie: r.Tie, Moved: r.Moved, Lost: r.Lost,
	}
	if w != nil {
		row.Old.Amount, row.New.Amount = &r.Old.Amount, &r.New.Amount
	}
	return row
}

// causesOf lists what causes cost for each unit of work, in the order of whatcg.
func causesOf(d *compare.Difference) []DiffCaused {
	before, after := d.Work.Spent[0], d.Work.Spent[1]
	if before == nil || after == nil || !(before.Cycles > 0 && after.Cycles > 0) {
		return nil
	}
	var rows []DiffCaused
	add := func(cause string, old, new explain.Range) {
		amount := func(i int, r explain.Range, s *explain.Summary) [2]float64 {
			all := d.Work.Each[i] * float64(d.Samples[i])
			return [2]float64{min(max(r.Least, 0)/s.Cycles, 1) * all, min(max(r.Most, 0)/s.Cycles, 1) * all}
		}
		r := DiffCaused{Cause: cause, Old: amount(0, old, before), New: amount(1, new, after)}
		if r.Old[1]+r.New[1] > 0 {
			r.Real = d.Apart(r.Old, r.New)
			rows = append(rows, r)
		}
	}
	old, new := before.ExpectedRanges(), after.ExpectedRanges()
	for i := range old {
		add("static: "+explain.Static(i).String(), old[i], new[i])
	}
	for _, c := range explain.Causes() {
		add(c.String(), before.Causes[c], after.Causes[c])
	}
	return rows
}

func newDiffSide(p *compare.Part) DiffSide {
	s := DiffSide{Samples: p.Samples, Share: p.Share, Executions: p.Executions, CPI: p.CPI, Addr: (*document.Addr)(p.Addr)}
	if p.Executions != nil {
		s.Confidence = p.Confidence.String()
	}
	return s
}

// summary is the one line that says it all.
func (doc *RecordingDiff) summary() string {
	what := map[string]string{"procedure": "procedures", "block": "blocks"}[doc.By]
	s := fmt.Sprintf("%s samples of %s before, %s after; of %d %s, %d differ by more than chance",
		Integer(doc.Samples[0]), doc.Event, Integer(doc.Samples[1]), doc.all, what, doc.real)
	if b := doc.Blocks; b != nil {
		s += fmt.Sprintf("; blocks in both: %d, of them moved: %d; gone: %d, new: %d", b.Tied, b.Moved, b.Gone, b.New)
	}
	return s
}

// Text writes the table and the summary.
func (doc *RecordingDiff) Text(w io.Writer, style Style) error {
	columns := []Column{Right("old share"), Right("new share"), Right("difference"), Right("z").Drop(3), Left("real"),
		Right("old runs").Drop(2), Right("new runs").Drop(2), Right("old CPI").Drop(5), Right("new CPI").Drop(5), Left("conf").Drop(1)}
	amount, difference := Percent, signedPercent
	done := [2]float64{1, 1}
	if doc.Work != nil {
		columns[0], columns[1] = Right("old"), Right("new")
		columns[3] = Right("95 % confidence").Drop(4)
		done = doc.Work.Done
		amount, difference = doc.Work.amount, doc.Work.signed
	}
	runs := func(s *DiffSide, i int) string { return Count(orNaN(s.Executions) / done[i]) }
	if doc.By == "block" {
		columns = append(columns, Left("old block"), Left("new block"), Left("tie").Drop(4))
	} else {
		columns = append(columns, Paths("image").Drop(6))
	}
	t := NewTable(append(columns, Procedures("procedure").Main())...)
	for _, r := range doc.Rows {
		old, new, chance := r.Old.Share, r.New.Share, fmt.Sprintf("%.1f", r.Z)
		if doc.Work != nil {
			old, new, chance = *r.Old.Amount, *r.New.Amount, doc.Work.span(r.Low, r.High)
		}
		cells := []string{amount(old), amount(new), difference(r.Difference), chance, yesNo(r.Real),
			runs(&r.Old, 0), runs(&r.New, 1), Count(orNaN(r.Old.CPI)), Count(orNaN(r.New.CPI)),
			letters(r.Old.Confidence, r.New.Confidence)}
		if doc.By == "block" {
			tie := r.Tie
			if r.Moved {
				tie += ", moved"
			}
			cells = append(cells, addrOrDash(r.Old.Addr), addrOrDash(r.New.Addr), tie)
		} else {
			cells = append(cells, r.Image)
		}
		t.Row(append(cells, r.Or(r.Lost, style))...)
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	if doc.Work != nil && len(doc.Work.Causes) > 0 {
		if err := doc.Work.causes(w, style); err != nil {
			return err
		}
	}
	if _, err := Fprintf(w, style, "\n%s\n", doc.summary()); err != nil || doc.Work == nil {
		return err
	}
	used := doc.Work.used(doc.Work.amount)
	if _, err := Fprintf(w, style, "%s\n", doc.Work.summary()); err != nil || used == "" {
		return err
	}
	_, err := Fprintf(w, style, "user and system time that the recorded commands used: %s\n", used)
	return err
}

// causes writes what causes cost.
func (doc *DiffWork) causes(w io.Writer, style Style) error {
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	t := NewTable(Right("old"), Right("new"), Left("real"), Left("cause").Main())
	for i := range doc.Causes {
		r := &doc.Causes[i]
		t.Row(doc.between(r.Old), doc.between(r.New), yesNo(r.Real), r.Cause)
	}
	return t.Print(w, style)
}

// amount prints what one unit of work takes.
func (doc *DiffWork) amount(n float64) string {
	if doc.Unit == "s" {
		return Seconds(n)
	}
	return Count(n)
}

func (doc *DiffWork) signed(n float64) string { return withSign(n, doc.amount) }

func (doc *DiffWork) span(low, high float64) string {
	return doc.signed(low) + " to " + doc.signed(high)
}

func (doc *DiffWork) between(r [2]float64) string {
	if doc.amount(r[0]) == doc.amount(r[1]) {
		return doc.amount(r[0])
	}
	return doc.amount(r[0]) + " to " + doc.amount(r[1])
}

// summary says what all of it takes.
func (doc *DiffWork) summary() string {
	all := &doc.All
	what := doc.Unit
	if what == "s" {
		what = doc.time()
	}
	s := fmt.Sprintf("%s for each unit of work: %s before, %s after", what, doc.amount(*all.Old.Amount), doc.amount(*all.New.Amount))
	if n := *all.Old.Amount; n > 0 {
		s += fmt.Sprintf(", %s (%s, with 95 %% confidence, by the chance of sampling)", signedPercent(all.Difference/n), interval(all.Low/n, all.High/n))
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// signedPercent is Percent of a difference.
func signedPercent(d float64) string { return withSign(d, Percent) }

// withSign prints a difference with its sign.
func withSign(d float64, print func(float64) string) string {
	switch {
	case d > 0:
		return "+" + print(d)
	case d < 0:
		return "-" + print(-d)
	}
	return print(0)
}

// orNaN returns a number that may be unknown.
func orNaN(n *float64) float64 {
	if n == nil {
		return math.NaN()
	}
	return *n
}

// letters are two confidences in a narrow column.
func letters(a, b string) string {
	letter := func(s string) string {
		if s == "" {
			return "-"
		}
		return s[:1]
	}
	return letter(a) + "/" + letter(b)
}

func addrOrDash(a *document.Addr) string {
	if a == nil {
		return "-"
	}
	return fmt.Sprintf("%#x", uint64(*a))
}
