package report

import (
	"html/template"
	"math"

	"backfeed/infer"
)

// A CallRow is a procedure that calls another, or is called by it.
type CallRow struct {
	Href    string // its page; "" is nowhere
	Image   string
	Name    string
	Sites   int              // call instructions that lead there
	Calls   float64          // executions of them, inferred; NaN is unknown
	Conf    infer.Confidence // program-wide; half of Calls have this or a better one
	Samples uint64           // taken below such a call, by recorded stacks
}

// A CallTable lists the callers or the callees of a procedure, the most calls first.
type CallTable struct {
	Caption string
	Rows    []CallRow
	Limit   int     // rows; 0 is all
	Whole   float64 // calls of all rows, which shares are of
	Stacks  bool    // stacks were recorded: there are samples to show
	None    string  // what to say without rows
}

// HTML returns the table as markup.
func (t *CallTable) HTML() (template.HTML, error) {
	type row struct {
		*CallRow
		N, Share, Taken string
		Known           bool
	}
	var rows []row
	for i := range t.Rows {
		r := &t.Rows[i]
		if t.Limit > 0 && i == t.Limit {
			break
		}
		out := row{CallRow: r, N: Count(r.Calls), Share: "-", Taken: Integer(r.Samples), Known: !math.IsNaN(r.Calls)}
		if out.Known && t.Whole > 0 {
			out.Share = Percent(r.Calls / t.Whole)
		}
		rows = append(rows, out)
	}
	return markup("calls.tmpl", map[string]any{"Table": t, "Rows": rows, "More": len(t.Rows) - len(rows)})
}
