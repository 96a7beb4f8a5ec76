package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/sample"
)

var statsCmd = &command{
	name: "stats", args: "SRC SRC... [--symfs DIR]", short: "say how much procedures vary between recordings",
	long: `Every SRC is one set of samples; with --epochs, so is each epoch of a store. For each procedure, or
with --by image for each image, the table has its share of the samples of a set: the mean of all
sets, their standard deviation, the least and the most, the range in the sum (most less least, of the
sum over all sets), and beside the deviation the noise: the deviation that chance alone would give,
samples being drawn at random. --value samples compares numbers of samples rather than shares; then
how long a set was recorded is a difference, too.

A procedure varies if chance does not explain what it does: by a chi-square test, with the share of
false alarms among all that are said to vary held at 5 %. A dash means too few samples to tell: less
than 5 expected of some set. What varies comes first, by its range; then the rest, by its share.
Samples that were scaled, as merge does, are noisier than is said.

Of the images of several sets those are one that have the same build ID or the same path, or, if no
set has two such, the same file name; of their procedures those of the same name.`,
	reads: symfsHelp,
	run:   runStats,
}

// A statsDoc is what stats prints as JSON.
type statsDoc struct {
	Schema string     `json:"schema"`
	Event  string     `json:"event"`
	Value  string     `json:"value"` // "share" or "samples"
	Sets   []statsSet `json:"sets"`
	Rows   []statsRow `json:"items"`
}

type statsSet struct {
	Name    string `json:"name"`
	Samples uint64 `json:"samples"`
}

// A statsRow is one procedure, image, or reason why samples have none.
type statsRow struct {
	Range     float64   `json:"range"` // of the sum
	Samples   uint64    `json:"samples"`
	Share     float64   `json:"share"` // of all samples of all sets
	Mean      float64   `json:"mean"`
	Deviation float64   `json:"deviation"`
	Noise     float64   `json:"noise"`
	Min       float64   `json:"min"`
	Max       float64   `json:"max"`
	Values    []float64 `json:"values"`      // of each set
	P         *float64  `json:"p,omitempty"` // nil: too few samples to tell
	Varies    bool      `json:"varies"`
	Image     string    `json:"image,omitempty"`
	report.Name
	Lost string `json:"lost,omitempty"`
}

func runStats(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.names()
	by := c.choice("by", "what to compare", "procedure", "image")
	value := c.choice("value", "by what", "share", "samples")
	epochs := fs.Bool("epochs", false, "make each epoch of a store a set")
	event := fs.String("event", "", "compare samples of event `name` (default: that of which all have most)")
	lines := fs.IntP("lines", "n", 20, "print at most `N` lines; 0 prints all")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if fs.NArg() == 1 && !*epochs {
		return c.usage(errors.New("want two recordings or more, or --epochs and a store"))
	}
	if by.value == "image" {
		if err := fs.refuse("--by image opens no image", "symfs"); err != nil {
			return c.usage(err)
		}
	}
	if *epochs && !slices.ContainsFunc(fs.Args(), isDir) {
		return c.usage(fs.refuse("none of the sources is a store", "epochs"))
	}
	if err := c.selects(fs.Args()); err != nil {
		return err
	}
	src, err := input.New(*opt)
	if err != nil {
		return err
	}
	defer src.Close()
	sets, err := readSets(src, fs.Args(), *epochs)
	if err != nil {
		return err
	}
	if len(sets) < 2 {
		return fail.Errorf(fail.Nothing, "stats: samples of %d epochs; want two or more", len(sets))
	}
	ev, err := chooseEvent(sets, *event)
	if err != nil {
		return err
	}
	doc := newStats(sets, ev, src, by.value == "image", value.value)
	if by.value == "procedure" {
		tellMissing(src, sets)
	}
	if *lines > 0 && len(doc.Rows) > *lines {
		doc.Rows = doc.Rows[:*lines]
	}
	return c.print("-", format, doc, doc.Rows, func(w io.Writer, style report.Style) error { return doc.text(w, style) })
}

func newStats(sets []*set, ev sample.Event, src *input.Session, byImage bool, value string) *statsDoc {
	doc := &statsDoc{Schema: "backfeed.stats/2", Event: ev.Name, Value: value, Rows: []statsRow{}}
	names := imageNames(sets)
	samples := map[thing][]uint64{}
	var totals []uint64
	var all uint64
	for i, s := range sets {
		for t, n := range s.tally(src, names, byImage) {
			if samples[t] == nil {
				samples[t] = make([]uint64, len(sets))
			}
			samples[t][i] = n
		}
		totals = append(totals, s.total)
		all += s.total
		doc.Sets = append(doc.Sets, statsSet{s.name, s.total})
	}
	things := slices.SortedFunc(maps.Keys(samples), thing.compare)
	var counts [][]uint64
	for _, t := range things {
		counts = append(counts, samples[t])
	}
	for i, s := range infer.Spreads(counts, totals, value == "share") {
		t := things[i]
		row := statsRow{
			Range: s.RelativeRange, Samples: s.Sum, Share: float64(s.Sum) / float64(all),
			Mean: s.Mean, Deviation: s.SD, Noise: s.Noise, Min: s.Least, Max: s.Most,
			Varies: s.Varies, Image: t.image, Name: report.NameOf(t.proc), Lost: t.lost,
		}
		for k, n := range counts[i] {
			v := float64(n)
			if value == "share" {
				v /= float64(totals[k])
			}
			row.Values = append(row.Values, v)
		}
		if !math.IsNaN(s.P) {
			row.P = &s.P
		}
		doc.Rows = append(doc.Rows, row)
	}
	slices.SortStableFunc(doc.Rows, func(a, b statsRow) int {
		if a.Varies != b.Varies {
			if a.Varies {
				return -1
			}
			return 1
		}
		if a.Varies && a.Range != b.Range {
			return cmp.Compare(b.Range, a.Range)
		}
		return cmp.Compare(b.Samples, a.Samples)
	})
	return doc
}

func (doc *statsDoc) text(w io.Writer, style report.Style) error {
	sets := report.NewTable(report.Right("set"), report.Right("samples"), report.Left("event"), report.Paths("source").Main())
	for i, s := range doc.Sets {
		sets.Row(report.Integer(uint64(i+1)), report.Integer(s.Samples), doc.Event, s.Name)
	}
	if err := sets.Print(w, style); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	number := report.Percent
	if doc.Value == "samples" {
		number = report.Count
	}
	t := report.NewTable(report.Right("range"), report.Right("sum").Drop(1), report.Right("mean"), report.Right("deviation"), report.Right("noise").Drop(4),
		report.Right("min").Drop(2), report.Right("max").Drop(2), report.Left("varies"), report.Paths("image").Drop(3), report.Procedures("procedure").Main())
	for _, r := range doc.Rows {
		varies := "no"
		switch {
		case r.P == nil:
			varies = "-"
		case r.Varies:
			varies = "yes"
		}
		t.Row(report.Percent(r.Range), report.Percent(r.Share), number(r.Mean), number(r.Deviation), number(r.Noise), number(r.Min), number(r.Max),
			varies, r.Image, r.Or(r.Lost, style))
	}
	return t.Print(w, style)
}
