package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/truth"
	"backfeed/sample"
)

var verifyCmd = &command{
	name: "verify", args: "COUNTS --truth FILE [--samples SRC] [--symfs DIR]", short: "compare inferred counts with exact ones",
	long: `COUNTS is a counts document (backfeed infer --format json). The file of --truth is what callgrind counted:

    valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes \
        --callgrind-out-file=FILE PROGRAM

or the same as JSON, compressed or not; testdata/qemu makes that of programs for AArch64, too. Runs
need not be equally long: one scale is fitted to all counts. Instructions weigh by their samples in
SRC, which the images are needed for, or else by their exact executions. Confidence is held to its
promise, program-wide and within each function. Callgrind counts the repetitions of
string instructions; in images that are found they count once for each execution. The two histograms
are figures 8 and 9 of the DCPI paper (Anderson et al., SOSP 1997).`,
	examples: `backfeed infer app.bfr --format json -o counts.json
backfeed verify counts.json --truth app.callgrind --samples app.bfr`,
	run: runVerify,
}

func runVerify(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	sources := fs.StringArray("samples", nil, "weigh instructions by the samples of `SRC`; may be given again")
	truthFile := fs.String("truth", "", "compare with the exact counts in `file`")
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	if fs.NArg() == 2 && *truthFile == "" {
		*truthFile = fs.Arg(1)
		c.warn("the exact counts are named by --truth FILE now; the old way will go")
	} else if fs.NArg() != 1 {
		return c.usage(nil)
	}
	if *truthFile == "" {
		return c.usage(errors.New("want --truth FILE: what is compared with"))
	}
	doc, err := input.File(fs.Arg(0), document.Read)
	if err != nil {
		return err
	}
	exact, err := input.File(*truthFile, truth.Read)
	if err != nil {
		return err
	}
	src, err := c.sampled(*sources, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	var samples truth.SamplesByAddr
	if src.Recording != nil {
		if samples, err = samplesByAddr(src, doc.Event.Name); err != nil {
			return err
		}
	}
	c.countOnce(src, doc, exact)
	a := truth.Compare(doc, exact, samples)
	if a.Scale == 0 || a.NoBlock == 1 {
		return fail.Errorf(fail.Nothing, "%s and %s have no code in common", fs.Arg(0), *truthFile)
	}
	figures := newAccuracyDocument(a)
	return c.print("-", format, figures, figures.measures(), func(w io.Writer, style report.Style) error {
		return writeAccuracy(w, a, len(samples) > 0, style)
	})
}

// countOnce takes the repetitions of string instructions off the truth, for images that can be found.
func (c *cli) countOnce(src *input.Session, doc *document.Counts, exact *truth.Counts) {
	var repeated, all, unknown uint64
	for path, it := range exact.Images {
		total := it.Total()
		all += total
		i := slices.IndexFunc(doc.Images, func(im document.Image) bool { return truth.SamePath(im.Path, path) })
		if i < 0 {
			continue // nothing of it is compared
		}
		n, err := countOnce(src, &doc.Images[i], it)
		if err != nil {
			unknown += total
		}
		repeated += n
	}
	if repeated > 0 {
		c.warn("%s of the truth are repetitions of string instructions, which count once for each execution", report.Share(repeated, all))
	}
	if unknown > 0 {
		c.warn("of images with %s of the truth, which are not at hand, string instructions count by their repetitions", report.Share(unknown, all))
	}
}

// countOnce takes those of one image off, and returns how many there were.
func countOnce(src *input.Session, of *document.Image, it *truth.Image) (repetitions uint64, err error) {
	id := sample.ImageID{Path: of.Path}
	if of.BuildID != "" {
		if id.Build, err = sample.ParseBuildID(of.BuildID); err != nil {
			return 0, err
		}
	}
	im, err := src.Open(id)
	if err != nil {
		return 0, err
	}
	return it.CountOnce(im)
}

// sampled reads the samples of all paths, of which there may be none.
func (c *cli) sampled(paths []string, opt *input.Options) (*input.Session, error) {
	if len(paths) == 0 {
		if err := c.fs.refuse("it chooses from a store that --samples names", "since", "until", "label"); err != nil {
			return nil, c.usage(err)
		}
		return input.New(*opt)
	}
	return c.read(paths, opt)
}

// samplesByAddr returns the samples of one event their addresses.
func samplesByAddr(src *input.Session, event string) (truth.SamplesByAddr, error) {
	by := truth.SamplesByAddr{}
	for _, counts := range src.Recording.Counts {
		if counts.Event.Name != event {
			continue
		}
		for _, ic := range counts.Images {
			im, err := src.Open(ic.ID)
			if err != nil {
				continue // told below
			}
			by.Add(ic, im)
		}
	}
	src.TellImages(src.Recording)
	if len(by) == 0 {
		return nil, fail.Errorf(fail.Nothing, "no samples of event %q in an image that can be found", event)
	}
	return by, nil
}

// An accuracyDocument is an truth.Accuracy as other programs read it.
type accuracyDocument struct {
	Schema       string                `json:"schema"`
	BlockOverlap float64               `json:"block_overlap"`
	Overlap      float64               `json:"overlap"`
	Within5      float64               `json:"within5"`
	Within10     float64               `json:"within10"`
	Within15     float64               `json:"within15"`
	EdgeOverlap  float64               `json:"edge_overlap"`
	EdgeWithin10 float64               `json:"edge_within10"`
	Scale        float64               `json:"scale"`
	Zero         float64               `json:"executed_but_count_0"`
	NoBlock      float64               `json:"executed_outside_blocks"`
	Unrun        float64               `json:"sampled_but_not_executed"`
	Cold         float64               `json:"executed_but_cold"`
	ColdUnrun    float64               `json:"not_executed_and_cold"`
	Blocks       []calibrationDocument `json:"blocks"`
	BlocksWithin []calibrationDocument `json:"blocks_within"`
	Edges        []calibrationDocument `json:"edges"`
	EdgesWithin  []calibrationDocument `json:"edges_within"`
	Procs        []calibrationDocument `json:"procedures"`
	InstErrors   []errorDocument       `json:"instruction_errors"`
	EdgeErrors   []errorDocument       `json:"edge_errors"`
}

// A calibrationDocument is an truth.Calibration. Blocks and procedures are weighted
// by samples, edges by executions.
type calibrationDocument struct {
	Confidence infer.Confidence `json:"confidence"`
	N          int              `json:"n"`
	Weight     float64          `json:"weight"`
	Within10   float64          `json:"within10"`
	Within2x   float64          `json:"within2x"`
}

// An errorDocument is a bucket of an truth.Histogram: errors in percent.
type errorDocument struct {
	Low   *float64                     `json:"low"` // null: no bound
	High  *float64                     `json:"high"`
	Share map[infer.Confidence]float64 `json:"share"`
}

func newAccuracyDocument(a *truth.Accuracy) *accuracyDocument {
	return &accuracyDocument{
		"backfeed.verify/2",
		a.BlockOverlap, a.Overlap, a.Within5, a.Within10, a.Within15, a.EdgeOverlap, a.EdgeWithin10, a.Scale,
		a.Zero, a.NoBlock, a.Unrun, a.Cold, a.ColdUnrun,
		calibrations(&a.BlockProgramWide, bySamples), calibrations(&a.BlockWithinProc, bySamples),
		calibrations(&a.EdgeProgramWide, byExecutions), calibrations(&a.EdgeWithinProc, byExecutions), calibrations(&a.ProcProgramWide, bySamples),
		errorsOf(&a.InstErrors), errorsOf(&a.EdgeErrors),
	}
}

// A measure is one figure of an accuracyDocument.
type measure struct {
	Of         string  `json:"of"`         // as the document calls it
	Confidence string  `json:"confidence"` // of the counts that it is about; empty is all
	Name       string  `json:"name"`
	Value      float64 `json:"value"` // a share of 1, but for scale and n
}

// measures lists the figures of doc, its histograms left out.
func (doc *accuracyDocument) measures() []measure {
	all := []measure{
		{"program", "", "block_overlap", doc.BlockOverlap}, {"program", "", "overlap", doc.Overlap}, {"program", "", "within5", doc.Within5},
		{"program", "", "within10", doc.Within10}, {"program", "", "within15", doc.Within15}, {"program", "", "edge_overlap", doc.EdgeOverlap},
		{"program", "", "edge_within10", doc.EdgeWithin10}, {"program", "", "scale", doc.Scale}, {"program", "", "executed_but_count_0", doc.Zero},
		{"program", "", "executed_outside_blocks", doc.NoBlock}, {"program", "", "sampled_but_not_executed", doc.Unrun},
		{"program", "", "executed_but_cold", doc.Cold}, {"program", "", "not_executed_and_cold", doc.ColdUnrun},
	}
	for _, of := range []struct {
		name string
		cals []calibrationDocument
	}{{"blocks", doc.Blocks}, {"blocks_within", doc.BlocksWithin}, {"edges", doc.Edges}, {"edges_within", doc.EdgesWithin}, {"procedures", doc.Procs}} {
		for _, cal := range of.cals {
			conf := cal.Confidence.String()
			all = append(all, measure{of.name, conf, "n", float64(cal.N)}, measure{of.name, conf, "weight", cal.Weight},
				measure{of.name, conf, "within10", cal.Within10}, measure{of.name, conf, "within2x", cal.Within2x})
		}
	}
	return all
}

func bySamples(c *truth.Calibration) truth.Kept    { return c.Samples }
func byExecutions(c *truth.Calibration) truth.Kept { return c.Executions }

// confidences are the levels, the best first.
var confidences = [...]infer.Confidence{infer.High, infer.Medium, infer.Low, infer.None}

func calibrations(cal *[infer.High + 1]truth.Calibration, kept func(*truth.Calibration) truth.Kept) []calibrationDocument {
	var docs []calibrationDocument
	for _, conf := range confidences {
		k := kept(&cal[conf])
		docs = append(docs, calibrationDocument{conf, cal[conf].N, k.Weight, k.Within10, k.Within2x})
	}
	return docs
}

func errorsOf(h *truth.Histogram) []errorDocument {
	var docs []errorDocument
	for i := range h {
		low, high := h.Bounds(i)
		doc := errorDocument{Share: map[infer.Confidence]float64{}}
		if !math.IsInf(low, 0) {
			doc.Low = &low
		}
		if !math.IsInf(high, 0) {
			doc.High = &high
		}
		for _, conf := range confidences {
			doc.Share[conf] = h[i][conf]
		}
		docs = append(docs, doc)
	}
	return docs
}

// writeAccuracy prints figures, calibration and both histograms.
func writeAccuracy(w io.Writer, a *truth.Accuracy, sampled bool, style report.Style) error {
	weight := "executions"
	if sampled {
		weight = "samples"
	}
	steps := []func() error{
		func() error { return accuracyTable(a, weight).Print(w, style) },
		func() error {
			return calibrationTable(&a.BlockProgramWide, "program-wide", "blocks", weight, bySamples).Print(w, style)
		},
		func() error {
			return calibrationTable(&a.BlockWithinProc, "within function", "blocks", weight, bySamples).Print(w, style)
		},
		func() error {
			return calibrationTable(&a.EdgeProgramWide, "program-wide", "edges", "executions", byExecutions).Print(w, style)
		},
		func() error {
			return calibrationTable(&a.EdgeWithinProc, "within function", "edges", "executions", byExecutions).Print(w, style)
		},
		func() error {
			return calibrationTable(&a.ProcProgramWide, "program-wide", "procedures", weight, bySamples).Print(w, style)
		},
		func() error {
			return histogram("error of the counts of instructions, by "+weight, &a.InstErrors).Print(w, style)
		},
		func() error {
			return histogram("error of the counts of edges, by executions", &a.EdgeErrors).Print(w, style)
		},
	}
	for i, step := range steps {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func accuracyTable(a *truth.Accuracy, weight string) *report.Table {
	t := report.NewTable(report.Right("value"), report.Left("of"))
	t.Row(report.Percent(a.BlockOverlap), "block overlap")
	t.Row(report.Percent(a.Overlap), "overlap, over instructions")
	t.Row(report.Percent(a.Within5), weight+" within 5 % of the truth")
	t.Row(report.Percent(a.Within10), weight+" within 10 %")
	t.Row(report.Percent(a.Within15), weight+" within 15 %")
	t.Row(report.Percent(a.EdgeOverlap), "edge overlap, over taken branches")
	t.Row(report.Percent(a.EdgeWithin10), "executions of taken branches within 10 %")
	t.Row(report.Percent(a.Zero), "executed instructions whose count is 0")
	t.Row(report.Percent(a.Cold), "executions of blocks that are called cold")
	t.Row(report.Percent(a.ColdUnrun), "blocks never executed that are called cold")
	t.Row(report.Percent(a.NoBlock), "executed instructions in no block")
	if weight == "samples" {
		t.Row(report.Percent(a.Unrun), "samples where nothing ran")
	}
	t.Row(fmt.Sprintf("%.4g", a.Scale), "executions in the truth for one inferred")
	return t
}

// calibrationTable holds each confidence to its promise.
func calibrationTable(cal *[infer.High + 1]truth.Calibration, promise, what, weight string, kept func(*truth.Calibration) truth.Kept) *report.Table {
	t := report.NewTable(report.Left(promise), report.Right(what), report.Right(weight), report.Right("within 10 %"), report.Right("within factor 2"))
	for _, conf := range confidences {
		k := kept(&cal[conf])
		row := []string{conf.String(), fmt.Sprint(cal[conf].N), report.Percent(k.Weight), "-", "-"}
		if k.Weight > 0 {
			row[3], row[4] = report.Percent(k.Within10), report.Percent(k.Within2x)
		}
		t.Row(row...)
	}
	return t
}

// histogram draws a distribution of errors, stacked by confidence.
func histogram(title string, h *truth.Histogram) *report.Histogram {
	out := &report.Histogram{Title: title}
	for _, conf := range confidences {
		out.Legend = append(out.Legend, conf.String())
	}
	for i := range h {
		low, high := h.Bounds(i)
		bar := report.Bar{Label: percents(low, high)}
		for _, conf := range confidences {
			bar.Parts = append(bar.Parts, h[i][conf])
		}
		out.Bars = append(out.Bars, bar)
	}
	return out
}

// percents names the errors from low to high.
func percents(low, high float64) string {
	sign := func(v float64) string {
		if v == 0 {
			return "0"
		}
		return fmt.Sprintf("%+.0f", v)
	}
	switch {
	case math.IsInf(low, 0):
		return "below " + sign(high) + " %"
	case math.IsInf(high, 0):
		return sign(low) + " % or more"
	}
	return sign(low) + " to " + sign(high) + " %"
}
