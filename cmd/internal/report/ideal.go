package report

import (
	"cmp"
	"io"
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/explain"
)

// An Ideal is what prof --experiment ideal prints as JSON.
type Ideal struct {
	Schema  string          `json:"schema"`
	Event   string          `json:"event"`
	Machine string          `json:"machine"`
	Clock   *document.Clock `json:"clock,omitempty"` // of a timer's samples
	Total   IdealRow        `json:"total"`
	Rows    []IdealRow      `json:"items"`
	trust   *Trust

	CommonFactor float64 `json:"common_factor,omitempty"` // that executions, and ideal cycles, may be off by together
}

// An IdealRow is one procedure, or all.
type IdealRow struct {
	Cycles       float64 `json:"cycles"`       // of samples where executions are known
	Ideal        float64 `json:"ideal_cycles"` // executions times the model's least
	Ratio        float64 `json:"ratio"`        // cycles to ideal; 0 is unknown
	Uncounted    float64 `json:"uncounted_cycles"`
	Executions   float64 `json:"executions"`
	Confidence   string  `json:"confidence"` // of executions
	Instructions float64 `json:"instructions"`
	Image        string  `json:"image,omitempty"`
	Name
}

func newIdealRow(cycles, ideal, uncounted, insts float64) IdealRow {
	r := IdealRow{Cycles: cycles, Ideal: ideal, Uncounted: uncounted, Instructions: insts}
	if ideal > 0 {
		r.Ratio = cycles / ideal
	}
	return r
}

// NewIdeal says what procedures would cost if nothing held them up: those with the most cycles first,
// at most so many; 0 is all.
func NewIdeal(p *infer.Profile, x *explain.Explainer, lines int) *Ideal {
	doc := &Ideal{Schema: "backfeed.ideal/2", Event: p.Event.Name, Machine: p.Machine, Clock: infer.ClockOf(p), Rows: []IdealRow{}}
	var cycles, ideal, uncounted, insts float64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			if r.Samples == 0 {
				continue
			}
			i := x.Explain(ip, r).Ideal() // not x.All, which leaves out the least of blocks without samples
			cycles, ideal, uncounted, insts = cycles+i.Cycles, ideal+i.Ideal, uncounted+i.Uncounted, insts+i.Instructions
			row := newIdealRow(i.Cycles, i.Ideal, i.Uncounted, i.Instructions)
			row.Executions, row.Confidence = r.Entries.N, r.Entries.Conf.String()
			row.Image, row.Name = ip.ID.Path, NameOf(r.Proc.Name)
			doc.Rows = append(doc.Rows, row)
		}
	}
	doc.Total = newIdealRow(cycles, ideal, uncounted, insts)
	slices.SortStableFunc(doc.Rows, func(a, b IdealRow) int { return cmp.Compare(b.Cycles+b.Uncounted, a.Cycles+a.Uncounted) })
	if lines > 0 && len(doc.Rows) > lines {
		doc.Rows = doc.Rows[:lines]
	}
	doc.trust, doc.CommonFactor = NewTrust(p), p.CommonFactor()
	return doc
}

// Text writes the table, and how far executions are known.
func (doc *Ideal) Text(w io.Writer, style Style) error {
	t := doc.trust
	table := NewTable(Right("cycles"), Right("ideal"), Right("ratio"), Right("uncounted").Drop(4), Right("executions").Drop(2),
		Left("conf").Drop(3), Right("instructions").Drop(1), Paths("image"), Procedures("procedure").Main())
	known := func(n float64) string {
		if !(n > 0) {
			n = math.NaN()
		}
		return Count(n)
	}
	for _, r := range append(slices.Clip(doc.Rows), doc.Total) {
		conf, name := "", "(all procedures)"
		if r.Procedure != "" {
			conf, name = r.Confidence[:1], r.In(style)
		}
		table.Row(Count(r.Cycles), known(r.Ideal), known(r.Ratio), Count(r.Uncounted), known(r.Executions), conf, known(r.Instructions), r.Image, name)
	}
	if err := table.Print(w, style); err != nil {
		return err
	}
	_, err := Fprintf(w, style, "\nIdeal is executions times the least cycles of %s; cycles are of samples%s. Executions are inferred: of high confidence for %s of the samples,\n"+
		"medium for %s, low for %s; where it is low, ratios may be off by a factor of %d, in loops that follow pointers by more, and are to be compared with each other.\n",
		doc.Machine, atClock(doc.Clock), Share(t.Conf[infer.High], t.Samples), Share(t.Conf[infer.Medium], t.Samples), Share(t.Conf[infer.Low], t.Samples), infer.TimeFactor)
	if told := toldFactor(doc.CommonFactor); err == nil && told != "" {
		_, err = Fprintf(w, style, "%s\n", told)
	}
	return err
}
