package infer

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"backfeed/infer/image"
	"backfeed/sample"
)

// DocumentSchema names the version of the counts document. Later versions of the
// same name may add fields; readers ignore those that they do not know.
const DocumentSchema = "backfeed.counts/1"

// DocumentJSONSchema is the JSON Schema of the counts document.
//
//go:embed counts.schema.json
var DocumentJSONSchema []byte

// ErrDocument is wrapped by every error that blames the contents of a counts
// document rather than the disk.
var ErrDocument = errors.New("malformed counts document")

// A Document is a Profile as other programs read it: JSON, by DocumentJSONSchema.
type Document struct {
	DocumentHeader
	Images []DocumentImage `json:"images"`
}

// A DocumentHeader is what a document says before its images.
type DocumentHeader struct {
	Schema  string          `json:"schema"`
	Machine string          `json:"machine,omitempty"` // machine model
	Event   DocumentEvent   `json:"event"`
	Samples DocumentSamples `json:"samples"`
}

// A DocumentEvent is the sampled event.
type DocumentEvent struct {
	Name   string `json:"name"`
	Period uint64 `json:"period,omitempty"` // in units per sample, the mean; 0 is unknown
	Unit   string `json:"unit,omitempty"`
}

// DocumentSamples says what became of the samples: Total = Used + the sum of Lost.
type DocumentSamples struct {
	Total uint64                 `json:"total"`
	Used  uint64                 `json:"used"`
	Lost  map[sample.Loss]uint64 `json:"lost"`
}

// A DocumentImage is an ImageProfile.
type DocumentImage struct {
	DocumentImageHeader
	Procs []DocumentProc `json:"procs"`
}

// A DocumentImageHeader is what a document says of an image before its procedures.
type DocumentImageHeader struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id,omitempty"`
	Samples uint64 `json:"samples"`
}

// A DocumentProc is a Result.
type DocumentProc struct {
	Name       string          `json:"name"`
	Addr       DocumentAddr    `json:"addr"`
	Size       uint64          `json:"size"` // bytes
	Samples    uint64          `json:"samples"`
	Entries    DocumentCount   `json:"entries"`
	Confidence Confidence      `json:"confidence"` // of Entries
	Complete   bool            `json:"complete"`
	Blocks     []DocumentBlock `json:"blocks"` // by address
	Edges      []DocumentEdge  `json:"edges"`
	Calls      []DocumentCall  `json:"calls"`
}

// A DocumentBlock is a basic block with its executions.
type DocumentBlock struct {
	Addr       DocumentAddr  `json:"addr"`
	Size       uint64        `json:"size"` // bytes
	Insns      int           `json:"insns"`
	Samples    uint64        `json:"samples"`
	Count      DocumentCount `json:"count"`
	Confidence Confidence    `json:"confidence"`
	Within     Confidence    `json:"shape"`
	Cold       bool          `json:"cold,omitempty"`

	// Of documents with stalls.
	CPI         *float64          `json:"cpi,omitempty"`          // cycles per execution, to 3 places; nil is unknown
	LeastCycles *float64          `json:"least_cycles,omitempty"` // by the machine model, likewise
	Culprits    []DocumentCulprit `json:"culprits,omitzero"`      // by address, the likeliest first; nil is unknown
}

// A DocumentCulprit is a Culprit.
type DocumentCulprit struct {
	Cause string       `json:"cause"`
	At    DocumentAddr `json:"at"`             // the instruction that waited
	Least float64      `json:"least"`          // cycles per execution
	Most  float64      `json:"most"`           // cycles per execution
	From  DocumentAddr `json:"from,omitempty"` // what it waited for; 0 is unknown
}

// A DocumentEdge is an edge with its executions.
type DocumentEdge struct {
	From       DocumentAddr  `json:"from"` // start of the source block
	To         DocumentAddr  `json:"to"`   // start of the target block
	Kind       string        `json:"kind"` // "fallthrough", "taken" or "indirect"
	Count      DocumentCount `json:"count"`
	Confidence Confidence    `json:"confidence"`
	Within     Confidence    `json:"shape"`
}

// A DocumentCall is a call with its executions.
type DocumentCall struct {
	Site  DocumentAddr  `json:"site"`         // of the instruction
	To    DocumentAddr  `json:"to,omitempty"` // target; 0 is unknown
	Kind  string        `json:"kind"`         // "call", "indirect" or "tail"
	Count DocumentCount `json:"count"`
}

// A DocumentAddr is an address, in JSON a string like "0x401000".
type DocumentAddr image.Addr

// MarshalText writes the address in hexadecimal.
func (a DocumentAddr) MarshalText() ([]byte, error) {
	return strconv.AppendUint([]byte("0x"), uint64(a), 16), nil
}

// UnmarshalText reads what MarshalText writes.
func (a *DocumentAddr) UnmarshalText(b []byte) error {
	digits, ok := bytes.CutPrefix(b, []byte("0x"))
	v, err := strconv.ParseUint(string(digits), 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("address %q: want 0x and hexadecimal digits", b)
	}
	*a = DocumentAddr(v)
	return nil
}

// A DocumentCount is a number of executions, in JSON a whole number.
type DocumentCount uint64

// rounded returns an estimate as a count.
func rounded(f Freq) DocumentCount {
	switch n := math.Round(f.N); {
	case !(n > 0):
		return 0
	case n >= math.MaxUint64:
		return math.MaxUint64
	default:
		return DocumentCount(n)
	}
}

// UnmarshalJSON reads a count in any form that JSON has for numbers; others may
// write 1.2e6.
func (c *DocumentCount) UnmarshalJSON(b []byte) error {
	if v, err := strconv.ParseUint(string(b), 10, 64); err == nil {
		*c = DocumentCount(v)
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || v < 0 {
		return fmt.Errorf("count %s: want a number that is not negative", b)
	}
	*c = rounded(Freq{N: v})
	return nil
}

// MarshalText writes the name of c.
func (c Confidence) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Confidence) UnmarshalText(b []byte) error {
	for i := None; i <= High; i++ {
		if i.String() == string(b) {
			*c = i
			return nil
		}
	}
	return fmt.Errorf("confidence %q: want none, low, medium or high", b)
}

// NewDocument returns p as a document.
func NewDocument(p *Profile) *Document {
	d := &Document{DocumentHeader: documentHeader(p), Images: make([]DocumentImage, len(p.Images))}
	for i, ip := range p.Images {
		procs := make([]DocumentProc, len(ip.Procs))
		for j, r := range ip.Procs {
			procs[j] = DocumentProc{
				Blocks: make([]DocumentBlock, 0, len(r.Block)),
				Edges:  make([]DocumentEdge, 0, len(r.Edge)),
				Calls:  make([]DocumentCall, 0, len(r.Call)),
			}
			procs[j].set(r)
		}
		d.Images[i] = DocumentImage{documentImageHeader(ip), procs}
	}
	return d
}

func documentHeader(p *Profile) DocumentHeader {
	h := DocumentHeader{
		Schema:  DocumentSchema,
		Machine: p.Machine,
		Event:   DocumentEvent(p.Event),
		Samples: DocumentSamples(p.Samples),
	}
	if h.Samples.Lost == nil {
		h.Samples.Lost = map[sample.Loss]uint64{}
	}
	return h
}

func documentImageHeader(ip *ImageProfile) DocumentImageHeader {
	h := DocumentImageHeader{Path: ip.ID.Path, Samples: ip.Samples}
	if !ip.ID.Build.IsZero() {
		h.BuildID = ip.ID.Build.String()
	}
	return h
}

// set makes d the procedure of r. Its lists keep their storage.
func (d *DocumentProc) set(r *Result) {
	p := r.Proc
	*d = DocumentProc{
		Name:       p.Name,
		Addr:       DocumentAddr(p.Addr),
		Size:       p.Size,
		Samples:    r.Samples,
		Entries:    rounded(r.Entries),
		Confidence: r.Entries.Conf,
		Complete:   p.Complete,
		Blocks:     d.Blocks[:0],
		Edges:      d.Edges[:0],
		Calls:      d.Calls[:0],
	}
	for i := range p.Blocks {
		b, f := &p.Blocks[i], &r.Block[i]
		d.Blocks = append(d.Blocks, DocumentBlock{DocumentAddr(b.Start), uint64(b.End - b.Start), b.Insts,
			r.BlockSamples[i], rounded(*f), f.Conf, f.Within, r.Cold[i], nil, nil, nil})
	}
	for i, e := range p.Edges {
		f := &r.Edge[i]
		d.Edges = append(d.Edges, DocumentEdge{DocumentAddr(p.Blocks[e.From].Start), DocumentAddr(p.Blocks[e.To].Start),
			e.Kind.String(), rounded(*f), f.Conf, f.Within})
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		d.Calls = append(d.Calls, DocumentCall{DocumentAddr(c.Site), DocumentAddr(c.To), callKind(c), rounded(r.Call[i])})
	}
}

// explain adds what e says of the time of d's blocks. Blocks that did not run have no time.
func (d *DocumentProc) explain(e *Explanation) {
	for i := 0; i < len(e.Insts); {
		b := &d.Blocks[e.Insts[i].Block]
		var total, least float64
		culprits := []DocumentCulprit{}
		n := e.Insts[i].N
		for at := e.Insts[i].Block; i < len(e.Insts) && e.Insts[i].Block == at; i++ {
			t := &e.Insts[i]
			total, least = total+t.Total, least+t.Least
			for _, c := range t.Stall.Culprits {
				culprits = append(culprits, DocumentCulprit{c.Cause.String(), DocumentAddr(t.Addr), places(c.Least), places(c.Most), DocumentAddr(c.From)})
			}
		}
		least = places(least)
		b.LeastCycles = &least
		if n > 0 {
			cpi := places(total / n)
			b.CPI, b.Culprits = &cpi, culprits
		}
	}
}

// places rounds to three places.
func places(x float64) float64 { return math.Round(min(x, 1e12)*1000) / 1000 }

func callKind(c *image.Call) string {
	switch {
	case c.Tail:
		return "tail"
	case c.To == 0:
		return "indirect"
	}
	return "call"
}

// Write writes the document, one procedure to a line: what is buffered is one
// of them at a time, and line-based tools show which ones changed.
func (d *Document) Write(w io.Writer) error {
	return writeDocument(w, d.DocumentHeader, len(d.Images),
		func(i int) (DocumentImageHeader, int) { return d.Images[i].DocumentImageHeader, len(d.Images[i].Procs) },
		func(i, j int) *DocumentProc { return &d.Images[i].Procs[j] })
}

// WriteDocument writes what NewDocument(p).Write would, and holds one procedure of
// it at a time. If x is not nil, procedures with samples have their stalls in it.
func WriteDocument(w io.Writer, p *Profile, x *Explainer) error {
	var proc DocumentProc
	return writeDocument(w, documentHeader(p), len(p.Images),
		func(i int) (DocumentImageHeader, int) {
			return documentImageHeader(p.Images[i]), len(p.Images[i].Procs)
		},
		func(i, j int) *DocumentProc {
			r := p.Images[i].Procs[j]
			proc.set(r)
			if x != nil && r.Samples > 0 {
				proc.explain(x.Explain(p.Images[i], r))
			}
			return &proc
		})
}

// writeDocument writes a document of so many images: the header of each and how
// many procedures it has, then these. A procedure need not outlast the next call.
func writeDocument(w io.Writer, h DocumentHeader, images int, image func(i int) (DocumentImageHeader, int), proc func(i, j int) *DocumentProc) error {
	dw := documentWriter{w: bufio.NewWriterSize(w, 1<<16)}
	dw.enc = json.NewEncoder(&dw.value)
	dw.enc.SetEscapeHTML(false) // names of C++ templates stay legible
	dw.object(h, "images")
	for i := range images {
		dw.separate(i)
		head, procs := image(i)
		dw.object(head, "procs")
		for j := range procs {
			dw.separate(j)
			dw.proc(proc(i, j))
		}
		dw.raw("]}")
	}
	dw.raw("]}\n")
	if dw.err != nil {
		return dw.err
	}
	return dw.w.Flush() // which tells of failures before it too
}

// A documentWriter writes JSON in pieces. The few objects of which there are
// millions, blocks, edges and calls, it writes without reflection, in the order of
// their fields. The first failure sticks.
type documentWriter struct {
	w     *bufio.Writer
	value bytes.Buffer
	enc   *json.Encoder
	line  []byte
	err   error
}

func (dw *documentWriter) raw(s string) { dw.w.WriteString(s) }

// separate starts the line of element i of a list.
func (dw *documentWriter) separate(i int) {
	if i > 0 {
		dw.raw(",")
	}
	dw.raw("\n")
}

// encode returns the JSON form of v, valid until the next call.
func (dw *documentWriter) encode(v any) []byte {
	dw.value.Reset()
	if err := dw.enc.Encode(v); err != nil && dw.err == nil {
		dw.err = err
	}
	return bytes.TrimSuffix(dw.value.Bytes(), []byte("\n"))
}

// object writes the struct v, which has fields, as an object left open in its
// last field, a list.
func (dw *documentWriter) object(v any, list string) {
	dw.w.Write(bytes.TrimSuffix(dw.encode(v), []byte("}")))
	dw.raw(`,"` + list + `":[`)
}

func (dw *documentWriter) proc(p *DocumentProc) {
	b := append(append(dw.line[:0], `{"name":`...), dw.encode(p.Name)...)
	b = appendAddr(append(b, `,"addr":`...), p.Addr)
	b = strconv.AppendUint(append(b, `,"size":`...), p.Size, 10)
	b = strconv.AppendUint(append(b, `,"samples":`...), p.Samples, 10)
	b = strconv.AppendUint(append(b, `,"entries":`...), uint64(p.Entries), 10)
	b = appendWord(append(b, `,"confidence":`...), p.Confidence.String())
	b = strconv.AppendBool(append(b, `,"complete":`...), p.Complete)
	b = appendList(append(b, `,"blocks":`...), p.Blocks)
	b = appendList(append(b, `,"edges":`...), p.Edges)
	b = appendList(append(b, `,"calls":`...), p.Calls)
	dw.line = append(b, '}')
	dw.w.Write(dw.line)
}

// appendList appends a JSON list; T's appendTo appends one element.
func appendList[T interface{ appendTo([]byte) []byte }](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = v.appendTo(b)
	}
	return append(b, ']')
}

func appendAddr(b []byte, a DocumentAddr) []byte {
	return append(strconv.AppendUint(append(b, `"0x`...), uint64(a), 16), '"')
}

// appendWord appends one of a few words, which need no escapes, or whatever another
// document had in its place.
func appendWord(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			j, _ := json.Marshal(s) // a string is never refused
			return append(b, j...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func (d DocumentBlock) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"addr":`...), d.Addr)
	b = strconv.AppendUint(append(b, `,"size":`...), d.Size, 10)
	b = strconv.AppendInt(append(b, `,"insns":`...), int64(d.Insns), 10)
	b = strconv.AppendUint(append(b, `,"samples":`...), d.Samples, 10)
	b = strconv.AppendUint(append(b, `,"count":`...), uint64(d.Count), 10)
	b = appendWord(append(b, `,"confidence":`...), d.Confidence.String())
	b = appendWord(append(b, `,"shape":`...), d.Within.String())
	if d.Cold {
		b = append(b, `,"cold":true`...)
	}
	if d.CPI != nil {
		b = appendNumber(append(b, `,"cpi":`...), *d.CPI)
	}
	if d.LeastCycles != nil {
		b = appendNumber(append(b, `,"least_cycles":`...), *d.LeastCycles)
	}
	if d.Culprits != nil {
		b = appendList(append(b, `,"culprits":`...), d.Culprits)
	}
	return append(b, '}')
}

func (d DocumentCulprit) appendTo(b []byte) []byte {
	b = appendWord(append(b, `{"cause":`...), d.Cause)
	b = appendAddr(append(b, `,"at":`...), d.At)
	b = appendNumber(append(b, `,"least":`...), d.Least)
	b = appendNumber(append(b, `,"most":`...), d.Most)
	if d.From != 0 {
		b = appendAddr(append(b, `,"from":`...), d.From)
	}
	return append(b, '}')
}

// appendNumber appends a number as encoding/json does; one that JSON does not have is 0.
func appendNumber(b []byte, x float64) []byte {
	j, err := json.Marshal(x)
	if err != nil {
		return append(b, '0')
	}
	return append(b, j...)
}

func (d DocumentEdge) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"from":`...), d.From)
	b = appendAddr(append(b, `,"to":`...), d.To)
	b = appendWord(append(b, `,"kind":`...), d.Kind)
	b = strconv.AppendUint(append(b, `,"count":`...), uint64(d.Count), 10)
	b = appendWord(append(b, `,"confidence":`...), d.Confidence.String())
	return append(appendWord(append(b, `,"shape":`...), d.Within.String()), '}')
}

func (d DocumentCall) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"site":`...), d.Site)
	if d.To != 0 {
		b = appendAddr(append(b, `,"to":`...), d.To)
	}
	b = appendWord(append(b, `,"kind":`...), d.Kind)
	return append(strconv.AppendUint(append(b, `,"count":`...), uint64(d.Count), 10), '}')
}

// ReadDocument reads a counts document. Fields that it does not know are left
// out.
func ReadDocument(r io.Reader) (*Document, error) {
	var d Document
	dec := json.NewDecoder(r)
	if err := dec.Decode(&d); err != nil {
		return nil, documentError(dec, err)
	}
	if d.Schema != DocumentSchema {
		return nil, fmt.Errorf("schema %q, want %q: %w", d.Schema, DocumentSchema, ErrDocument)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("offset %#x: more than one value: %w", dec.InputOffset(), ErrDocument)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrDocument)
	}
	return &d, nil
}

// check reports the first thing in d that the schema promises and that is not so, and says
// where. What reads a document relies on it.
func (d *Document) check() error {
	for i := range d.Images {
		im := &d.Images[i]
		for j := range im.Procs {
			if field, err := im.Procs[j].check(); err != nil {
				return fmt.Errorf("images[%d].procs[%d].%s: %w", i, j, field, err)
			}
		}
	}
	return nil
}

func (p *DocumentProc) check() (field string, err error) {
	if uint64(p.Addr)+p.Size < p.Size {
		return "size", fmt.Errorf("%d bytes at %#x are beyond the last address", p.Size, uint64(p.Addr))
	}
	end := uint64(0)
	for k := range p.Blocks {
		b := &p.Blocks[k]
		field := func(name string) string { return fmt.Sprintf("blocks[%d].%s", k, name) }
		switch {
		case b.Size == 0:
			return field("size"), errors.New("0 bytes")
		case uint64(b.Addr)+b.Size < b.Size:
			return field("size"), fmt.Errorf("%d bytes at %#x are beyond the last address", b.Size, uint64(b.Addr))
		case uint64(b.Addr) < end:
			return field("addr"), fmt.Errorf("%#x is in the block before, or out of order", uint64(b.Addr))
		case b.Insns < 0 || uint64(b.Insns) > b.Size:
			return field("insns"), fmt.Errorf("%d in %d bytes", b.Insns, b.Size)
		}
		end = uint64(b.Addr) + b.Size
	}
	for k := range p.Edges {
		if e := &p.Edges[k]; e.Kind != image.FallThrough.String() && e.Kind != image.Taken.String() && e.Kind != image.Indirect.String() {
			return fmt.Sprintf("edges[%d].kind", k), fmt.Errorf("%.20q", e.Kind)
		}
	}
	return "", nil
}

// documentError says where and in which field decoding failed, if it is the
// contents that are to blame.
func documentError(dec *json.Decoder, err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("offset %#x: %w: %w", syntax.Offset, err, ErrDocument)
	case errors.As(err, &typ):
		return fmt.Errorf("offset %#x: %s: %s instead of %s: %w", typ.Offset, typ.Field, typ.Value, typ.Type, ErrDocument)
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return fmt.Errorf("offset %#x: cut short: %w", dec.InputOffset(), ErrDocument)
	}
	return fmt.Errorf("%w: %w", err, ErrDocument) // of a value, which it quotes
}
