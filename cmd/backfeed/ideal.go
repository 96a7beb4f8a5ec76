package main

import (
	"cmp"
	"io"
	"math"
	"slices"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

// An idealDoc is what prof --experiment ideal prints as JSON.
type idealDoc struct {
	Schema  string     `json:"schema"`
	Event   string     `json:"event"`
	Machine string     `json:"machine"`
	Total   idealRow   `json:"total"`
	Rows    []idealRow `json:"items"`
}

// An idealRow is one procedure, or all.
type idealRow struct {
	Cycles       float64 `json:"cycles"`       // of samples where executions are known
	Ideal        float64 `json:"ideal_cycles"` // executions times the model's least
	Ratio        float64 `json:"ratio"`        // cycles to ideal; 0 is unknown
	Uncounted    float64 `json:"uncounted_cycles"`
	Executions   float64 `json:"executions"`
	Confidence   string  `json:"confidence"` // of executions
	Instructions float64 `json:"instructions"`
	Image        string  `json:"image,omitempty"`
	report.Name
}

func newIdealRow(cycles, ideal, uncounted, insts float64) idealRow {
	r := idealRow{Cycles: cycles, Ideal: ideal, Uncounted: uncounted, Instructions: insts}
	if ideal > 0 {
		r.Ratio = cycles / ideal
	}
	return r
}

// ideal shows the time that procedures would take if nothing held them up.
func (c *cli) ideal(src *input.Session, lines int, format *choice) error {
	x, err := src.Explain()
	if err != nil {
		return err
	}
	doc := &idealDoc{Schema: "backfeed.ideal/2", Event: src.Profile.Event.Name, Machine: src.Profile.Machine, Rows: []idealRow{}}
	var cycles, ideal, uncounted, insts float64
	for _, ip := range src.Profile.Images {
		for _, r := range ip.Procs {
			if r.Samples == 0 {
				continue
			}
			i := x.Explain(ip, r).Ideal() // not x.All, which leaves out the least of blocks without samples
			cycles, ideal, uncounted, insts = cycles+i.Cycles, ideal+i.Ideal, uncounted+i.Uncounted, insts+i.Instructions
			row := newIdealRow(i.Cycles, i.Ideal, i.Uncounted, i.Instructions)
			row.Executions, row.Confidence = r.Entries.N, r.Entries.Conf.String()
			row.Image, row.Name = ip.ID.Path, report.NameOf(r.Proc.Name)
			doc.Rows = append(doc.Rows, row)
		}
	}
	doc.Total = newIdealRow(cycles, ideal, uncounted, insts)
	slices.SortStableFunc(doc.Rows, func(a, b idealRow) int { return cmp.Compare(b.Cycles+b.Uncounted, a.Cycles+a.Uncounted) })
	if lines > 0 && len(doc.Rows) > lines {
		doc.Rows = doc.Rows[:lines]
	}
	return c.print("-", format, doc, doc.Rows, func(w io.Writer, style report.Style) error { return doc.text(w, style, report.NewTrust(src.Profile)) })
}

func (doc *idealDoc) text(w io.Writer, style report.Style, t *report.Trust) error {
	table := report.NewTable(report.Right("cycles"), report.Right("ideal"), report.Right("ratio"), report.Right("uncounted").Drop(4), report.Right("executions").Drop(2),
		report.Left("conf").Drop(3), report.Right("instructions").Drop(1), report.Paths("image"), report.Procedures("procedure").Main())
	known := func(n float64) string {
		if !(n > 0) {
			n = math.NaN()
		}
		return report.Count(n)
	}
	for _, r := range append(slices.Clip(doc.Rows), doc.Total) {
		conf, name := "", "(all procedures)"
		if r.Procedure != "" {
			conf, name = r.Confidence[:1], r.In(style)
		}
		table.Row(report.Count(r.Cycles), known(r.Ideal), known(r.Ratio), report.Count(r.Uncounted), known(r.Executions), conf, known(r.Instructions), r.Image, name)
	}
	if err := table.Print(w, style); err != nil {
		return err
	}
	_, err := report.Fprintf(w, style, "\nIdeal is executions times the least cycles of %s. Executions are inferred: of high confidence for %s of the samples,\n"+
		"medium for %s, low for %s; one factor that all share is not known, and ratios of procedures are to be compared with each other.\n",
		doc.Machine, report.Share(t.Conf[infer.High], t.Samples), report.Share(t.Conf[infer.Medium], t.Samples), report.Share(t.Conf[infer.Low], t.Samples))
	return err
}
