package report

import (
	"html/template"

	"backfeed/infer"
)

// A ProcRow is one procedure in a list of them.
type ProcRow struct {
	Href        string // where more about it is; "" is nowhere
	Image, Name string
	Samples     uint64
	Share       float64          // of all samples
	Executions  float64          // NaN is unknown
	Conf        infer.Confidence // of Executions
	CPI         float64          // cycles per instruction; NaN is unknown
	Ratio       float64          // its cycles to the least that the model gives them; NaN is unknown
	Cause       string           // the likeliest one of its stalls; "" is none
	CauseShare  float64          // of its cycles
	Within      infer.Confidence // half of its samples lie in blocks with this one, or a better one, among its counts
}

// A Head heads a column of a ProcList.
type Head struct {
	Name   string
	Note   string // what the column shows
	Href   string // sorts by the column; "" does not
	Sorted bool
}

// A ProcList is a table of procedures.
type ProcList struct {
	Caption       string
	Before, After string // where the rest of a list is that is longer; "" is nowhere
	Find, Order   string // if Heads lead somewhere: what is in all names, and the column that sorts
	Heads         []Head // of all columns, as ProcHeads has them
	Rows          []ProcRow
}

// ProcHeads are the heads of a ProcList that does not sort.
func ProcHeads() []Head {
	return []Head{
		{Name: "procedure"}, {Name: "samples", Note: "samples that lie in it"}, {Name: "share", Note: "of all samples"},
		{Name: "executions", Note: "how often it was entered, inferred"},
		{Name: "CPI", Note: "cycles per instruction"}, {Name: "actual / ideal", Note: "its cycles to the least that its instructions can take"},
		{Name: "likeliest cause", Note: "of its stalls"}, {Name: "of cycles", Note: "what the likeliest cause explains of its cycles at most"},
		{Name: "within-function", Note: "within-function confidence of the counts of its blocks: half of its samples lie where it is this or better"},
		{Name: "image"},
	}
}

// HTML returns the list as markup.
func (l *ProcList) HTML() (template.HTML, error) {
	type row struct {
		*ProcRow
		N, Percent, Runs, Cycles, Times, Of string
	}
	var rows []row
	for i := range l.Rows {
		r := &l.Rows[i]
		out := row{ProcRow: r, N: Integer(r.Samples), Percent: Percent(r.Share), Runs: Count(r.Executions), Cycles: Ratio(r.CPI), Times: Ratio(r.Ratio), Of: "-"}
		if r.Cause != "" {
			out.Of = Percent(r.CauseShare)
		}
		rows = append(rows, out)
	}
	form := false
	for _, h := range l.Heads {
		form = form || h.Href != ""
	}
	return markup("procs.tmpl", map[string]any{"List": l, "Rows": rows, "Form": form})
}
