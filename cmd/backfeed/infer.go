package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

var inferCmd = &command{
	name: "infer", args: "SRC... [--symfs DIR] [--stalls] [-o FILE]", short: "infer how often every block, edge and call ran",
	reads: symfsHelp,
	long: `The format json is the counts document; its schema is infer/document/counts.schema.json. The format csv has
its blocks; text and markdown sum it up. Confidence is a promise: 9 counts in 10 are within 10 % of the truth where it is
high, within a factor 2 where it is medium; low promises nothing. "confidence" is program-wide, about
a count among all others; "confidence_within" is about a count among those of its procedure, which
samples of a timer tell better, and which the text shows by samples. One factor that all counts share cannot be had from
such samples. The topic accuracy of backfeed help says how often they held.

--stalls adds to the blocks of sampled procedures the cycles of an execution, the least that they can take by the machine
model, and culprits of the rest: from samples of cycles or of a timer alone. Of a culprit, least is what no
other explains. Cycles are no surer than the counts that they were divided by.`,
	examples: `backfeed infer app.bfr
backfeed infer app.bfr --format json -o counts.json
backfeed infer app.bfr --places 20`,
	run: runInfer,
}

func runInfer(c *cli, args []string) error {
	fs := c.flags()
	opt, out, format := c.inputs(), c.output(), c.format()
	c.names()
	c.inference(opt)
	n := fs.IntP("lines", "n", 20, "list at most `N` procedures in text; 0 lists all")
	fs.IntVar(&opt.Infer.Places, "places", 0, "instead of counts, list the `N` blocks whose counts, if exact, would make most others surer")
	stalls := fs.Bool("stalls", false, "tell of blocks what cycles an execution took, takes at least, and what may explain the rest; with --format json")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if *stalls && (format.value != "json" || opt.Infer.Places > 0) {
		return c.usage(errors.New("--stalls is for the counts document: --format json"))
	}
	if format.value == "json" || format.value == "csv" || opt.Infer.Places > 0 {
		if err := fs.refuse("only the table of procedures is cut", "lines"); err != nil {
			return c.usage(err)
		}
	}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	if opt.Infer.Places > 0 {
		rows := newPlaceRows(src.Profile)
		return c.print(*out, format, report.ItemsOf("backfeed.places/2", rows), rows, func(w io.Writer, style report.Style) error { return writePlaces(w, rows, style) })
	}
	if format.value == "json" {
		var x *infer.Explainer
		if *stalls {
			if x, err = src.Explain(); err != nil {
				return err
			}
		}
		return c.writeAsJSON(*out, func(w io.Writer) error { return infer.WriteDocument(w, src.Profile, x) })
	}
	if format.value == "csv" {
		return c.print(*out, format, nil, newBlockRows(src.Profile), nil)
	}
	return c.print(*out, format, nil, nil, func(w io.Writer, style report.Style) error {
		return writeProfile(w, src.Profile, *n, style)
	})
}

// writeProfile sums p up: what it is made of, its images, its hottest procedures.
func writeProfile(w io.Writer, p *infer.Profile, n int, style report.Style) error {
	report.Fprintf(w, style, "machine %s, event %s, %d samples, %s used\n\n", p.Machine, p.Event.Name, p.Samples.Total, report.Share(p.Samples.Used, p.Samples.Total))
	if err := writeProfileImages(w, p, style); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return writeProfileProcs(w, p, n, style)
}

func writeProfileImages(w io.Writer, p *infer.Profile, style report.Style) error {
	columns := []report.Column{report.Right("samples"), report.Right("share"), report.Right("procedures").Drop(1), report.Right("incomplete").Drop(2)}
	columns = append(append(columns, report.ConfidenceColumns()...), report.Paths("image").Main())
	t := report.NewTable(columns...)
	for _, ip := range p.Images {
		var m report.ByConfidence
		incomplete := 0
		for _, r := range ip.Procs {
			m.AddWithin(r)
			if !r.Proc.Complete {
				incomplete++
			}
		}
		cells := []string{report.Integer(ip.Samples), report.Share(ip.Samples, p.Samples.Total), fmt.Sprint(len(ip.Procs)), fmt.Sprint(incomplete)}
		t.Row(append(append(cells, m.Cells()...), ip.ID.Path)...)
	}
	return t.Print(w, style)
}

func writeProfileProcs(w io.Writer, p *infer.Profile, n int, style report.Style) error {
	type hot struct {
		image string
		*infer.Result
	}
	var procs []hot
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			if r.Samples > 0 {
				procs = append(procs, hot{ip.ID.Path, r})
			}
		}
	}
	slices.SortStableFunc(procs, func(a, b hot) int { return cmp.Compare(b.Samples, a.Samples) })
	if n > 0 && len(procs) > n {
		procs = procs[:n]
	}
	columns := []report.Column{report.Right("samples"), report.Right("share"), report.Right("executions")}
	columns = append(append(columns, report.ConfidenceColumns()...), report.Procedures("procedure").Main())
	t := report.NewTable(columns...)
	for _, r := range procs {
		var m report.ByConfidence
		m.AddWithin(r.Result)
		executions := "-"
		if r.Entries.Conf != infer.None {
			executions = report.Count(r.Entries.N)
		}
		name := style.NameOf(r.Proc.Name)
		if !r.Proc.Complete {
			name += " (incomplete)"
		}
		t.Row(append(append([]string{report.Integer(r.Samples), report.Share(r.Samples, p.Samples.Total), executions}, m.Cells()...), name)...)
	}
	return t.Print(w, style)
}

// A blockRow is a block of a counts document as one line.
type blockRow struct {
	Image   string `json:"image"`
	BuildID string `json:"build_id,omitempty"`
	report.Name
	Addr       string           `json:"addr"`
	Size       uint64           `json:"size"` // bytes
	Insns      int              `json:"insns"`
	Samples    uint64           `json:"samples"`
	Count      float64          `json:"count"` // executions, inferred
	Confidence infer.Confidence `json:"confidence"`
	Within     infer.Confidence `json:"confidence_within"`
}

// newBlockRows lists all blocks of p: images by path, blocks by address.
func newBlockRows(p *infer.Profile) []blockRow {
	rows := []blockRow{}
	for _, ip := range p.Images {
		id := ""
		if !ip.ID.Build.IsZero() {
			id = ip.ID.Build.String()
		}
		for _, r := range ip.Procs {
			for i := range r.Proc.Blocks {
				b := &r.Proc.Blocks[i]
				rows = append(rows, blockRow{ip.ID.Path, id, report.NameOf(r.Proc.Name), report.Hex(b.Start), uint64(b.End - b.Start), b.Insts,
					r.BlockSamples[i], r.Block[i].N, r.Block[i].Conf, r.Block[i].Within})
			}
		}
	}
	return rows
}

// A placeRow is a block worth counting, the most worth first.
type placeRow struct {
	Image   string `json:"image"`
	BuildID string `json:"build_id,omitempty"`
	report.Name
	Addr  string  `json:"addr"`
	Count float64 `json:"count"` // executions, inferred
	Gain  float64 `json:"gain"`  // expected reduction of the sum of the errors of all counts, in executions
}

func newPlaceRows(p *infer.Profile) []placeRow {
	rows := []placeRow{}
	for _, pl := range p.Places {
		r := placeRow{
			Image: pl.Image.ID.Path,
			Name:  report.NameOf(pl.Proc.Proc.Name),
			Addr:  report.Hex(pl.Proc.Proc.Blocks[pl.Block].Start),
			Count: pl.Proc.Block[pl.Block].N,
			Gain:  math.Round(pl.Gain),
		}
		if !pl.Image.ID.Build.IsZero() {
			r.BuildID = pl.Image.ID.Build.String()
		}
		rows = append(rows, r)
	}
	return rows
}

func writePlaces(w io.Writer, rows []placeRow, style report.Style) error {
	t := report.NewTable(report.Right("gain"), report.Right("executions"), report.Left("block"), report.Procedures("procedure").Main(), report.Paths("image").Drop(1))
	for _, r := range rows {
		t.Row(report.Count(r.Gain), report.Count(r.Count), r.Addr, r.In(style), r.Image)
	}
	return t.Print(w, style)
}
