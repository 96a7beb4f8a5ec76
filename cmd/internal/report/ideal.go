package report

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/explain"
	"backfeed/sample"
)

// An Ideal is what prof --experiment ideal prints as JSON.
type Ideal struct {
	Schema  string          `json:"schema"`
	Event   string          `json:"event"`
	Machine string          `json:"machine"`
	Clock   *document.Clock `json:"clock,omitempty"` // of a timer's samples
	Total   IdealRow        `json:"total"`
	Rows    []IdealRow      `json:"items"`
	// Stacks are of inclusive figures: nil if they were not asked for.
	Stacks *UsertimeStacks `json:"stacks,omitempty"`
	trust  *Trust

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
	Inclusive *Inclusive `json:"inclusive,omitempty"`
	samples   uint64
}

// Inclusive is what a procedure takes with what it calls, by call stacks: of each sample in it or in what it called, what the
// procedure that was sampled takes for one of its samples.
type Inclusive struct {
	Cycles       float64 `json:"cycles"` // uncounted ones too
	Ideal        float64 `json:"ideal_cycles"`
	Instructions float64 `json:"instructions"`
}

func (i *Inclusive) add(o Inclusive, n float64) {
	i.Cycles, i.Ideal, i.Instructions = i.Cycles+n*o.Cycles, i.Ideal+n*o.Ideal, i.Instructions+n*o.Instructions
}

// add adds the figures of another row that newIdealRow takes.
func (r *IdealRow) add(o *IdealRow) {
	r.Cycles, r.Ideal, r.Uncounted, r.Instructions = r.Cycles+o.Cycles, r.Ideal+o.Ideal, r.Uncounted+o.Uncounted, r.Instructions+o.Instructions
}

// most is what rows are ordered by: cycles, inclusive ones where they are told.
func (r *IdealRow) most() float64 {
	if r.Inclusive != nil {
		return r.Inclusive.Cycles
	}
	return r.Cycles + r.Uncounted
}

func newIdealRow(cycles, ideal, uncounted, insts float64) IdealRow {
	r := IdealRow{Cycles: cycles, Ideal: ideal, Uncounted: uncounted, Instructions: insts}
	if ideal > 0 {
		r.Ratio = cycles / ideal
	}
	return r
}

// NewIdeal says what procedures would cost if nothing held them up: those with the most cycles first,
// at most so many; 0 is all. With rec, which p was inferred from, inclusive figures are told too; it returns nil
// if there are no call stacks to tell these by.
func NewIdeal(p *infer.Profile, x *explain.Explainer, lines int, rec *sample.Recording) *Ideal {
	doc := &Ideal{Schema: "backfeed.ideal/3", Event: p.Event.Name, Machine: p.Machine, Clock: infer.ClockOf(p), Rows: []IdealRow{}}
	rows := map[infer.CallProc]*IdealRow{}
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			if r.Samples == 0 {
				continue
			}
			i := x.Explain(ip, r).Ideal() // not x.All, which leaves out the least of blocks without samples
			row := newIdealRow(i.Cycles, i.Ideal, i.Uncounted, i.Instructions)
			row.Executions, row.Confidence = r.Entries.N, r.Entries.Conf.String()
			row.Image, row.Name = ip.ID.Path, NameOf(r.Proc.Name)
			row.samples = r.Samples
			doc.Total.add(&row)
			rows[infer.CallProc{Image: ip, Proc: ip.Image.Find(r.Proc.Addr)}] = &row
		}
	}
	doc.Total = newIdealRow(doc.Total.Cycles, doc.Total.Ideal, doc.Total.Uncounted, doc.Total.Instructions)
	if rec != nil && !doc.include(p, rec, rows) {
		return nil
	}
	var names []placed
	for at, row := range rows {
		names = append(names, placed{&row.Name, row.Image, addrOf(at)})
	}
	tellApart(names)
	for _, row := range rows {
		doc.Rows = append(doc.Rows, *row)
	}
	slices.SortFunc(doc.Rows, func(a, b IdealRow) int {
		return cmp.Or(cmp.Compare(b.most(), a.most()), strings.Compare(a.Image, b.Image), strings.Compare(a.Linker(), b.Linker()))
	})
	if lines > 0 && len(doc.Rows) > lines {
		doc.Rows = doc.Rows[:lines]
	}
	doc.trust, doc.CommonFactor = NewTrust(p), p.CommonFactor()
	return doc
}

// include adds inclusive figures to rows, and rows of procedures that were seen on stacks alone; false if there are no stacks.
func (doc *Ideal) include(p *infer.Profile, rec *sample.Recording, rows map[infer.CallProc]*IdealRow) bool {
	stacks := stacksOf(p.CallTimes(rec))
	if stacks.Bare == stacks.Samples {
		return false
	}
	doc.Stacks = &stacks
	one := map[infer.CallProc]Inclusive{} // what a sample stands for
	for at, r := range rows {
		n := float64(r.samples)
		one[at] = Inclusive{(r.Cycles + r.Uncounted) / n, r.Ideal / n, r.Instructions / n}
	}
	seen := map[infer.CallProc]bool{}
	for st := range p.CallStacks(rec) {
		clear(seen)
		for _, f := range st.Frames {
			if f.Name() == "" || seen[f.CallProc] {
				continue
			}
			seen[f.CallProc] = true
			r := rows[f.CallProc]
			if r == nil {
				r = &IdealRow{Image: imageOf(f.CallProc), Name: callName(f.CallProc)}
				rows[f.CallProc] = r
			}
			if r.Inclusive == nil {
				r.Inclusive = &Inclusive{}
			}
			r.Inclusive.add(one[st.Frames[0].CallProc], float64(st.N))
		}
	}
	return true
}

// Text writes the table, and how far executions are known.
func (doc *Ideal) Text(w io.Writer, style Style) error {
	t := doc.trust
	if err := doc.table(style).Print(w, style); err != nil {
		return err
	}
	_, err := Fprintf(w, style, "\nIdeal is executions times the least cycles of %s; cycles are of samples%s. Executions are inferred: of high confidence for %s of the samples,\n"+
		"medium for %s, low for %s; where it is low, ratios may be off by a factor of %d, in loops that follow pointers by more, and are to be compared with each other.\n",
		doc.Machine, atClock(doc.Clock), Share(t.Conf[infer.High], t.Samples), Share(t.Conf[infer.Medium], t.Samples), Share(t.Conf[infer.Low], t.Samples), infer.TimeFactor)
	if err == nil && doc.Stacks != nil {
		_, err = Fprintf(w, style, "Inclusive is with what a procedure calls, by call stacks: each sample stands for what the sampled procedure takes for one.\n")
		if err == nil {
			err = doc.Stacks.tell(w, doc.Event, style)
		}
	}
	if told := toldFactor(doc.CommonFactor); err == nil && told != "" {
		_, err = Fprintf(w, style, "%s\n", told)
	}
	return err
}

// table has a line for each procedure, and one for all.
func (doc *Ideal) table(style Style) *Table {
	known := func(n float64) string {
		if !(n > 0) {
			n = math.NaN()
		}
		return Count(n)
	}
	conf := func(r *IdealRow) string { return r.Confidence[:min(1, len(r.Confidence))] }
	all := doc.Total
	if doc.Stacks != nil {
		t := NewTable(Right("inclusive"), Right("ideal"), Right("ratio"), Right("own cycles"), Right("executions").Drop(2),
			Left("conf").Drop(3), Right("instructions").Drop(1), Paths("image"), Procedures("procedure").Main())
		for i := range doc.Rows {
			r, in := &doc.Rows[i], doc.Rows[i].Inclusive
			t.Row(Count(in.Cycles), known(in.Ideal), known(in.Cycles/in.Ideal), Count(r.Cycles+r.Uncounted), known(r.Executions), conf(r), known(in.Instructions), r.Image, r.In(style))
		}
		t.Row("", known(all.Ideal), known((all.Cycles+all.Uncounted)/all.Ideal), Count(all.Cycles+all.Uncounted), "", "", known(all.Instructions), "", "(all procedures)")
		return t
	}
	t := NewTable(Right("cycles"), Right("ideal"), Right("ratio"), Right("uncounted").Drop(4), Right("executions").Drop(2),
		Left("conf").Drop(3), Right("instructions").Drop(1), Paths("image"), Procedures("procedure").Main())
	for i := range doc.Rows {
		r := &doc.Rows[i]
		t.Row(Count(r.Cycles), known(r.Ideal), known(r.Ratio), Count(r.Uncounted), known(r.Executions), conf(r), known(r.Instructions), r.Image, r.In(style))
	}
	t.Row(Count(all.Cycles), known(all.Ideal), known(all.Ratio), Count(all.Uncounted), known(0), "", known(all.Instructions), "", "(all procedures)")
	return t
}
