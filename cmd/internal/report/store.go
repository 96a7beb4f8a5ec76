package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"backfeed/sample"
	"backfeed/sample/store"
)

// A SegmentRow is one segment.
type SegmentRow struct {
	From    time.Time              `json:"from"` // of its epoch
	To      time.Time              `json:"to"`
	Labels  map[string]string      `json:"labels,omitempty"`
	Samples uint64                 `json:"samples"`
	Lost    map[sample.Loss]uint64 `json:"lost,omitempty"`
	Images  int                    `json:"images"`
	Puts    int                    `json:"puts"` // that it is made of
	Bytes   int64                  `json:"bytes"`
	Name    string                 `json:"name"`
}

// NewSegments lists segments of a store.
func NewSegments(segments []store.Segment) []SegmentRow {
	rows := []SegmentRow{}
	for _, g := range segments {
		rows = append(rows, SegmentRow{g.Epoch.From(), g.Epoch.To(), g.Labels, g.Samples, g.Lost, g.Images, g.Puts, g.Bytes, g.Name})
	}
	return rows
}

// WriteSegments prints rows of NewSegments as a table.
func WriteSegments(w io.Writer, rows []SegmentRow, style Style) error {
	t := NewTable(Left("from"), Right("length"), Right("samples"), Right("images"),
		Right("puts").Drop(1), Right("bytes").Drop(2), Left("labels"))
	for _, r := range rows {
		t.Row(r.From.Format(time.DateTime), r.To.Sub(r.From).String(), Integer(r.Samples), fmt.Sprint(r.Images),
			fmt.Sprint(r.Puts), fmt.Sprint(r.Bytes), labelList(r.Labels))
	}
	return t.Print(w, style)
}

// labelList lists labels by name: "role=web zone=a".
func labelList(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, " ")
}

// StoreSums are sums over a store.
type StoreSums struct {
	Schema    string                 `json:"schema"`
	From      *time.Time             `json:"from,omitempty"` // of the first epoch
	To        *time.Time             `json:"to,omitempty"`   // of the last one
	Epochs    int                    `json:"epochs"`
	Segments  int                    `json:"segments"`
	Samples   uint64                 `json:"samples"` // the lost ones included
	Lost      map[sample.Loss]uint64 `json:"lost"`
	Images    int                    `json:"images"`
	Places    uint64                 `json:"places"` // with samples, in each segment
	Flows     uint64                 `json:"flows"`  // stacks, branches and ranges, in each segment
	Bytes     int64                  `json:"bytes"`  // of segments
	Copies    int                    `json:"copies"` // of images
	CopyBytes int64                  `json:"copy_bytes"`
	Unused    int                    `json:"unused"` // files
}

// NewStoreSums makes the document of what a store counted.
func NewStoreSums(st *store.Stats) StoreSums {
	sums := StoreSums{
		Schema: "backfeed.store.stats/2",
		Epochs: st.Epochs, Segments: st.Segments, Samples: st.Samples, Lost: st.Lost, Images: st.Images,
		Places: st.Places, Flows: st.Flows, Bytes: st.Bytes, Copies: st.Copies, CopyBytes: st.CopyBytes, Unused: st.Unused,
	}
	if st.Epochs > 0 {
		sums.From, sums.To = &st.From, &st.To
	}
	return sums
}

// Text prints the sums as a table.
func (s StoreSums) Text(w io.Writer, style Style) error {
	t := NewTable(Left(""), Right(""), Left(""))
	row := func(name string, n uint64, note string) { t.Row(name, Integer(n), note) }
	span := ""
	if s.From != nil {
		span = s.From.Format(time.DateTime) + " to " + s.To.Format(time.DateTime) + " UTC"
	}
	row("epochs", uint64(s.Epochs), span)
	row("segments", uint64(s.Segments), fmt.Sprintf("%d bytes", s.Bytes))
	row("samples", s.Samples, "")
	for _, why := range MostFirst(s.Lost) {
		row("lost", s.Lost[why], fmt.Sprintf("%s, %s of the samples", why, Share(s.Lost[why], s.Samples)))
	}
	row("images", uint64(s.Images), "")
	row("copies of images", uint64(s.Copies), fmt.Sprintf("%d bytes", s.CopyBytes))
	row("places", s.Places, "stored, of all segments")
	row("stacks and branches", s.Flows, "stored, of all segments")
	row("unused files", uint64(s.Unused), "unfinished, superseded or damaged")
	return t.Print(w, style)
}

// A StoreCheck is what fsck found.
type StoreCheck struct {
	Schema     string   `json:"schema"`
	Clean      bool     `json:"clean"`
	Segments   int      `json:"segments"`         // that count
	Partly     int      `json:"segments_damaged"` // of them, of which what is whole is used
	Samples    uint64   `json:"samples"`          // of all that count
	Copies     int      `json:"copies"`
	Unfinished []string `json:"unfinished"` // files
	Superseded []string `json:"superseded"` // segments
	Damaged    []string `json:"damaged"`
	Removed    int      `json:"removed"` // files
}

// NewStoreCheck makes the document of what a check of a store found.
func NewStoreCheck(r *store.Report) *StoreCheck {
	doc := &StoreCheck{"backfeed.store.fsck/2", r.Clean(), r.Segments, r.Partly, r.Samples, r.Copies, append([]string{}, r.Unfinished...), append([]string{}, r.Superseded...), []string{}, r.Removed}
	for _, e := range r.Damaged {
		doc.Damaged = append(doc.Damaged, e.Error())
	}
	return doc
}

// Text says what is wrong, and how much is right.
func (doc *StoreCheck) Text(w io.Writer, style Style) error {
	for _, e := range doc.Damaged {
		Fprintf(w, style, "damaged: %s\n", e)
	}
	for _, name := range doc.Unfinished {
		Fprintf(w, style, "unfinished: %s\n", name)
	}
	for _, name := range doc.Superseded {
		Fprintf(w, style, "merged into another: %s\n", name)
	}
	partly := ""
	if doc.Partly > 0 {
		partly = fmt.Sprintf(", damaged segments are used in part: %d", doc.Partly)
	}
	_, err := Fprintf(w, style, "%d segments and %d copies of images are right%s, %d samples; files removed: %d\n",
		doc.Segments-doc.Partly, doc.Copies, partly, doc.Samples, doc.Removed)
	return err
}

// StoreCompact is the document of segments that were merged.
type StoreCompact struct {
	Schema string `json:"schema"`
	Merged int    `json:"merged"` // segments, into others
}

// NewStoreCompact returns the document of so many segments.
func NewStoreCompact(merged int) StoreCompact {
	return StoreCompact{"backfeed.store.compact/2", merged}
}

// Text prints the document.
func (doc StoreCompact) Text(w io.Writer, style Style) error {
	_, err := Fprintf(w, style, "segments merged into others: %d\n", doc.Merged)
	return err
}

// StoreGC is the document of what was dropped from a store.
type StoreGC struct {
	Schema   string `json:"schema"`
	Epochs   int    `json:"epochs"`
	Segments int    `json:"segments"`
	Copies   int    `json:"copies"` // of images
	Bytes    int64  `json:"bytes"`
}

// NewStoreGC returns the document of what store.GC did.
func NewStoreGC(done store.Collected) StoreGC {
	return StoreGC{"backfeed.store.gc/2", done.Epochs, done.Segments, done.Copies, done.Bytes}
}

// Text prints the document.
func (doc StoreGC) Text(w io.Writer, style Style) error {
	_, err := Fprintf(w, style, "dropped: %d epochs in %d segments, %d copies of images; %d bytes\n", doc.Epochs, doc.Segments, doc.Copies, doc.Bytes)
	return err
}
