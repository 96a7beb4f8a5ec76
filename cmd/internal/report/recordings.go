package report

import (
	"fmt"
	"io"
	"math"

	"backfeed/infer/compare"
	"backfeed/infer/document"
)

// A RecordingDiff is a compare.Difference as diff prints it.
type RecordingDiff struct {
	Schema  string    `json:"schema"`
	Event   string    `json:"event"`
	Samples [2]uint64 `json:"samples"` // before, after
	By      string    `json:"by"`      // "procedure" or "block"
	Blocks  *BlockSum `json:"blocks,omitempty"`
	Rows    []DiffRow `json:"items"`

	all, real int // rows before any were left out; of them, those that differ by more than chance
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
	Difference float64  `json:"difference"` // of the shares
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
	for _, r := range rows {
		doc.Rows = append(doc.Rows, DiffRow{
			Difference: r.Difference, Low: r.Low, High: r.High, Old: newDiffSide(&r.Old), New: newDiffSide(&r.New), Z: r.Z, P: r.P, Real: r.Real,
			Image: r.Image, Name: NameOf(r.Proc), Tie: r.Tie, Moved: r.Moved, Lost: r.Lost,
		})
	}
	return doc
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
	if doc.By == "block" {
		columns = append(columns, Left("old block"), Left("new block"), Left("tie").Drop(4))
	} else {
		columns = append(columns, Paths("image").Drop(6))
	}
	t := NewTable(append(columns, Procedures("procedure").Main())...)
	for _, r := range doc.Rows {
		cells := []string{Percent(r.Old.Share), Percent(r.New.Share), signedPercent(r.Difference), fmt.Sprintf("%.1f", r.Z), yesNo(r.Real),
			Count(orNaN(r.Old.Executions)), Count(orNaN(r.New.Executions)), Count(orNaN(r.Old.CPI)), Count(orNaN(r.New.CPI)),
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
	_, err := Fprintf(w, style, "\n%s\n", doc.summary())
	return err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// signedPercent is Percent of a difference.
func signedPercent(d float64) string {
	switch {
	case d > 0:
		return "+" + Percent(d)
	case d < 0:
		return "-" + Percent(-d)
	}
	return "0.0%"
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
