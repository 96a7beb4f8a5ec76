package report

import (
	"fmt"
	"io"
	"math"

	"backfeed/infer/document"
	"backfeed/infer/truth"
)

// An Accuracy is a truth.Accuracy as other programs read it.
type Accuracy struct {
	Schema       string           `json:"schema"`
	BlockOverlap float64          `json:"block_overlap"`
	Overlap      float64          `json:"overlap"`
	Within5      float64          `json:"within5"`
	Within10     float64          `json:"within10"`
	Within15     float64          `json:"within15"`
	EdgeOverlap  float64          `json:"edge_overlap"`
	EdgeWithin10 float64          `json:"edge_within10"`
	Scale        float64          `json:"scale"`
	Zero         float64          `json:"executed_but_count_0"`
	NoBlock      float64          `json:"executed_outside_blocks"`
	Unrun        float64          `json:"sampled_but_not_executed"`
	Cold         float64          `json:"executed_but_cold"`
	ColdUnrun    float64          `json:"not_executed_and_cold"`
	Entries      FactorRow        `json:"entry_errors"` // of procedures
	Trips        FactorRow        `json:"trip_errors"`  // of loops
	Blocks       []CalibrationRow `json:"blocks"`
	BlocksWithin []CalibrationRow `json:"blocks_within"`
	Edges        []CalibrationRow `json:"edges"`
	EdgesWithin  []CalibrationRow `json:"edges_within"`
	Procs        []CalibrationRow `json:"procedures"`
	Factors      []FactorKept     `json:"entry_factors"`
	InstErrors   []ErrorRow       `json:"instruction_errors"`
	EdgeErrors   []ErrorRow       `json:"edge_errors"`
}

// A CalibrationRow is a truth.Calibration. Blocks and procedures are weighted
// by samples, edges by executions.
type CalibrationRow struct {
	Confidence document.Confidence `json:"confidence"`
	N          int                 `json:"n"`
	Weight     float64             `json:"weight"`
	Within10   float64             `json:"within10"`
	Within2x   float64             `json:"within2x"`
}

// A FactorRow is a truth.FactorErrors.
type FactorRow struct {
	N        int     `json:"n"`
	Median   float64 `json:"median_factor"`
	Mean     float64 `json:"mean_factor"`
	Each     float64 `json:"median_factor_of_each"`
	Within2x float64 `json:"within2x"`
}

// A FactorKept is a truth.FactorPromise.
type FactorKept struct {
	Factor float64 `json:"factor"`
	N      int     `json:"n"`
	Kept   float64 `json:"kept"`
}

// An ErrorRow is a bucket of a truth.Histogram: errors in percent.
type ErrorRow struct {
	Low   *float64                        `json:"low"` // null: no bound
	High  *float64                        `json:"high"`
	Share map[document.Confidence]float64 `json:"share"`
}

// NewAccuracy returns a as other programs read it.
func NewAccuracy(a *truth.Accuracy) *Accuracy {
	return &Accuracy{
		"backfeed.verify/2",
		a.BlockOverlap, a.Overlap, a.Within5, a.Within10, a.Within15, a.EdgeOverlap, a.EdgeWithin10, a.Scale,
		a.Zero, a.NoBlock, a.Unrun, a.Cold, a.ColdUnrun,
		FactorRow(a.Entries), FactorRow(a.Trips),
		calibrations(&a.BlockProgramWide, BySamples), calibrations(&a.BlockWithinProc, BySamples),
		calibrations(&a.EdgeProgramWide, ByExecutions), calibrations(&a.EdgeWithinProc, ByExecutions), calibrations(&a.ProcProgramWide, BySamples),
		factorsOf(a.Factors), errorsOf(&a.InstErrors), errorsOf(&a.EdgeErrors),
	}
}

// A Measure is one figure of an Accuracy.
type Measure struct {
	Of         string  `json:"of"`         // as the document calls it
	Confidence string  `json:"confidence"` // of the counts that it is about; empty is all
	Name       string  `json:"name"`
	Value      float64 `json:"value"` // a share of 1, but for scale, n and factors
}

// Measures lists the figures of doc, its histograms left out.
func (doc *Accuracy) Measures() []Measure {
	all := []Measure{
		{"program", "", "block_overlap", doc.BlockOverlap}, {"program", "", "overlap", doc.Overlap}, {"program", "", "within5", doc.Within5},
		{"program", "", "within10", doc.Within10}, {"program", "", "within15", doc.Within15}, {"program", "", "edge_overlap", doc.EdgeOverlap},
		{"program", "", "edge_within10", doc.EdgeWithin10}, {"program", "", "scale", doc.Scale}, {"program", "", "executed_but_count_0", doc.Zero},
		{"program", "", "executed_outside_blocks", doc.NoBlock}, {"program", "", "sampled_but_not_executed", doc.Unrun},
		{"program", "", "executed_but_cold", doc.Cold}, {"program", "", "not_executed_and_cold", doc.ColdUnrun},
	}
	for _, of := range []struct {
		name string
		e    FactorRow
	}{{"entry_errors", doc.Entries}, {"trip_errors", doc.Trips}} {
		all = append(all, Measure{of.name, "", "n", float64(of.e.N)}, Measure{of.name, "", "median_factor", of.e.Median},
			Measure{of.name, "", "mean_factor", of.e.Mean}, Measure{of.name, "", "median_factor_of_each", of.e.Each},
			Measure{of.name, "", "within2x", of.e.Within2x})
	}
	for _, of := range []struct {
		name string
		cals []CalibrationRow
	}{{"blocks", doc.Blocks}, {"blocks_within", doc.BlocksWithin}, {"edges", doc.Edges}, {"edges_within", doc.EdgesWithin}, {"procedures", doc.Procs}} {
		for _, cal := range of.cals {
			conf := cal.Confidence.String()
			all = append(all, Measure{of.name, conf, "n", float64(cal.N)}, Measure{of.name, conf, "weight", cal.Weight},
				Measure{of.name, conf, "within10", cal.Within10}, Measure{of.name, conf, "within2x", cal.Within2x})
		}
	}
	for _, f := range doc.Factors {
		of := fmt.Sprintf("entries within %gx", f.Factor)
		all = append(all, Measure{of, "", "n", float64(f.N)}, Measure{of, "", "kept", f.Kept})
	}
	return all
}

// factorsOf returns factors as other programs read them.
func factorsOf(factors []truth.FactorPromise) []FactorKept {
	docs := []FactorKept{}
	for _, f := range factors {
		docs = append(docs, FactorKept(f))
	}
	return docs
}

// BySamples and ByExecutions are what a table of promises weighs with.
func BySamples(c *truth.Calibration) truth.Kept    { return c.Samples }
func ByExecutions(c *truth.Calibration) truth.Kept { return c.Executions }

// Confidences are the levels, the best first.
var Confidences = [...]document.Confidence{document.High, document.Medium, document.Low, document.None}

func calibrations(cal *[document.High + 1]truth.Calibration, kept func(*truth.Calibration) truth.Kept) []CalibrationRow {
	var docs []CalibrationRow
	for _, conf := range Confidences {
		k := kept(&cal[conf])
		docs = append(docs, CalibrationRow{conf, cal[conf].N, k.Weight, k.Within10, k.Within2x})
	}
	return docs
}

func errorsOf(h *truth.Histogram) []ErrorRow {
	var docs []ErrorRow
	for i := range h {
		low, high := h.Bounds(i)
		doc := ErrorRow{Share: map[document.Confidence]float64{}}
		if !math.IsInf(low, 0) {
			doc.Low = &low
		}
		if !math.IsInf(high, 0) {
			doc.High = &high
		}
		for _, conf := range Confidences {
			doc.Share[conf] = h[i][conf]
		}
		docs = append(docs, doc)
	}
	return docs
}

// WriteAccuracy prints figures, calibration and both histograms.
func WriteAccuracy(w io.Writer, a *truth.Accuracy, sampled bool, style Style) error {
	weight := "executions"
	if sampled {
		weight = "samples"
	}
	steps := []func() error{
		func() error { return AccuracyTable(a, weight).Print(w, style) },
		func() error {
			return CalibrationTable(&a.BlockProgramWide, "program-wide", "blocks", weight, BySamples).Print(w, style)
		},
		func() error {
			return CalibrationTable(&a.BlockWithinProc, "within function", "blocks", weight, BySamples).Print(w, style)
		},
		func() error {
			return CalibrationTable(&a.EdgeProgramWide, "program-wide", "edges", "executions", ByExecutions).Print(w, style)
		},
		func() error {
			return CalibrationTable(&a.EdgeWithinProc, "within function", "edges", "executions", ByExecutions).Print(w, style)
		},
		func() error {
			return CalibrationTable(&a.ProcProgramWide, "program-wide", "procedures", weight, BySamples).Print(w, style)
		},
		func() error {
			return ErrorHistogram("error of the counts of instructions, by "+weight, &a.InstErrors).Print(w, style)
		},
		func() error {
			return ErrorHistogram("error of the counts of edges, by executions", &a.EdgeErrors).Print(w, style)
		},
	}
	if len(a.Factors) > 0 { // else it is not of time alone
		steps = append(steps, func() error { return FactorTable(a.Factors).Print(w, style) })
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

// AccuracyTable lists the figures of a; weight says what instructions are weighed by: "samples" or
// "executions".
func AccuracyTable(a *truth.Accuracy, weight string) *Table {
	t := NewTable(Right("value"), Left("of"))
	t.Row(Percent(a.BlockOverlap), "block overlap")
	t.Row(Percent(a.Overlap), "overlap, over instructions")
	t.Row(Percent(a.Within5), weight+" within 5 % of the truth")
	t.Row(Percent(a.Within10), weight+" within 10 %")
	t.Row(Percent(a.Within15), weight+" within 15 %")
	t.Row(Percent(a.EdgeOverlap), "edge overlap, over taken branches")
	t.Row(Percent(a.EdgeWithin10), "executions of taken branches within 10 %")
	t.Row(factor(a.Entries.Median), "factor that entries of procedures are off by, median over "+weight)
	t.Row(factor(a.Entries.Each), "the same, over procedures")
	t.Row(factor(a.Trips.Median), "factor that trips of loops are off by, median over "+weight)
	t.Row(factor(a.Trips.Each), "the same, over loops")
	t.Row(Percent(a.Zero), "executed instructions whose count is 0")
	t.Row(Percent(a.Cold), "executions of blocks that are called cold")
	t.Row(Percent(a.ColdUnrun), "blocks never executed that are called cold")
	t.Row(Percent(a.NoBlock), "executed instructions in no block")
	if weight == "samples" {
		t.Row(Percent(a.Unrun), "samples where nothing ran")
	}
	t.Row(fmt.Sprintf("%.4g", a.Scale), "executions in the truth for one inferred")
	return t
}

// FactorTable holds to their word the factors that executions of procedures may be off by.
func FactorTable(factors []truth.FactorPromise) *Table {
	t := NewTable(Left("entries within"), Right("procedures"), Right("kept, of 90 %"))
	for _, f := range factors {
		t.Row(fmt.Sprintf("%gx", f.Factor), fmt.Sprint(f.N), Percent(f.Kept))
	}
	return t
}

// factor is one as text; there is none where nothing is compared.
func factor(f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", f)
}

// CalibrationTable holds each confidence to its promise.
func CalibrationTable(cal *[document.High + 1]truth.Calibration, promise, what, weight string, kept func(*truth.Calibration) truth.Kept) *Table {
	t := NewTable(Left(promise), Right(what), Right(weight), Right("within 10 %"), Right("within factor 2"))
	for _, conf := range Confidences {
		k := kept(&cal[conf])
		row := []string{conf.String(), fmt.Sprint(cal[conf].N), Percent(k.Weight), "-", "-"}
		if k.Weight > 0 {
			row[3], row[4] = Percent(k.Within10), Percent(k.Within2x)
		}
		t.Row(row...)
	}
	return t
}

// ErrorHistogram draws a distribution of errors, stacked by confidence.
func ErrorHistogram(title string, h *truth.Histogram) *Histogram {
	out := &Histogram{Title: title}
	for _, conf := range Confidences {
		out.Legend = append(out.Legend, conf.String())
	}
	for i := range h {
		low, high := h.Bounds(i)
		bar := Bar{Label: percents(low, high)}
		for _, conf := range Confidences {
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
