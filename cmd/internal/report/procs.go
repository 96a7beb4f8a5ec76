package report

import (
	"html/template"
	"math"

	"backfeed/infer"
)

// A ProcRow is one procedure in a list of them.
type ProcRow struct {
	ID          string // of its page
	Href        string // where more about it is; "" is nowhere
	Image, Name string
	Linker      string // what the linker calls it
	Path        string // of Image
	Samples     uint64
	Share       float64          // of all samples
	Seconds     float64          // of processors; NaN where samples count something else than time
	Cycles      float64          // that it took
	Lost        float64          // of them, in stalls
	Executions  float64          // NaN is unknown
	Conf        infer.Confidence // of Executions
	CPI         float64          // cycles per instruction; NaN is unknown
	Ratio       float64          // its cycles to the least that the model gives them; NaN is unknown
	Cause       string           // the likeliest one of its stalls; "" is none
	CauseShare  float64          // of its cycles
	Within      infer.Confidence // half of its samples lie in blocks with this one, or a better one, among its counts
}

// A ProcItem is a ProcRow in the document of report.
type ProcItem struct {
	ID string `json:"id"` // in addresses of pages: the index of the image, and where the procedure begins
	Name
	Image      string           `json:"image"`
	Samples    uint64           `json:"samples"`
	Share      float64          `json:"share"`             // of all samples
	Seconds    *float64         `json:"seconds,omitempty"` // of processors; nil where samples count something else than time
	Cycles     float64          `json:"cycles"`
	Lost       float64          `json:"stall_cycles"`
	Executions *float64         `json:"executions,omitempty"` // nil is unknown
	Confidence string           `json:"confidence,omitempty"` // of the executions
	CPI        *float64         `json:"cpi,omitempty"`        // cycles per instruction; nil is unknown
	Ratio      *float64         `json:"ratio,omitempty"`      // its cycles to the least that the model gives them; nil is unknown
	Cause      string           `json:"cause,omitempty"`
	CauseShare float64          `json:"cause_share,omitempty"` // of its cycles
	Within     infer.Confidence `json:"confidence_within"`     // of the counts under half of its samples, or better
}

// Item is r in a document.
func (r *ProcRow) Item() ProcItem {
	known := func(n float64) *float64 {
		if math.IsNaN(n) {
			return nil
		}
		return &n
	}
	i := ProcItem{
		ID: r.ID, Name: NameOf(r.Linker), Image: r.Path, Samples: r.Samples, Share: r.Share, Seconds: known(r.Seconds), Cycles: r.Cycles, Lost: r.Lost,
		Executions: known(r.Executions), CPI: known(r.CPI), Ratio: known(r.Ratio), Cause: r.Cause, CauseShare: r.CauseShare, Within: r.Within,
	}
	if i.Executions != nil {
		i.Confidence = r.Conf.String()
	}
	return i
}

// A Head heads a column of a ProcList.
type Head struct {
	Name   string
	Note   string // what the column shows
	Href   string // sorts by the column; "" does not
	Sorted string // "ascending" or "descending"; "" is by another column
	Right  bool
}

// A ProcList is a table of procedures.
type ProcList struct {
	Caption       string
	Before, After string   // where the rest of a list is that is longer; "" is nowhere
	Fewer         string   // where those are that Caption says are left out; "" is nowhere
	Form          *Choices // what chooses; nil of a list that does not
	Least         uint64   // samples that scripts show procedures with, at first
	Heads         []Head   // of all columns, as ProcHeads has them
	Rows          []ProcRow
	MostCycles    float64 // that a bar has room for
	All           int     // procedures, where scripts may have fewer; 0 is what they have
}

// Choices are what a ProcList shows.
type Choices struct {
	Find   string // what is in all names
	Image  int    // an index into Images; -1 is all
	Images []string
	Min    uint64 // samples
	Order  string // of the column that sorts
	Up     bool   // the least first
}

// ProcHeads are the heads of a ProcList that does not sort. Samples count time, or they do not.
func ProcHeads(timed bool) []Head {
	time := Head{Name: "cycles", Note: "that it took", Right: true}
	if timed {
		time = Head{Name: "seconds", Note: "of processors", Right: true}
	}
	return []Head{
		{Name: "procedure"}, {Name: "cycles, and lost ones", Note: "the strong part of a bar is lost in stalls"},
		{Name: "lost", Note: "of all cycles: those in its stalls, an estimate with the doubt in how often it ran", Right: true},
		time, {Name: "share", Note: "of all samples", Right: true}, {Name: "samples", Note: "samples that lie in it", Right: true},
		{Name: "executions", Note: "how often it was entered, inferred", Right: true},
		{Name: "CPI", Note: "cycles per instruction", Right: true}, {Name: "actual / ideal", Note: "its cycles to the least that its instructions can take", Right: true},
		{Name: "likeliest cause", Note: "of its stalls"}, {Name: "of cycles", Note: "what the likeliest cause explains of its cycles at most", Right: true},
		{Name: "within-function", Note: "within-function confidence of the counts of its blocks: half of its samples lie where it is this or better"},
		{Name: "image"},
	}
}

// HTML returns the list as markup. all is the cycles that shares are of.
func (l *ProcList) HTML(all float64) (template.HTML, error) {
	type row struct {
		*ProcRow
		N, Percent, Time, Away, Runs, PerInst, Times, Of string

		Light, Dark float64 // units
	}
	most := l.MostCycles
	for i := range l.Rows {
		most = max(most, l.Rows[i].Cycles)
	}
	var rows []row
	for i := range l.Rows {
		r := &l.Rows[i]
		out := row{
			ProcRow: r, N: Integer(r.Samples), Percent: Percent(r.Share), Time: Count(r.Cycles), Away: "-", Runs: Count(r.Executions), PerInst: Ratio(r.CPI), Times: Ratio(r.Ratio), Of: "-",
		}
		if !math.IsNaN(r.Seconds) {
			out.Time = Seconds(r.Seconds)
		}
		if all > 0 {
			out.Away = Percent(r.Lost / all)
		}
		if most > 0 {
			out.Light, out.Dark = units(r.Cycles/most), units(r.Lost/most)
		}
		if r.Cause != "" {
			out.Of = Percent(r.CauseShare)
		}
		rows = append(rows, out)
	}
	return markup("procs.tmpl", map[string]any{"List": l, "Rows": rows, "Units": barUnits, "All": all})
}
