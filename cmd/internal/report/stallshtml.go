package report

import (
	"html/template"
	"strings"

	"backfeed/infer/image"
)

// BlockID is the id of the block of a stall in the page of its procedure.
func (r *StallRow) BlockID() string { return blockID("", r.Block) }

// BlockIDOf is the id of a block in the page of its procedure.
func BlockIDOf(a image.Addr) string { return blockID("", a) }

// Likeliest says in words what a stall is most likely of, and what else it may be of.
func (r *StallRow) Likeliest() (cause, others string) {
	if len(r.Culprits) == 0 {
		return unexplained, ""
	}
	var also []string
	for _, c := range r.Culprits[1:] {
		if c.Most >= blameShare*r.Stall {
			also = append(also, c.Cause)
		}
	}
	if len(also) > maxCulprits {
		also = append(also[:maxCulprits-1], "others")
	}
	if c := r.Culprits[0]; c.Least > 0.005*c.Most && c.Least > 0 {
		return c.Cause + ", certain in part", orElse(also)
	}
	return r.Culprits[0].Cause, orElse(also)
}

// Rule is the name of the likeliest cause.
func (r *StallRow) Rule() string {
	if len(r.Culprits) == 0 {
		return unexplained
	}
	return r.Culprits[0].Cause
}

const unexplained = "unexplained"

// CauseNote says in a few words what a cause of that name is.
func CauseNote(name string) string {
	if c, err := CauseNamed(name); err == nil {
		return causeNotes[c]
	}
	return "no cause is left"
}

func orElse(also []string) string {
	if len(also) == 0 {
		return ""
	}
	return "or " + strings.Join(also, ", ")
}

// waited prints cycles that are not quite none.
func waited(n float64) string {
	if n < 0.005 {
		return "<0.01"
	}
	return cycles(n)
}

// StallsHTML lists stalls; href leads to the code of one, "" is nowhere.
func StallsHTML(caption string, stalls []StallRow, names Style, href func(*StallRow) string) (template.HTML, error) {
	type row struct {
		*StallRow
		Percent, Cause, Others, Proc, Line, Each, Runs, Href string
	}
	var rows []row
	for i := range stalls {
		r := &stalls[i]
		out := row{StallRow: r, Percent: Percent(r.Share), Proc: r.In(names), Line: lineOf(r.File, r.Line), Each: waited(r.Stall), Runs: Count(r.Executions), Href: href(r)}
		out.Cause, out.Others = r.Likeliest()
		rows = append(rows, out)
	}
	return markup("stalls.tmpl", map[string]any{"Caption": caption, "Rows": rows})
}
