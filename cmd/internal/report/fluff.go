package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// watched says how much of the program's time was sampled.
func watched(p *infer.Profile) string {
	events := float64(p.Event.Period) * float64(p.Samples.Total)
	switch {
	case p.Event.Period == 0:
		return p.Event.Name
	case p.Event.Unit == "ns":
		return time.Duration(events).Round(time.Millisecond).String() + " of processor time"
	}
	return Count(events) + " " + p.Event.Unit
}

// WriteFluff prints the first n items of each list of f, or all if n is 0, with the sums.
func WriteFluff(w io.Writer, p *infer.Profile, ip *infer.ImageProfile, f *layout.Fluff, n int, style Style) error {
	Fprintf(w, Style{}, "%s: %d of %d samples, which stand for %s\n", ip.ID.Path, f.Samples, f.Total, watched(p))
	Fprintf(w, Style{}, "cold is what had less than 1 in 200,000 of the executions of all blocks, with 95 %% confidence: by those inferred, less than %s. %d of %d procedures ran\n\n", Count(f.ColdBelow), f.Entered, f.Procs)
	if err := FluffTable(f).Print(w, style); err != nil {
		return err
	}
	if f.Unreferenced > 0 {
		fmt.Fprintln(w, "\nWhat could be removed is a hint: code may be reached by references that no scan sees.")
	}
	Fprintf(w, Style{}, "\nAll procedures without a sample are expected to take %s of the image's time together.\n", Percent(f.UnseenShare))
	if err := writeFluffItems(w, "cold by evidence", f.Items, n, style); err != nil {
		return err
	}
	return writeFluffItems(w, "no sample, but may have run", f.Unsure, n, style)
}

// FluffTable says what became of all code of an image.
func FluffTable(f *layout.Fluff) *Table {
	t := NewTable(Right("bytes"), Right("share"), Procedures("code").Main())
	row := func(n uint64, what string) { t.Row(Integer(n), Share(n, f.Text), what) }
	row(f.Text, "in procedures")
	row(f.Hot, fmt.Sprintf("hot: 99.9 %% of executed instructions, on %d cache lines and %d pages", f.HotLines, f.HotPages))
	row(f.Executed, "ran")
	row(f.Cold, "cold by evidence: could be moved away")
	row(f.OnHotLines, "  of it, on cache lines with hot code")
	row(f.OnHotPages, "  of it, on pages with hot code")
	row(f.Unreferenced, "  of it, not exported, and nothing was found to refer to it: could be removed")
	row(f.Unknown, "may have run")
	row(f.Other, "padding and tables in procedures that ran")
	return t
}

// FluffItems is a table of items; href leads to the procedure of one, "" is nowhere, and nil too.
func FluffItems(items []layout.FluffItem, style Style, href func(image.Symbol) string) *Table {
	t := NewTable(Right("bytes"), Right("on hot lines").Drop(3).Less(), Right("on hot pages").Drop(2).Less(), Right("at most").Drop(4).Less(),
		Left("evidence"), Left("why"), Procedures("code").Main(), Procedures("referred to by").Drop(1).Less())
	for i := range items {
		it := &items[i]
		t.Row(Integer(it.Bytes()), Integer(it.HotLines), Integer(it.HotPages), upperBound(it.AtMost),
			it.Evidence.String(), it.Why.String(), fluffName(it, style), referredBy(it, style))
		if href != nil {
			t.Link(href(it.Symbol))
		}
	}
	return t
}

// writeFluffItems lists the largest items.
func writeFluffItems(w io.Writer, title string, items []layout.FluffItem, n int, style Style) error {
	if len(items) == 0 {
		return nil
	}
	shown := items
	if n > 0 && len(shown) > n {
		shown = shown[:n]
	}
	Fprintf(w, Style{}, "\n%s: %d items\n\n", title, len(items))
	if err := FluffItems(shown, style, nil).Print(w, style); err != nil {
		return err
	}
	if len(shown) < len(items) {
		var rest uint64
		for i := range items[len(shown):] {
			rest += items[len(shown)+i].Bytes()
		}
		Fprintf(w, Style{}, "and %d more, %d bytes\n", len(items)-len(shown), rest)
	}
	return nil
}

// upperBound prints a number of executions that may be unknown.
func upperBound(n float64) string {
	if math.IsInf(n, 1) {
		return "-"
	}
	return Count(math.Ceil(n))
}

// fluffName names a procedure, or blocks by their distance from its start.
func fluffName(it *layout.FluffItem, style Style) string {
	if it.Whole {
		return style.NameOf(it.Symbol.Name)
	}
	return fmt.Sprintf("%s+%#x", style.NameOf(it.Symbol.Name), uint64(it.Start-it.Symbol.Addr))
}

// referredBy says in a few words what refers to a procedure.
func referredBy(it *layout.FluffItem, style Style) string {
	if !it.Whole {
		return ""
	}
	words := reachWords(it.Reach)
	for i, caller := range it.Callers {
		if i == 2 {
			words = append(words, "...")
			break
		}
		name := style.NameOf(caller.Name)
		if caller.Ran {
			name += " (ran)"
		}
		words = append(words, name)
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

func reachWords(r image.Reach) []string {
	words := []string{}
	for _, by := range []struct {
		bit  image.Reach
		word string
	}{{image.Exported, "export"}, {image.Start, "start"}, {image.Pointed, "data"}} {
		if r&by.bit != 0 {
			words = append(words, by.word)
		}
	}
	return words
}

// A Fluff is the fluff of an image as JSON.
type Fluff struct {
	Schema  string `json:"schema"`
	Image   string `json:"image"`
	BuildID string `json:"build_id,omitempty"`
	Samples struct {
		Image  uint64 `json:"image"`
		Total  uint64 `json:"total"`
		Event  string `json:"event"`
		Period uint64 `json:"period"` // events per sample
		Unit   string `json:"unit"`
	} `json:"samples"`
	ColdBelow  float64 `json:"cold_below"` // executions, with 95 %% confidence
	Procedures int     `json:"procedures"` // in the image
	Entered    int     `json:"entered"`    // of them, those that ran
	Unsampled  float64 `json:"unsampled"`  // expected share of the image's time in procedures without samples
	HotLines   int     `json:"hot_lines"`  // 64-byte cache lines with hot code
	HotPages   int     `json:"hot_pages"`  // 4 KB pages with hot code
	Bytes      struct {
		Text         uint64 `json:"text"`
		Hot          uint64 `json:"hot"`
		Executed     uint64 `json:"executed"`
		Cold         uint64 `json:"cold"`
		Unknown      uint64 `json:"unknown"`
		Other        uint64 `json:"other"`
		Unreferenced uint64 `json:"unreferenced"`
		OnHotLines   uint64 `json:"on_hot_lines"`
		OnHotPages   uint64 `json:"on_hot_pages"`
	} `json:"bytes"`
	Cold   []fluffRow `json:"cold"`
	Unsure []fluffRow `json:"unsure"`
}

type fluffRow struct {
	Name
	Addr       string        `json:"addr"`
	Bytes      uint64        `json:"bytes"`
	Whole      bool          `json:"whole"`
	Evidence   string        `json:"evidence"`
	Why        string        `json:"why"`
	AtMost     *float64      `json:"at_most"` // executions, with 95 %% confidence; null if unknown
	OnHotLines uint64        `json:"on_hot_lines"`
	OnHotPages uint64        `json:"on_hot_pages"`
	Reach      []string      `json:"reach,omitempty"`
	Callers    []fluffCaller `json:"callers,omitempty"`
}

type fluffCaller struct {
	Name
	Ran     bool `json:"ran"`
	Address bool `json:"address,omitempty"` // it takes the address only
}

// NewFluff returns f as other programs read it.
func NewFluff(p *infer.Profile, ip *infer.ImageProfile, f *layout.Fluff) *Fluff {
	d := &Fluff{
		Schema: "backfeed.fluff/2", Image: ip.ID.Path, ColdBelow: f.ColdBelow, Procedures: f.Procs, Entered: f.Entered,
		Unsampled: f.UnseenShare, HotLines: f.HotLines, HotPages: f.HotPages, Cold: fluffRows(f.Items), Unsure: fluffRows(f.Unsure),
	}
	if !ip.ID.Build.IsZero() {
		d.BuildID = ip.ID.Build.String()
	}
	d.Samples.Image, d.Samples.Total, d.Samples.Event, d.Samples.Period, d.Samples.Unit = f.Samples, f.Total, p.Event.Name, p.Event.Period, p.Event.Unit
	b := &d.Bytes
	b.Text, b.Hot, b.Executed, b.Cold, b.Unknown, b.Other = f.Text, f.Hot, f.Executed, f.Cold, f.Unknown, f.Other
	b.Unreferenced, b.OnHotLines, b.OnHotPages = f.Unreferenced, f.OnHotLines, f.OnHotPages
	return d
}

func fluffRows(items []layout.FluffItem) []fluffRow {
	rows := make([]fluffRow, 0, len(items))
	for i := range items {
		it := &items[i]
		r := fluffRow{
			Name: NameOf(it.Symbol.Name), Addr: fmt.Sprintf("%#x", uint64(it.Start)), Bytes: it.Bytes(), Whole: it.Whole,
			Evidence: it.Evidence.String(), Why: it.Why.String(), OnHotLines: it.HotLines, OnHotPages: it.HotPages, Reach: reachWords(it.Reach),
		}
		if !math.IsInf(it.AtMost, 1) {
			most := math.Ceil(it.AtMost)
			r.AtMost = &most
		}
		for _, caller := range it.Callers {
			r.Callers = append(r.Callers, fluffCaller{NameOf(caller.Name), caller.Ran, caller.Address})
		}
		rows = append(rows, r)
	}
	return rows
}
