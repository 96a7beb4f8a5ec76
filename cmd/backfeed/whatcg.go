package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/machine"
)

var whatcgCmd = &command{
	name: "whatcg", args: "SRC... [--symfs DIR] [--image IMAGE|--proc PROC|--cause CAUSE]", short: "say where the cycles go, by cause",
	reads: symfsHelp,
	long: `All time of the recording, of an image or of a procedure adds up to 100 % in the column "share":

static       what the machine model expects of the code: of so many instructions (dispatch), of results
             that others wait for (dependency), of units that others use (unit), of code to be fetched
stall        time beyond that, by the likeliest cause of each stall, as far as that one explains it. "least"
             is what nothing else can explain, "most" what the cause may explain of all stalls
several      what of stalls the likeliest cause cannot explain, but others can
unexplained  what of stalls no cause can explain
uncounted    code whose executions are not known, so that least and stall are not
kernel, elsewhere  samples that are in no procedure of an image that is here

The four shares of the top-down method are made from events that count places of the pipeline, where
the recording has them. Otherwise they are estimated from causes, and are ranges.

--cause lists the procedures that one cause may cost most. ` + procHelp,
	examples: `backfeed whatcg app.bfr
backfeed whatcg app.bfr --proc lookup
backfeed whatcg app.bfr --cause mispredict -n 5`,
	run: runWhatcg,
}

// A spentRow is a part of the time.
type spentRow struct {
	Kind   string  `json:"kind"` // as the command's help has them
	Cause  string  `json:"cause,omitempty"`
	Letter string  `json:"letter,omitempty"`
	Cycles float64 `json:"cycles"`
	Share  float64 `json:"share"` // of all time: these add up to 1
	Least  float64 `json:"least"` // share of all time that the cause explains at least
	Most   float64 `json:"most"`
}

// A topDownDoc is the four shares of level 1.
type topDownDoc struct {
	Estimated      bool       `json:"estimated"` // from causes, not counted
	Retiring       [2]float64 `json:"retiring"`  // shares of all time, at least and at most
	BadSpeculation [2]float64 `json:"bad_speculation"`
	FrontEnd       [2]float64 `json:"front_end"`
	BackEnd        [2]float64 `json:"back_end"`
}

// A whatcgDoc is what whatcg prints as JSON.
type whatcgDoc struct {
	timeHeader
	Image string `json:"image,omitempty"` // what it is about; empty is all
	report.Name
	Cycles  float64    `json:"cycles"`
	Spent   []spentRow `json:"spent"`
	TopDown topDownDoc `json:"topdown"`
}

// A blamedRow is a procedure that a cause costs time.
type blamedRow struct {
	Share   float64 `json:"share"` // of all time: stalls that the cause is likeliest to explain
	Sum     float64 `json:"sum"`   // of the shares so far
	Least   float64 `json:"least"` // of all time: what nothing else can explain
	Most    float64 `json:"most"`
	Of      float64 `json:"of"` // Share, of the procedure's own time
	Samples uint64  `json:"samples"`
	Image   string  `json:"image"`
	report.Name
}

// A blamedDoc is what whatcg --cause prints as JSON.
type blamedDoc struct {
	timeHeader
	Cause      string      `json:"cause"`
	Procedures []blamedRow `json:"items"`
}

func runWhatcg(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	c.inference(opt)
	inImage := fs.String("image", "", "only of the image with that `path` or build ID")
	inProc := fs.String("proc", "", "only of procedure `name`")
	stall := fs.String("cause", "", "list the procedures that stall for `cause`, a name or a letter")
	n := fs.IntP("lines", "n", 20, "with --cause, list at most `N` procedures; 0 lists all")
	fs.alias("stall", "cause")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *stall == "" && fs.Changed("lines") {
		return c.usage(errors.New("-n goes with --cause: without it there is one line for each cause"))
	}
	if *inImage != "" && *inProc != "" {
		return c.usage(fmt.Errorf("--image with --proc: an image's procedure is --proc IMAGE:PROC"))
	}
	var cause infer.Cause
	if *stall != "" {
		var err error
		if cause, err = causeNamed(*stall); err != nil {
			return c.usage(fmt.Errorf("--cause: %w", err))
		}
	}
	opt.Images = []string{*inImage}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	var of sampledProc
	switch {
	case *inProc != "":
		of, err = procOf(src, *inProc)
	case *inImage != "":
		of.ip, err = src.Image(*inImage)
	}
	if err != nil {
		return err
	}
	x, err := src.Explain()
	if err != nil {
		return err
	}
	if *stall != "" {
		doc := blamedFor(src, x, of, cause, *n)
		return c.print("-", format, doc, doc.Procedures, doc.text)
	}
	doc := spent(src, x, of)
	return c.print("-", format, doc, doc.Spent, doc.text)
}

// eachOf explains the procedures of an image, or one, or all.
func eachOf(x *infer.Explainer, of sampledProc, f func(*infer.ImageProfile, *infer.Explanation)) {
	if of.r != nil {
		f(of.ip, x.Explain(of.ip, of.r))
		return
	}
	for ip, e := range x.All() {
		if of.ip == nil || of.ip == ip {
			f(ip, e)
		}
	}
}

// spent sums the time of an image or a procedure up, of the recording if both are nil.
func spent(s *input.Session, x *infer.Explainer, of sampledProc) *whatcgDoc {
	doc := &whatcgDoc{timeHeader: newTimeHeader(s, "backfeed.whatcg/2", x)}
	var sum infer.Summary
	eachOf(x, of, func(_ *infer.ImageProfile, e *infer.Explanation) { sum.Add(&e.Summary) })
	if of.ip == nil {
		sum.Add(x.Rest())
	} else {
		doc.Image = of.ip.ID.Path
	}
	var p *image.Proc
	if of.r != nil {
		p = of.r.Proc
		doc.Name = report.NameOf(p.Name)
	}
	doc.Cycles, doc.Spent = sum.Cycles, spentRows(&sum)
	td, counted := x.CountedTopDown(of.ip, p)
	if !counted {
		td = sum.TopDown()
	}
	pair := func(r infer.Range) [2]float64 { return [2]float64{r.Least, r.Most} }
	doc.TopDown = topDownDoc{!counted, pair(td.Retiring), pair(td.BadSpeculation), pair(td.FrontEnd), pair(td.BackEnd)}
	return doc
}

// spentRows takes s apart: all rows but those that explain nothing.
func spentRows(s *infer.Summary) []spentRow {
	rows := []spentRow{}
	all := max(s.Cycles, 1e-300)
	add := func(row spentRow) {
		if row.Cycles > 1e-9*s.Cycles || row.Most > 0 {
			row.Share = row.Cycles / all
			rows = append(rows, row)
		}
	}
	for why, n := range s.Static {
		name := machine.Why(why).String()
		if machine.Why(why) == machine.Together {
			continue // goes with dispatch: the model has it that way
		}
		if machine.Why(why) == machine.Dispatch {
			n += s.Static[machine.Together]
		}
		add(spentRow{Kind: "static", Cause: name, Cycles: n})
	}
	causes := infer.Causes()
	slices.SortStableFunc(causes, func(a, b infer.Cause) int { return cmp.Compare(s.Likeliest[b], s.Likeliest[a]) })
	for _, c := range causes {
		add(spentRow{Kind: "stall", Cause: c.String(), Letter: string(c.Letter()), Cycles: s.Likeliest[c], Least: s.Causes[c].Least / all, Most: s.Causes[c].Most / all})
	}
	add(spentRow{Kind: "several", Cycles: s.Several()})
	add(spentRow{Kind: "unexplained", Cycles: s.Unexplained, Letter: "?"})
	add(spentRow{Kind: "uncounted", Cycles: s.Uncounted})
	add(spentRow{Kind: "kernel", Cycles: s.Kernel})
	add(spentRow{Kind: "elsewhere", Cycles: s.Elsewhere})
	return rows
}

func (doc *whatcgDoc) text(w io.Writer, style report.Style) error {
	if err := doc.timeHeader.write(w, style); err != nil {
		return err
	}
	switch {
	case doc.Procedure != "":
		report.Fprintf(w, style, "Of procedure %s of %s:\n", doc.In(style), doc.Image)
	case doc.Image != "":
		report.Fprintf(w, style, "Of image %s:\n", doc.Image)
	}
	fmt.Fprintln(w)
	if err := writeSpent(w, doc.Spent, style); err != nil {
		return err
	}
	_, err := report.Fprintf(w, style, "\n%s\n", doc.TopDown.line())
	return err
}

func writeSpent(w io.Writer, rows []spentRow, style report.Style) error {
	t := report.NewTable(report.Right("share"), report.Right("least"), report.Right("most"), report.Right("cycles"), report.Left("kind"), report.Left("cause").Main())
	for _, r := range rows {
		least, most := "", ""
		if r.Kind == "stall" {
			least, most = report.Percent(r.Least), report.Percent(r.Most)
		}
		t.Row(report.Percent(r.Share), least, most, report.Count(r.Cycles), r.Kind, strings.TrimSpace(r.Letter+" "+r.Cause))
	}
	return t.Print(w, style)
}

// line is the top-down shares in words.
func (td *topDownDoc) line() string {
	from := "counted"
	if td.Estimated {
		from = "estimated from the causes"
	}
	return fmt.Sprintf("Top-down, %s: retiring %s, bad speculation %s, front end %s, back end %s.",
		from, percentRange(td.Retiring), percentRange(td.BadSpeculation), percentRange(td.FrontEnd), percentRange(td.BackEnd))
}

func percentRange(r [2]float64) string { return fmt.Sprintf("%.0f to %.0f %%", 100*r[0], 100*r[1]) }

// blamedFor lists the procedures that a cause costs most, of an image or of all.
func blamedFor(s *input.Session, x *infer.Explainer, of sampledProc, cause infer.Cause, n int) *blamedDoc {
	doc := &blamedDoc{timeHeader: newTimeHeader(s, "backfeed.whatcg.stall/2", x), Cause: cause.String(), Procedures: []blamedRow{}}
	all := float64(max(1, doc.Samples)) * doc.CyclesPerSample
	eachOf(x, of, func(ip *infer.ImageProfile, e *infer.Explanation) {
		if r := e.Causes[cause]; r.Most > 0 {
			doc.Procedures = append(doc.Procedures, blamedRow{
				Share: e.Likeliest[cause] / all, Least: r.Least / all, Most: r.Most / all, Of: e.Likeliest[cause] / max(e.Cycles, 1e-300),
				Samples: e.Result.Samples, Image: ip.ID.Path, Name: report.NameOf(e.Result.Proc.Name),
			})
		}
	})
	slices.SortStableFunc(doc.Procedures, func(a, b blamedRow) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Most, a.Most)) })
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

func (doc *blamedDoc) text(w io.Writer, style report.Style) error {
	if err := doc.timeHeader.write(w, style); err != nil {
		return err
	}
	report.Fprintf(w, style, "Stalls for %s:\n\n", doc.Cause)
	t := report.NewTable(report.Right("share"), report.Right("sum").Drop(1), report.Right("least"), report.Right("most"), report.Right("of its time"),
		report.Paths("image"), report.Procedures("procedure").Main())
	for _, r := range doc.Procedures {
		t.Row(report.Percent(r.Share), report.Percent(r.Sum), report.Percent(r.Least), report.Percent(r.Most), report.Percent(r.Of), r.Image, r.In(style))
	}
	return t.Print(w, style)
}
