package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A ProfRow is one procedure, or samples that have none.
type ProfRow struct {
	Samples    uint64   `json:"samples"`
	Share      float64  `json:"share"`
	Sum        float64  `json:"sum"`                         // of the shares so far
	Executions *float64 `json:"executions,omitempty"`        // nil is unknown
	Factor     float64  `json:"executions_factor,omitempty"` // what Executions may be off by, with 90 % confidence: infer.Profile.EntryFactor
	Confidence string   `json:"confidence,omitempty"`
	Image      string   `json:"image,omitempty"`
	Name
	Lost string `json:"lost,omitempty"`
}

// ProfRows lists all samples of p, by falling numbers; fileless are some of those
// that it calls lost, by name. If of is not nil, it lists those of that image alone.
func ProfRows(p *infer.Profile, fileless map[compare.Named]uint64, of *infer.ImageProfile) []ProfRow {
	rows := []ProfRow{}
	addrs := []image.Addr{} // of the first rows
	share := func(n uint64) float64 { return float64(n) / float64(max(p.Samples.Total, 1)) }
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			if r.Samples == 0 || of != nil && of != ip {
				continue
			}
			row := ProfRow{Samples: r.Samples, Share: share(r.Samples), Image: ip.ID.Path, Name: NameOf(r.Proc.Name)}
			if r.Entries.Conf != infer.None && p.Event.Unit != "events" { // where those occur is not how often code runs
				row.Executions = &r.Entries.N
				row.Factor = p.EntryFactor(r)
				row.Confidence = r.Entries.Conf.String()
			}
			rows, addrs = append(rows, row), append(addrs, r.Proc.Addr)
		}
	}
	names := make([]placed, len(addrs))
	for i, a := range addrs {
		names[i] = placed{&rows[i].Name, rows[i].Image, a}
	}
	tellApart(names)
	lost := p.Samples.Lost
	if of != nil {
		fileless, lost = nil, nil
	}
	known := map[sample.Loss]uint64{}
	for at, n := range fileless {
		if at.Event == p.Event.Name && at.Name != "" {
			rows = append(rows, ProfRow{Samples: n, Share: share(n), Image: at.Image.Path, Name: NameOf(at.Name)})
			known[at.Loss] += n
		}
	}
	for why, n := range lost {
		if n -= known[why]; n > 0 {
			rows = append(rows, ProfRow{Samples: n, Share: share(n), Lost: string(why)})
		}
	}
	slices.SortFunc(rows, func(a, b ProfRow) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Image, b.Image),
			cmp.Compare(a.Linker(), b.Linker()), cmp.Compare(a.Lost, b.Lost))
	})
	sum := 0.0
	for i := range rows {
		sum += rows[i].Share
		rows[i].Sum = min(sum, 1)
	}
	return rows
}

// factorOf prints what a number may be off by, up or down; 0 is unknown.
func factorOf(factor float64) string {
	if factor == 0 {
		return ""
	}
	return fmt.Sprintf("%gx", factor)
}

// WriteProf writes the table of prof, of the samples of an event, and what its executions may be off by, if that is not "".
func WriteProf(w io.Writer, event string, rows []ProfRow, told string, style Style) error {
	t := NewTable(Right(AmountHead(event)), Right("share"), Right("sum").Drop(1),
		Right("executions").Drop(3), Right("within").Drop(2), Paths("image"), Procedures("procedure").Main())
	for _, r := range rows {
		executions := math.NaN()
		if r.Executions != nil {
			executions = *r.Executions
		}
		t.Row(Amount(event, r.Samples), Percent(r.Share), Percent(r.Sum),
			Count(executions), factorOf(r.Factor), r.Image, r.Or(r.Lost, style))
	}
	if err := t.Print(w, style); err != nil || told == "" || !slices.ContainsFunc(rows, func(r ProfRow) bool { return r.Executions != nil }) {
		return err
	}
	_, err := Fprintf(w, style, "\n%s\n", told)
	return err
}
