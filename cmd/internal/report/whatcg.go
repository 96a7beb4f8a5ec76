package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// A SpentRow is a part of the time.
type SpentRow struct {
	Kind   string  `json:"kind"` // as the command's help has them
	Cause  string  `json:"cause,omitempty"`
	Letter string  `json:"letter,omitempty"`
	Cycles float64 `json:"cycles"`
	Share  float64 `json:"share"` // of all time: these add up to 1
	Least  float64 `json:"least"` // share of all time that the cause explains at least
	Most   float64 `json:"most"`
}

// A TopDownShares is the four shares of level 1.
type TopDownShares struct {
	Estimated      bool       `json:"estimated"` // from causes, not counted
	Retiring       [2]float64 `json:"retiring"`  // shares of all time, at least and at most
	BadSpeculation [2]float64 `json:"bad_speculation"`
	FrontEnd       [2]float64 `json:"front_end"`
	BackEnd        [2]float64 `json:"back_end"`
}

// A WhatCG is what whatcg prints as JSON.
type WhatCG struct {
	TimeHeader
	Image string `json:"image,omitempty"` // what it is about; empty is all
	Name
	Cycles  float64       `json:"cycles"`
	Spent   []SpentRow    `json:"spent"`
	TopDown TopDownShares `json:"topdown"`
}

// A BlamedRow is a procedure that a cause costs time.
type BlamedRow struct {
	Share   float64 `json:"share"` // of all time: stalls that the cause is likeliest to explain
	Sum     float64 `json:"sum"`   // of the shares so far
	Least   float64 `json:"least"` // of all time: what nothing else can explain
	Most    float64 `json:"most"`
	Of      float64 `json:"of"` // Share, of the procedure's own time
	Samples uint64  `json:"samples"`
	Missed  float64 `json:"mispredicted,omitempty"` // of mispredict: branches expected to be, for 1000 instructions of the recording
	Image   string  `json:"image"`
	Name
}

// A Blamed is what whatcg --cause prints as JSON.
type Blamed struct {
	TimeHeader
	Cause      string      `json:"cause"`
	Procedures []BlamedRow `json:"items"`
}

// eachOf explains the procedures of an image, or one, or all.
func eachOf(x *explain.Explainer, of Subject, f func(*infer.ImageProfile, *explain.Explanation)) {
	if of.Result != nil {
		f(of.Image, x.Explain(of.Image, of.Result))
		return
	}
	for ip, e := range x.All() {
		if of.Image == nil || of.Image == ip {
			f(ip, e)
		}
	}
}

// NewWhatCG sums the time of an image or a procedure up, of the recording if both are nil.
func NewWhatCG(prof *infer.Profile, x *explain.Explainer, of Subject) *WhatCG {
	doc := &WhatCG{TimeHeader: NewTimeHeader(prof, "backfeed.whatcg/2", x)}
	var sum explain.Summary
	eachOf(x, of, func(_ *infer.ImageProfile, e *explain.Explanation) { sum.Add(&e.Summary) })
	if of.Image == nil {
		sum.Add(x.Rest())
	} else {
		doc.Image = of.Image.ID.Path
	}
	var p *image.Proc
	if of.Result != nil {
		p = of.Result.Proc
		doc.Name = NameOf(p.Name)
	}
	doc.Cycles, doc.Spent = sum.Cycles, SpentRows(&sum)
	td, counted := x.CountedTopDown(of.Image, p)
	if !counted {
		td = sum.TopDown()
	}
	pair := func(r explain.Range) [2]float64 { return [2]float64{r.Least, r.Most} }
	doc.TopDown = TopDownShares{!counted, pair(td.Retiring), pair(td.BadSpeculation), pair(td.FrontEnd), pair(td.BackEnd)}
	return doc
}

// SpentRows takes s apart: all rows but those that explain nothing.
func SpentRows(s *explain.Summary) []SpentRow {
	rows := []SpentRow{}
	all := max(s.Cycles, 1e-300)
	add := func(row SpentRow) {
		if row.Cycles > 1e-9*s.Cycles || row.Most > 0 {
			row.Share = row.Cycles / all
			rows = append(rows, row)
		}
	}
	ranges := s.ExpectedRanges()
	for i, n := range s.Expected() {
		if static := explain.Static(i); static != explain.Static(machine.Together) {
			r := ranges[i]
			add(SpentRow{Kind: "static", Cause: static.String(), Cycles: n, Least: r.Least / all, Most: r.Most / all})
		}
	}
	causes := explain.Causes()
	slices.SortStableFunc(causes, func(a, b explain.Cause) int { return cmp.Compare(s.Likeliest[b], s.Likeliest[a]) })
	for _, c := range causes {
		add(SpentRow{Kind: "stall", Cause: c.String(), Letter: string(c.Letter()), Cycles: s.Likeliest[c], Least: s.Causes[c].Least / all, Most: s.Causes[c].Most / all})
	}
	add(SpentRow{Kind: "several", Cycles: s.Several()})
	add(SpentRow{Kind: "unexplained", Cycles: s.Unexplained, Letter: "?"})
	add(SpentRow{Kind: "uncounted", Cycles: s.Uncounted})
	add(SpentRow{Kind: "kernel", Cycles: s.Kernel})
	add(SpentRow{Kind: "elsewhere", Cycles: s.Elsewhere})
	return rows
}

// Text writes where time went, and the top-down shares.
func (doc *WhatCG) Text(w io.Writer, style Style) error {
	if err := doc.TimeHeader.write(w, style); err != nil {
		return err
	}
	switch {
	case doc.Procedure != "":
		Fprintf(w, style, "Of procedure %s of %s:\n", doc.In(style), doc.Image)
	case doc.Image != "":
		Fprintf(w, style, "Of image %s:\n", doc.Image)
	}
	fmt.Fprintln(w)
	if err := writeSpent(w, doc.Spent, style); err != nil {
		return err
	}
	_, err := Fprintf(w, style, "\n%s\n", doc.TopDown.line())
	return err
}

func writeSpent(w io.Writer, rows []SpentRow, style Style) error {
	t := NewTable(Right("share"), Right("least"), Right("most"), Right("cycles"), Left("kind"), Left("cause").Main())
	for _, r := range rows {
		least, most := "", ""
		if r.Kind == "stall" || r.Most > 0 { // documents of older versions have none of static time
			least, most = Percent(r.Least), Percent(r.Most)
		}
		t.Row(Percent(r.Share), least, most, Count(r.Cycles), r.Kind, strings.TrimSpace(r.Letter+" "+r.Cause))
	}
	return t.Print(w, style)
}

// line is the top-down shares in words.
func (td *TopDownShares) line() string {
	from := "counted"
	if td.Estimated {
		from = "estimated from the causes"
	}
	return fmt.Sprintf("Top-down, %s: retiring %s, bad speculation %s, front-end bound %s, back-end bound %s.",
		from, percentRange(td.Retiring), percentRange(td.BadSpeculation), percentRange(td.FrontEnd), percentRange(td.BackEnd))
}

func percentRange(r [2]float64) string { return fmt.Sprintf("%.0f to %.0f %%", 100*r[0], 100*r[1]) }

// NewBlamed lists the procedures that a cause costs most, of an image or of all.
func NewBlamed(prof *infer.Profile, x *explain.Explainer, of Subject, cause explain.Cause, n int) *Blamed {
	doc := &Blamed{TimeHeader: NewTimeHeader(prof, "backfeed.whatcg.stall/2", x), Cause: cause.String(), Procedures: []BlamedRow{}}
	all := float64(max(1, doc.Samples)) * doc.CyclesPerSample
	insts := 0.0
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			insts += r.Instructions()
		}
	}
	eachOf(x, of, func(ip *infer.ImageProfile, e *explain.Explanation) {
		if r := e.Causes[cause]; r.Most > 0 {
			missed := 0.0
			if cause == explain.Mispredict {
				missed = 1000 * e.Mispredicted / max(insts, 1)
			}
			doc.Procedures = append(doc.Procedures, BlamedRow{
				Share: e.Likeliest[cause] / all, Least: r.Least / all, Most: r.Most / all, Of: e.Likeliest[cause] / max(e.Cycles, 1e-300),
				Samples: e.Result.Samples, Missed: missed, Image: ip.ID.Path, Name: NameOf(e.Result.Proc.Name),
			})
		}
	})
	slices.SortStableFunc(doc.Procedures, func(a, b BlamedRow) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Most, a.Most)) })
	if n > 0 && len(doc.Procedures) > n {
		doc.Procedures = doc.Procedures[:n]
	}
	sum := 0.0
	for i := range doc.Procedures {
		sum += doc.Procedures[i].Share
		doc.Procedures[i].Sum = sum
	}
	return doc
}

// Text writes the table.
func (doc *Blamed) Text(w io.Writer, style Style) error {
	if err := doc.TimeHeader.write(w, style); err != nil {
		return err
	}
	Fprintf(w, style, "Stalls for %s:\n\n", doc.Cause)
	columns := []Column{Right("share"), Right("sum").Drop(1), Right("least"), Right("most"), Right("of its time")}
	branches := doc.Cause == explain.Mispredict.String()
	if branches {
		columns = append(columns, Right("mispredicted"))
		Fprintf(w, style, "mispredicted: branches that are expected to be, by where they go, for 1000 instructions of the recording\n\n")
	}
	t := NewTable(append(columns, Paths("image"), Procedures("procedure").Main())...)
	for _, r := range doc.Procedures {
		row := []string{Percent(r.Share), Percent(r.Sum), Percent(r.Least), Percent(r.Most), Percent(r.Of)}
		if branches {
			row = append(row, fmt.Sprintf("%.2g", r.Missed))
		}
		t.Row(append(row, r.Image, r.In(style))...)
	}
	return t.Print(w, style)
}
