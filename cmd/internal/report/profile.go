package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"backfeed/infer"
)

// WriteProfile sums p up: what it is made of, its images, its hottest procedures.
func WriteProfile(w io.Writer, p *infer.Profile, n int, style Style) error {
	Fprintf(w, style, "machine %s, event %s, %d samples, %s used\n\n", p.Machine, p.Event.Name, p.Samples.Total, Share(p.Samples.Used, p.Samples.Total))
	if told := ToldEntries(p); told != "" {
		Fprintf(w, style, "%s\n\n", told)
	}
	if err := writeProfileImages(w, p, style); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return writeProfileProcs(w, p, n, style)
}

func writeProfileImages(w io.Writer, p *infer.Profile, style Style) error {
	columns := []Column{Right("samples"), Right("share"), Right("procedures").Drop(1), Right("incomplete").Drop(2)}
	columns = append(append(columns, ConfidenceColumns()...), Paths("image").Main())
	t := NewTable(columns...)
	for _, ip := range p.Images {
		var m ByConfidence
		incomplete := 0
		for _, r := range ip.Procs {
			m.AddWithin(r)
			if !r.Proc.Complete {
				incomplete++
			}
		}
		cells := []string{Integer(ip.Samples), Share(ip.Samples, p.Samples.Total), fmt.Sprint(len(ip.Procs)), fmt.Sprint(incomplete)}
		t.Row(append(append(cells, m.Cells()...), ip.ID.Path)...)
	}
	return t.Print(w, style)
}

func writeProfileProcs(w io.Writer, p *infer.Profile, n int, style Style) error {
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
	names := make([]Name, len(procs))
	all := make([]placed, len(procs))
	for i, r := range procs {
		names[i] = NameOf(r.Proc.Name)
		all[i] = placed{&names[i], r.image, r.Proc.Addr}
	}
	tellApart(all)
	if n > 0 && len(procs) > n {
		procs = procs[:n]
	}
	columns := []Column{Right("samples"), Right("share"), Right("executions"), Right("within")}
	columns = append(append(columns, ConfidenceColumns()...), Paths("image").Drop(1), Procedures("procedure").Main())
	t := NewTable(columns...)
	for i, r := range procs {
		var m ByConfidence
		m.AddWithin(r.Result)
		executions := "-"
		if r.Entries.Conf != infer.None {
			executions = Count(r.Entries.N)
		}
		name := names[i].In(style)
		if !r.Proc.Complete {
			name += " (incomplete)"
		}
		t.Row(append(append([]string{Integer(r.Samples), Share(r.Samples, p.Samples.Total), executions, factorOf(p.EntryFactor(r.Result))}, m.Cells()...), r.image, name)...)
	}
	return t.Print(w, style)
}

// A BlockRow is a block of a counts document as one line.
type BlockRow struct {
	Image   string `json:"image"`
	BuildID string `json:"build_id,omitempty"`
	Name
	Addr       string           `json:"addr"`
	Size       uint64           `json:"size"` // bytes
	Insns      int              `json:"insns"`
	Samples    uint64           `json:"samples"`
	Count      float64          `json:"count"` // executions, inferred
	Confidence infer.Confidence `json:"confidence"`
	Within     infer.Confidence `json:"confidence_within"`
}

// BlockRows lists all blocks of p: images by path, blocks by address.
func BlockRows(p *infer.Profile) []BlockRow {
	rows := []BlockRow{}
	for _, ip := range p.Images {
		id := ""
		if !ip.ID.Build.IsZero() {
			id = ip.ID.Build.String()
		}
		for _, r := range ip.Procs {
			for i := range r.Proc.Blocks {
				b := &r.Proc.Blocks[i]
				rows = append(rows, BlockRow{ip.ID.Path, id, NameOf(r.Proc.Name), Hex(b.Start), uint64(b.End - b.Start), b.Insts,
					r.BlockSamples[i], r.Block[i].N, r.Block[i].Conf, r.Block[i].Within})
			}
		}
	}
	return rows
}

// A PlaceRow is a block worth counting, the most worth first.
type PlaceRow struct {
	Image   string `json:"image"`
	BuildID string `json:"build_id,omitempty"`
	Name
	Addr  string  `json:"addr"`
	Count float64 `json:"count"` // executions, inferred
	Gain  float64 `json:"gain"`  // expected reduction of the sum of the errors of all counts, in executions
}

// PlaceRows lists the blocks of p worth counting.
func PlaceRows(p *infer.Profile) []PlaceRow {
	rows := []PlaceRow{}
	for _, pl := range p.Places {
		r := PlaceRow{
			Image: pl.Image.ID.Path,
			Name:  NameOf(pl.Proc.Proc.Name),
			Addr:  Hex(pl.Proc.Proc.Blocks[pl.Block].Start),
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

// WritePlaces writes the table of them.
func WritePlaces(w io.Writer, rows []PlaceRow, style Style) error {
	t := NewTable(Right("gain"), Right("executions"), Left("block"), Procedures("procedure").Main(), Paths("image").Drop(1))
	for _, r := range rows {
		t.Row(Count(r.Gain), Count(r.Count), r.Addr, r.In(style), r.Image)
	}
	return t.Print(w, style)
}
