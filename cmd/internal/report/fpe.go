package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

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

// An FPE is what prof --experiment fpe prints as JSON.
type FPE struct {
	Schema string   `json:"schema"`
	Total  uint64   `json:"total"`
	Rows   []FPERow `json:"items"`
}

// An FPERow is one instruction that raised SIGFPE.
type FPERow struct {
	Signals uint64 `json:"signals"`
	Reason  string `json:"reason"` // the end of the event's name: "intdiv"
	Image   string `json:"image,omitempty"`
	Name
	Addr        *document.Addr `json:"addr,omitempty"` // in the image as linked
	Instruction string         `json:"instruction,omitempty"`
	Source      string         `json:"source,omitempty"` // file:line
	Lost        string         `json:"lost,omitempty"`
	at          image.Addr
}

// NewFPE lists at most so many instructions of rec that raised SIGFPE, 0 is all, and reports
// whether signals were recorded at all. Images that open finds say which instructions they are.
func NewFPE(rec *sample.Recording, open func(sample.ImageID) (*image.Image, error), most int) (doc *FPE, seen bool) {
	doc = &FPE{Schema: "backfeed.fpe/2", Rows: []FPERow{}}
	for _, counts := range rec.Counts {
		reason, ok := strings.CutPrefix(counts.Event.Name, fpePrefix)
		seen = seen || ok || strings.HasPrefix(counts.Event.Name, "signal:signal_generate")
		if !ok {
			continue
		}
		doc.Total += counts.Total
		for why, n := range counts.Lost {
			doc.Rows = append(doc.Rows, FPERow{Signals: n, Reason: reason, Lost: string(why)})
		}
		for _, ic := range counts.Images {
			im, err := open(ic.ID)
			for off, n := range ic.At {
				row := FPERow{Signals: n, Reason: reason, Image: ic.ID.Path}
				if err == nil {
					row.locate(im, off)
				}
				doc.Rows = append(doc.Rows, row)
			}
		}
	}
	slices.SortFunc(doc.Rows, func(a, b FPERow) int {
		return cmp.Or(cmp.Compare(b.Signals, a.Signals), cmp.Compare(a.Image, b.Image), cmp.Compare(a.at, b.at), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Lost, b.Lost))
	})
	if most > 0 && len(doc.Rows) > most {
		doc.Rows = doc.Rows[:most]
	}
	return doc, seen
}

// locate fills in what the image tells of the place.
func (r *FPERow) locate(im *image.Image, off sample.Offset) {
	a, ok := im.AddrOf(off)
	if !ok {
		return
	}
	r.at, r.Addr = a, (*document.Addr)(&a)
	r.Instruction = im.Text(a)
	if i := im.Find(a); i >= 0 {
		r.Name = NameOf(im.Symbols()[i].Name)
	}
	lines, err := im.Lines()
	if err != nil {
		return
	}
	if frames := lines.Frames(a); len(frames) > 0 {
		r.Source = fmt.Sprintf("%s:%d", frames[0].File, frames[0].Line)
	}
}

// Text prints the list as a table, and what it cannot have.
func (doc *FPE) Text(w io.Writer, style Style) error {
	t := NewTable(Right("signals"), Procedures("procedure"), Right("address").Drop(2), Instructions("instruction").Main(),
		Paths("image").Drop(1), Paths("source").Drop(3), Sentences("because"))
	for _, r := range doc.Rows {
		addr := ""
		if r.Addr != nil {
			addr = fmt.Sprintf("%#x", uint64(*r.Addr))
		}
		t.Row(Integer(r.Signals), r.Or(r.Lost, style), addr, r.Instruction, r.Image, r.Source, cmp.Or(fpeReasons[r.Reason], r.Reason))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := Fprintf(w, style, "\n%s SIGFPE. What raises no signal is not seen: exceptions of floating point that are masked, as they are unless "+
		"feenableexcept or the like was called, and arithmetic that the processor assists, which takes an event of its counters.\n", Integer(doc.Total))
	return err
}
