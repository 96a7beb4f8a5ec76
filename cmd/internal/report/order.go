package report

import (
	"fmt"
	"io"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// WriteOrder prints what an order is worth, then the order.
func WriteOrder(w io.Writer, order *layout.Order, ip *infer.ImageProfile, scores []layout.Judged, style Style) error {
	if order.Start != nil {
		if err := writeStart(w, order.Start, style); err != nil {
			return err
		}
	}
	if err := WriteScores(w, ip.ID.Path, scores, style); err != nil {
		return err
	}
	Fprintf(w, Style{}, "\n%d functions in the order; %d that never ran and %d without a symbol are not\n\n", len(order.Symbols), order.Unseen, order.Unnamed)
	return writeOrdered(w, order, ip, style)
}

// writeOrdered lists the functions of an order.
func writeOrdered(w io.Writer, order *layout.Order, ip *infer.ImageProfile, style Style) error {
	ran := resultsByAddr(ip)
	t := NewTable(Right("address"), Right("bytes"), Right("samples"), Right("executions"), Procedures("function").Main())
	for _, s := range order.Symbols {
		samples, executions := "-", "-"
		if r := ran[s.Addr]; r != nil {
			samples = Integer(r.Samples)
			if r.Entries.Conf != infer.None {
				executions = Count(r.Entries.N)
			}
		}
		t.Row(fmt.Sprintf("%#x", uint64(s.Addr)), Integer(s.Size), samples, executions, style.NameOf(s.Name))
	}
	return t.Print(w, style)
}

// writeStart prints what an order is worth to the start of a program.
func writeStart(w io.Writer, start *layout.StartScores, style Style) error {
	t := NewTable(Left("start"), Right("as linked"), Right("in this order"), Right("upper bound"))
	t.Row("page faults, a page of 4 KiB each", fmt.Sprint(start.Before.Single), fmt.Sprint(start.After.Single), fmt.Sprint(start.Least.Single))
	t.Row("page faults, 64 KiB each", fmt.Sprint(start.Before.Around), fmt.Sprint(start.After.Around), fmt.Sprint(start.Least.Around))
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := Fprintf(w, Style{}, "\n%d functions were seen to run at the start, and %d must have been called by them\n\n", start.Seen, start.Called)
	return err
}

// An Order is an order as JSON: layout.schema.json.
type Order struct {
	Schema  string              `json:"schema"`
	Image   string              `json:"image"`
	BuildID string              `json:"build_id,omitempty"`
	Scores  []layout.Judged     `json:"scores"`
	Start   *layout.StartScores `json:"start,omitempty"` // with --startup
	Order   []OrderRow          `json:"order"`
	Unseen  int                 `json:"unseen"`
	Unnamed int                 `json:"unnamed"`
}

const orderSchema = "backfeed.layout/2"

// An OrderRow is a function at its place in the order.
type OrderRow struct {
	Position int `json:"position"` // from 1
	Name
	Aliases    []string `json:"aliases,omitempty"`
	Local      bool     `json:"local,omitempty"`
	Ordinal    int      `json:"ordinal,omitempty"` // of a local name, as llvm-bolt counts
	Section    string   `json:"section"`
	Addr       string   `json:"addr"`
	Size       uint64   `json:"size"` // bytes
	Samples    uint64   `json:"samples"`
	Executions *float64 `json:"executions,omitempty"` // nil is unknown
	Confidence string   `json:"confidence"`
}

// NewOrder returns an order, with its scores, as other programs read it.
func NewOrder(order *layout.Order, ip *infer.ImageProfile, scores []layout.Judged) *Order {
	d := &Order{
		Schema: orderSchema, Image: ip.ID.Path, Scores: scores, Start: order.Start,
		Order: []OrderRow{}, Unseen: order.Unseen, Unnamed: order.Unnamed,
	}
	if !ip.ID.Build.IsZero() {
		d.BuildID = ip.ID.Build.String()
	}
	ran := resultsByAddr(ip)
	for i, s := range order.Symbols {
		row := OrderRow{
			Position: i + 1, Name: NameOf(s.Name), Aliases: s.Aliases, Local: s.Local, Ordinal: s.Ordinal, Section: s.Section,
			Addr: fmt.Sprintf("%#x", uint64(s.Addr)), Size: s.Size, Confidence: infer.None.String(),
		}
		if r := ran[s.Addr]; r != nil {
			row.Samples, row.Confidence = r.Samples, r.Entries.Conf.String()
			if r.Entries.Conf != infer.None {
				row.Executions = &r.Entries.N
			}
		}
		d.Order = append(d.Order, row)
	}
	return d
}

// resultsByAddr returns the procedures of an image by their addresses.
func resultsByAddr(ip *infer.ImageProfile) map[image.Addr]*infer.Result {
	ran := map[image.Addr]*infer.Result{}
	for _, r := range ip.Procs {
		ran[r.Proc.Addr] = r
	}
	return ran
}
