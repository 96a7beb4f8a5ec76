package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/sample"
)

// fpePrefix begins the names of events that are signals of arithmetic.
const fpePrefix = "sigfpe:"

// fpeReasons say what the codes of SIGFPE mean (sigaction(2)).
var fpeReasons = map[string]string{
	"intdiv": "integer divided by zero, or quotient too large", "intovf": "integer overflow",
	"fltdiv": "divided by zero", "fltovf": "overflow", "fltund": "underflow", "fltres": "inexact result",
	"fltinv": "invalid operation", "fltsub": "subscript out of range", "sent": "sent by a program",
}

// An fpeDoc is what prof --experiment fpe prints as JSON.
type fpeDoc struct {
	Schema string   `json:"schema"`
	Total  uint64   `json:"total"`
	Rows   []fpeRow `json:"items"`
}

// An fpeRow is one instruction that raised SIGFPE.
type fpeRow struct {
	Signals uint64 `json:"signals"`
	Reason  string `json:"reason"` // the end of the event's name: "intdiv"
	Image   string `json:"image,omitempty"`
	report.Name
	Addr        *document.Addr `json:"addr,omitempty"` // in the image as linked
	Instruction string         `json:"instruction,omitempty"`
	Source      string         `json:"source,omitempty"` // file:line
	Lost        string         `json:"lost,omitempty"`
	at          image.Addr
}

// fpe shows where signals of arithmetic came from.
func (c *cli) fpe(paths []string, opt *input.Options, lines int, format *choice) error {
	src, err := c.read(paths, opt)
	if err != nil {
		return err
	}
	defer src.Close()
	rec := src.Recording
	doc := &fpeDoc{Schema: "backfeed.fpe/2", Rows: []fpeRow{}}
	seen := false
	for _, counts := range rec.Counts {
		reason, ok := strings.CutPrefix(counts.Event.Name, fpePrefix)
		seen = seen || ok || strings.HasPrefix(counts.Event.Name, "signal:signal_generate")
		if !ok {
			continue
		}
		doc.Total += counts.Total
		for why, n := range counts.Lost {
			doc.Rows = append(doc.Rows, fpeRow{Signals: n, Reason: reason, Lost: string(why)})
		}
		for _, ic := range counts.Images {
			im, err := src.Open(ic.ID)
			for off, n := range ic.At {
				row := fpeRow{Signals: n, Reason: reason, Image: ic.ID.Path}
				if err == nil {
					row.locate(im, off)
				}
				doc.Rows = append(doc.Rows, row)
			}
		}
	}
	if !seen {
		return fail.Errorf(fail.Nothing, "prof: no signals were recorded; want perf record -e signal:signal_generate --filter 'sig == 8' -g --buildid-all -- CMD")
	}
	src.TellImages(rec)
	slices.SortFunc(doc.Rows, func(a, b fpeRow) int {
		return cmp.Or(cmp.Compare(b.Signals, a.Signals), cmp.Compare(a.Image, b.Image), cmp.Compare(a.at, b.at), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Lost, b.Lost))
	})
	if lines > 0 && len(doc.Rows) > lines {
		doc.Rows = doc.Rows[:lines]
	}
	return c.print("-", format, doc, doc.Rows, doc.text)
}

// locate fills in what the image tells of the place.
func (r *fpeRow) locate(im *image.Image, off sample.Offset) {
	a, ok := im.AddrOf(off)
	if !ok {
		return
	}
	r.at, r.Addr = a, (*document.Addr)(&a)
	r.Instruction = im.Text(a)
	if i := im.Find(a); i >= 0 {
		r.Name = report.NameOf(im.Symbols()[i].Name)
	}
	lines, err := im.Lines()
	if err != nil {
		return
	}
	if frames := lines.Frames(a); len(frames) > 0 {
		r.Source = fmt.Sprintf("%s:%d", frames[0].File, frames[0].Line)
	}
}

func (doc *fpeDoc) text(w io.Writer, style report.Style) error {
	t := report.NewTable(report.Right("signals"), report.Left("because"), report.Procedures("procedure"), report.Right("address").Drop(2), report.Instructions("instruction").Main(),
		report.Paths("image").Drop(1), report.Paths("source").Drop(3))
	for _, r := range doc.Rows {
		addr := ""
		if r.Addr != nil {
			addr = fmt.Sprintf("%#x", uint64(*r.Addr))
		}
		t.Row(report.Integer(r.Signals), cmp.Or(fpeReasons[r.Reason], r.Reason), r.Or(r.Lost, style), addr, r.Instruction, r.Image, r.Source)
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := report.Fprintf(w, style, "\n%s SIGFPE. What raises no signal is not seen: exceptions of floating point that are masked, as they are unless\n"+
		"feenableexcept or the like was called, and arithmetic that the processor assists, which takes an event of its counters.\n", report.Integer(doc.Total))
	return err
}
