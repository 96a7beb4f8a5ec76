package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
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

	Processor string       `json:"processor,omitempty"` // whose formulas there are
	Formulas  string       `json:"formulas,omitempty"`  // where they are published
	Metrics   []MetricRow  `json:"metrics,omitempty"`   // that were counted, each followed by its parts
	Missing   []MissingRow `json:"missing,omitempty"`   // what is most worth knowing first
}

// A MetricRow is a metric of top-down, of level 1 to 3.
type MetricRow struct {
	Metric      string     `json:"metric"`           // as its maker calls it
	Parent      string     `json:"parent,omitempty"` // of level 2 and 3
	Level       int        `json:"level"`
	Of          string     `json:"of"` // slots, cycles or stalls: what the share is of
	Share       float64    `json:"share"`
	Range       [2]float64 `json:"range"`                 // of the share, with 95 % confidence
	Threshold   float64    `json:"threshold,omitempty"`   // above it the metric is high, if its parent is; absent where none is published
	High        string     `json:"high,omitempty"`        // yes, no, or maybe where the threshold is within the range
	Reliability float64    `json:"reliability,omitempty"` // the part of the time in which its events were counted; absent where that is not known
	First       bool       `json:"first,omitempty"`       // look at it first
	Next        string     `json:"next"`                  // what to do if it is high
}

// A MissingRow is what lacks events.
type MissingRow struct {
	Parent  string   `json:"parent,omitempty"` // of the metrics; absent is level 1
	Metrics []string `json:"metrics"`
	Events  []string `json:"events"`
	Record  string   `json:"record"` // a command that records them, with what leads there
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
	doc.TopDown = NewTopDown(x.CountedMetrics(of.Image, p), &sum)
	return doc
}

// NewTopDown has the shares as they were counted, or else as sum estimates them; m may be nil.
func NewTopDown(m *explain.Metrics, sum *explain.Summary) TopDownShares {
	td, counted := m.TopDown()
	if !counted {
		td = sum.TopDown()
	}
	pair := func(r explain.Range) [2]float64 { return [2]float64{r.Least, r.Most} }
	doc := TopDownShares{Estimated: !counted, Retiring: pair(td.Retiring), BadSpeculation: pair(td.BadSpeculation), FrontEnd: pair(td.FrontEnd), BackEnd: pair(td.BackEnd)}
	if m == nil {
		return doc
	}
	doc.Processor, doc.Formulas = m.Processor, m.Source
	for _, c := range m.Metrics {
		doc.Metrics = append(doc.Metrics, MetricRow{Metric: c.Name, Parent: c.Parent, Level: c.Level, Of: c.Of, Share: c.Share, Range: pair(c.Range),
			Threshold: c.Threshold, High: c.High.String(), Reliability: c.Reliability, First: c.Follow, Next: c.Next})
	}
	for _, c := range m.Missing {
		doc.Missing = append(doc.Missing, MissingRow(c))
	}
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
	fmt.Fprintln(w)
	return doc.TopDown.write(w, style)
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

// write writes the counted metrics as a tree, what to look at first, and how to record what is missing.
func (td *TopDownShares) write(w io.Writer, style Style) error {
	if td.Estimated {
		Fprintf(w, style, "%s\n", td.line())
	}
	if len(td.Metrics) > 0 {
		if td.Estimated {
			fmt.Fprintln(w)
		}
		Fprintf(w, style, "Top-down, counted: metrics of %s, by %s\n\n", td.Processor, td.Formulas)
		if err := td.table(false).Print(w, style); err != nil {
			return err
		}
		if said := td.unreliable(); said != "" {
			Fprintf(w, style, "\n%s\n", said)
		}
		first := td.first()
		if len(first) > 0 {
			fmt.Fprintln(w)
		}
		for _, line := range first {
			Fprintf(w, style, "%s\n", line)
		}
	}
	what, command := td.missing()
	if what == "" {
		return nil
	}
	Fprintf(w, style, "\n%s\n", what)
	_, err := fmt.Fprintf(w, "%s\n", pasted(command))
	return err
}

// pasted divides a command with one list in quotes into lines that have room everywhere, and are one command to a shell: a
// string ends before each backslash, and the next begins with its line.
func pasted(command string) string {
	const width = 78
	var b strings.Builder
	n := 0
	for piece := range strings.SplitAfterSeq(command, ",") {
		if n > 0 && n+len(piece) > width {
			b.WriteString("'\\\n'")
			n = 1
		}
		b.WriteString(piece)
		n += len(piece)
	}
	return b.String()
}

// table is the counted metrics, those of a level deeper further in; in pages, with what to do.
func (td *TopDownShares) table(page bool) *Table {
	thresholds := slices.ContainsFunc(td.Metrics, func(m MetricRow) bool { return m.Threshold > 0 })
	shared := slices.ContainsFunc(td.Metrics, func(m MetricRow) bool { return m.Reliability > 0 && m.Reliability < sample.AlwaysCounted })
	columns := []Column{Right("share"), Right("range, 95 %"), Left("of")}
	if shared {
		columns = append(columns, Right("reliability"))
	}
	if thresholds {
		columns = append(columns, Right("high above"), Left("high"))
	}
	if page {
		columns = append([]Column{Left("metric").Main()}, columns...)
		columns = append(columns, Sentences("if it is high"))
	} else {
		columns = append(columns, Left("metric").Main())
	}
	t := NewTable(columns...)
	for _, m := range td.Metrics {
		name := strings.Repeat("  ", m.Level-1) + m.Metric
		cells := []string{Percent(m.Share), tenths(m.Range), m.Of}
		if shared {
			reliability := "unknown"
			if m.Reliability > 0 {
				reliability = Percent(m.Reliability)
			}
			cells = append(cells, reliability)
		}
		if thresholds {
			cells = append(cells, fmt.Sprintf("%.0f %%", 100*m.Threshold), m.High)
		}
		if page {
			next := ""
			if m.High != "no" {
				next = m.Next
			}
			t.Row(append(append([]string{strings.Repeat("\u00a0\u00a0", m.Level-1) + m.Metric}, cells...), next)...)
			continue
		}
		t.Row(append(cells, name)...)
	}
	return t
}

func tenths(r [2]float64) string { return fmt.Sprintf("%.1f to %.1f %%", 100*r[0], 100*r[1]) }

// first says what to look at first, and what to do about it.
func (td *TopDownShares) first() (lines []string) {
	for _, m := range td.Metrics {
		if !m.First {
			continue
		}
		is := map[string]string{"yes": "is high", "maybe": "may be high"}[m.High]
		if is == "" {
			is = "is the largest loss"
		}
		lines = append(lines, fmt.Sprintf("%s %s. %s", m.Metric, is, m.Next))
	}
	if len(lines) == 0 && slices.ContainsFunc(td.Metrics, func(m MetricRow) bool { return m.Threshold > 0 }) {
		lines = []string{"Nothing is above its threshold."}
	}
	return lines
}

// unreliable says that nothing is known of how long events were counted; "" where it is.
func (td *TopDownShares) unreliable() string {
	if !slices.ContainsFunc(td.Metrics, func(m MetricRow) bool { return m.Reliability == 0 }) {
		return ""
	}
	return "The recording does not say for how long each event was counted: where events took turns on counters, these shares are off by that."
}

// missing says what is most worth recording next, and how; nothing where that is parts of what is not high.
func (td *TopDownShares) missing() (what, command string) {
	for _, m := range td.Missing {
		if m.Parent == "" {
			if td.Estimated {
				return "Events of counters tell better, where the processor has them:", m.Record
			}
			continue
		}
		for _, c := range td.Metrics {
			if c.Metric == m.Parent && c.High != "no" {
				return fmt.Sprintf("To know of %s (%s), record these events, too:", m.Parent, strings.Join(m.Metrics, ", ")), m.Record
			}
		}
	}
	return "", ""
}

// HTML is what was counted as a part of a page, and how to record what is missing.
func (td *TopDownShares) HTML() (template.HTML, error) {
	var b template.HTML
	if len(td.Metrics) > 0 {
		t, err := td.table(true).HTML("metrics of " + td.Processor + ", by " + td.Formulas)
		if err != nil {
			return "", err
		}
		b += t
		if said := td.unreliable(); said != "" {
			b += template.HTML("<p>" + template.HTMLEscapeString(said) + "</p>\n")
		}
		for _, line := range td.first() {
			b += template.HTML("<p>" + template.HTMLEscapeString(line) + "</p>\n")
		}
	}
	if what, command := td.missing(); what != "" {
		b += template.HTML("<p>" + template.HTMLEscapeString(what) + " <code>" + template.HTMLEscapeString(command) + "</code></p>\n")
	}
	return b, nil
}

// line is the four estimated shares in words.
func (td *TopDownShares) line() string {
	return fmt.Sprintf("Top-down, estimated from the causes: retiring %s, bad speculation %s, front-end bound %s, back-end bound %s.",
		percentRange(td.Retiring), percentRange(td.BadSpeculation), percentRange(td.FrontEnd), percentRange(td.BackEnd))
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
