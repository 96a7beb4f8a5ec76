package report

import (
	"fmt"
	"io"
	"math"

	"backfeed/infer/compare"
)

// A Stats is what stats prints as JSON.
type Stats struct {
	Schema string     `json:"schema"`
	Event  string     `json:"event"`
	Value  string     `json:"value"` // "share" or "samples"
	Sets   []StatsSet `json:"sets"`
	Rows   []StatsRow `json:"items"`
}

// A StatsSet is one of the recordings.
type StatsSet struct {
	Name    string `json:"name"`
	Samples uint64 `json:"samples"`
}

// A StatsRow is one procedure, image, or reason why samples have none.
type StatsRow struct {
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
	Name
	Lost string `json:"lost,omitempty"`
}

// NewStats returns at most so many of the rows of sets as stats prints them; 0 is all. Value
// says what the values of rows are: "share" or "samples".
func NewStats(sets []*compare.Set, event, value string, rows []compare.Varied, lines int) *Stats {
	doc := &Stats{Schema: "backfeed.stats/2", Event: event, Value: value, Rows: []StatsRow{}}
	for _, s := range sets {
		doc.Sets = append(doc.Sets, StatsSet{s.Name, s.Total})
	}
	if lines > 0 {
		rows = rows[:min(lines, len(rows))]
	}
	for _, v := range rows {
		row := StatsRow{
			Range: v.RelativeRange, Samples: v.Sum, Share: v.Share, Mean: v.Mean, Deviation: v.SD, Noise: v.Noise, Min: v.Least, Max: v.Most,
			Values: v.Values, Varies: v.Varies, Image: v.Image, Name: NameOf(v.Proc), Lost: v.Lost,
		}
		if !math.IsNaN(v.P) {
			row.P = &v.P
		}
		doc.Rows = append(doc.Rows, row)
	}
	return doc
}

// Text writes two tables: the sets, and what varies between them.
func (doc *Stats) Text(w io.Writer, style Style) error {
	sets := NewTable(Right("set"), Right("samples"), Left("event"), Paths("source").Main())
	for i, s := range doc.Sets {
		sets.Row(Integer(uint64(i+1)), Integer(s.Samples), doc.Event, s.Name)
	}
	if err := sets.Print(w, style); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	number := Percent
	if doc.Value == "samples" {
		number = Count
	}
	t := NewTable(Right("range"), Right("sum").Drop(1), Right("mean"), Right("deviation"), Right("noise").Drop(4),
		Right("min").Drop(2), Right("max").Drop(2), Left("varies"), Paths("image").Drop(3), Procedures("procedure").Main())
	for _, r := range doc.Rows {
		varies := "no"
		switch {
		case r.P == nil:
			varies = "-"
		case r.Varies:
			varies = "yes"
		}
		t.Row(Percent(r.Range), Percent(r.Share), number(r.Mean), number(r.Deviation), number(r.Noise), number(r.Min), number(r.Max),
			varies, r.Image, r.Or(r.Lost, style))
	}
	return t.Print(w, style)
}
