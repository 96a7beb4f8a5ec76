package document

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
	"sync"

	"backfeed/infer/image"
	"backfeed/sample"
)

// Schema names the version of the counts document. Later documents of the same
// version may have more fields; readers ignore those that they do not know.
const Schema = "backfeed.counts/2"

// schema1 names the version before, which Read reads, too: it has the linker's name of
// a procedure as "name", "shape" for "confidence_within" and "cpi" for "cycles_per_execution".
const schema1 = "backfeed.counts/1"

// JSONSchema is the JSON Schema of the counts document.
//
//go:embed counts.schema.json
var JSONSchema []byte

// jsonSchema1 is that of the version before.
//
//go:embed counts1.schema.json
var jsonSchema1 []byte

var (
	rules2 = sync.OnceValue(func() *Rules { return MustParseRules(JSONSchema) })
	rules1 = sync.OnceValue(func() *Rules { return MustParseRules(jsonSchema1) })
)

// ErrFormat is wrapped by every error that blames the contents of a counts
// document rather than the disk.
var ErrFormat = errors.New("malformed counts document")

// Counts are an infer.Profile as other programs read it: JSON, by JSONSchema.
type Counts struct {
	Header
	Images []Image `json:"images"`
}

// A Header is what a document says before its images.
type Header struct {
	Schema  string  `json:"schema"`
	Machine string  `json:"machine,omitempty"` // machine model
	Event   Event   `json:"event"`
	Clock   *Clock  `json:"clock,omitempty"` // of events that count ns
	Samples Samples `json:"samples"`

	// CommonFactor is what all counts may be off by together, up or down, with 90 % confidence; 0: the event itself tells them.
	CommonFactor float64 `json:"common_factor,omitempty"`
}

// An Event is the sampled event.
type Event struct {
	Name   string `json:"name"`
	Period uint64 `json:"period,omitempty"` // in units per sample, the mean; 0 is unknown
	Unit   string `json:"unit,omitempty"`
}

// A Clock is what samples of time were read with, to be cycles: all cycles and, but for exact ones, all counts are in
// proportion to it.
type Clock struct {
	GHz      float64 `json:"ghz"`
	Measured bool    `json:"measured"` // while they were taken; otherwise it is assumed
}

// Samples says what became of the samples: Total = Used + the sum of Lost.
type Samples struct {
	Total uint64                 `json:"total"`
	Used  uint64                 `json:"used"`
	Lost  map[sample.Loss]uint64 `json:"lost"`
}

// An Image is an infer.ImageProfile.
type Image struct {
	ImageHeader
	Procs []Proc `json:"procs"`
}

// An ImageHeader is what a document says of an image before its procedures.
type ImageHeader struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id,omitempty"`
	Samples uint64 `json:"samples"`
}

// TimeFactor is CommonFactor where nothing but time was sampled.
const TimeFactor = 12

// Seen reports whether a CommonFactor is of executions that walks or windows saw: less than what time has. 0 is of an event that itself tells them.
func Seen(commonFactor float64) bool { return commonFactor > 0 && commonFactor < TimeFactor }

// A Proc is an infer.Result.
type Proc struct {
	Procedure  string     `json:"procedure"`         // as the source has it: image.DemangleShort
	Mangled    string     `json:"mangled,omitempty"` // the linker's name, where it is another
	Addr       Addr       `json:"addr"`
	Size       uint64     `json:"size"` // bytes
	Samples    uint64     `json:"samples"`
	Entries    Count      `json:"entries"`
	Confidence Confidence `json:"confidence"` // of Entries
	// EntriesFactor is what Entries may be off by, up or down, with 90 % confidence: in all where nothing but time was sampled and
	// CommonFactor is 12, and beside CommonFactor where that is less. 0 is not known, or not needed.
	EntriesFactor float64 `json:"entries_factor,omitempty"`

	Complete bool    `json:"complete"`
	Blocks   []Block `json:"blocks"` // by address
	Edges    []Edge  `json:"edges"`
	Calls    []Call  `json:"calls"`

	OldName string `json:"name,omitempty"` // the linker's name of version 1, which Read takes away
}

// SetName makes p the procedure that the linker calls so.
func (p *Proc) SetName(linker string) {
	p.Procedure, p.Mangled = image.DemangleShort(linker), linker
	if p.Procedure == linker {
		p.Mangled = ""
	}
}

// A Block is a basic block with its executions.
type Block struct {
	Addr       Addr       `json:"addr"`
	Size       uint64     `json:"size"` // bytes
	Insns      int        `json:"insns"`
	Samples    uint64     `json:"samples"`
	Count      Count      `json:"count"`
	Confidence Confidence `json:"confidence"`
	Within     Confidence `json:"confidence_within"` // its procedure
	Cold       bool       `json:"cold,omitempty"`

	// Of documents with stalls.
	Cycles      *float64  `json:"cycles_per_execution,omitempty"` // to 3 places; nil is unknown
	OldCycles   *float64  `json:"cpi,omitempty"`                  // the same in version 1; nil after Read
	LeastCycles *float64  `json:"least_cycles,omitempty"`         // by the machine model, likewise
	Culprits    []Culprit `json:"culprits,omitzero"`              // by address, the likeliest first; nil is unknown

	OldWithin Confidence `json:"shape,omitempty"` // Within of version 1, which Read takes away
}

// A Culprit is an explain.Culprit: what may explain that a block waits.
type Culprit struct {
	Cause string  `json:"cause"`
	At    Addr    `json:"at"`             // the instruction that waited
	Least float64 `json:"least"`          // cycles per execution
	Most  float64 `json:"most"`           // cycles per execution
	From  Addr    `json:"from,omitempty"` // what it waited for; 0 is unknown
}

// An Edge is an edge with its executions.
type Edge struct {
	From       Addr       `json:"from"` // start of the source block
	To         Addr       `json:"to"`   // start of the target block
	Kind       string     `json:"kind"` // "fallthrough", "taken" or "indirect"
	Count      Count      `json:"count"`
	Confidence Confidence `json:"confidence"`
	Within     Confidence `json:"confidence_within"` // its procedure
	OldWithin  Confidence `json:"shape,omitempty"`   // of version 1, which Read takes away
}

// A Call is a call with its executions.
type Call struct {
	Site  Addr   `json:"site"`         // of the instruction
	To    Addr   `json:"to,omitempty"` // target; 0 is unknown
	Kind  string `json:"kind"`         // "call", "indirect" or "tail"
	Count Count  `json:"count"`

	Targets []CallTarget `json:"targets,omitzero"` // of an indirect one, within the image, by address; nil is unknown
}

// A CallTarget is where an indirect call goes.
type CallTarget struct {
	To    Addr    `json:"to"`    // the start of a procedure
	Share float64 `json:"share"` // of the call's executions, to 3 places; all add up to 1, or less where it leaves the image
}

// An Addr is an address, in JSON a string like "0x401000".
type Addr image.Addr

// MarshalText writes the address in hexadecimal.
func (a Addr) MarshalText() ([]byte, error) {
	return strconv.AppendUint([]byte("0x"), uint64(a), 16), nil
}

// UnmarshalText reads what MarshalText writes.
func (a *Addr) UnmarshalText(b []byte) error {
	digits, ok := bytes.CutPrefix(b, []byte("0x"))
	v, err := strconv.ParseUint(string(digits), 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("address %q: want 0x and hexadecimal digits", b)
	}
	*a = Addr(v)
	return nil
}

// A Count is a number of executions, in JSON a whole number.
type Count uint64

// Round returns an estimate, in executions, as the nearest count: 0 for what is not a
// number or below 0, and the most that a count holds for what is beyond.
func Round(n float64) Count {
	switch n = math.Round(n); {
	case !(n > 0):
		return 0
	case n >= math.MaxUint64:
		return math.MaxUint64
	default:
		return Count(n)
	}
}

// UnmarshalJSON reads a count in any form that JSON has for numbers; others may
// write 1.2e6.
func (c *Count) UnmarshalJSON(b []byte) error {
	if v, err := strconv.ParseUint(string(b), 10, 64); err == nil {
		*c = Count(v)
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || v < 0 {
		return fmt.Errorf("count %s: want a number that is not negative", b)
	}
	*c = Round(v)
	return nil
}

// Confidence is a promise about a count. There are two of each: the program-wide confidence is about the
// count itself, the confidence within its procedure is about the count after one factor that all counts of
// the procedure have in common, and so about how often a block runs beside others.
//
// Where nothing but time was sampled, the program-wide confidence is low: one execution takes a fraction of
// a cycle or hundreds, and no sample of a timer shows which. Whole programs were off by factors between 0.4
// and 2.6, and by 100 where a loop did nothing but follow pointers through memory. Executions that were
// counted, and samples of retired instructions, do tell. infer/README.md has the figures.
type Confidence uint8

const (
	None   Confidence = iota // no evidence: N is 0 and means unseen, not cold
	Low                      // from the flow around it alone
	Medium                   // within a factor 2 of the truth, with 90 % confidence
	High                     // within 10% of the truth, with 90 % confidence
)

// String returns the name of c, as in a document.
func (c Confidence) String() string { return [...]string{"none", "low", "medium", "high"}[c] }

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

// Write writes the document, one procedure to a line: what is buffered is one
// of them at a time, and line-based tools show which ones changed.
func (d *Counts) Write(w io.Writer) error {
	return WriteParts(w, d.Header, len(d.Images),
		func(i int) (ImageHeader, int) { return d.Images[i].ImageHeader, len(d.Images[i].Procs) },
		func(i, j int) *Proc { return &d.Images[i].Procs[j] })
}

// WriteParts writes a document of so many images: the header of each and how
// many procedures it has, then these. A procedure need not outlast the next call.
func WriteParts(w io.Writer, h Header, images int, image func(i int) (ImageHeader, int), proc func(i, j int) *Proc) error {
	dw := writer{w: bufio.NewWriterSize(w, 1<<16)}
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
type writer struct {
	w     *bufio.Writer
	value bytes.Buffer
	enc   *json.Encoder
	line  []byte
	err   error
}

func (dw *writer) raw(s string) { dw.w.WriteString(s) }

// separate starts the line of element i of a list.
func (dw *writer) separate(i int) {
	if i > 0 {
		dw.raw(",")
	}
	dw.raw("\n")
}

// encode returns the JSON form of v, valid until the next call.
func (dw *writer) encode(v any) []byte {
	dw.value.Reset()
	if err := dw.enc.Encode(v); err != nil && dw.err == nil {
		dw.err = err
	}
	return bytes.TrimSuffix(dw.value.Bytes(), []byte("\n"))
}

// object writes the struct v, which has fields, as an object left open in its
// last field, a list.
func (dw *writer) object(v any, list string) {
	dw.w.Write(bytes.TrimSuffix(dw.encode(v), []byte("}")))
	dw.raw(`,"` + list + `":[`)
}

func (dw *writer) proc(p *Proc) {
	b := append(append(dw.line[:0], `{"procedure":`...), dw.encode(p.Procedure)...)
	if p.Mangled != "" {
		b = append(append(b, `,"mangled":`...), dw.encode(p.Mangled)...)
	}
	b = appendAddr(append(b, `,"addr":`...), p.Addr)
	b = strconv.AppendUint(append(b, `,"size":`...), p.Size, 10)
	b = strconv.AppendUint(append(b, `,"samples":`...), p.Samples, 10)
	b = strconv.AppendUint(append(b, `,"entries":`...), uint64(p.Entries), 10)
	b = appendWord(append(b, `,"confidence":`...), p.Confidence.String())
	if p.EntriesFactor > 0 {
		b = strconv.AppendFloat(append(b, `,"entries_factor":`...), p.EntriesFactor, 'g', -1, 64)
	}
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

func appendAddr(b []byte, a Addr) []byte {
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

func (d Block) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"addr":`...), d.Addr)
	b = strconv.AppendUint(append(b, `,"size":`...), d.Size, 10)
	b = strconv.AppendInt(append(b, `,"insns":`...), int64(d.Insns), 10)
	b = strconv.AppendUint(append(b, `,"samples":`...), d.Samples, 10)
	b = strconv.AppendUint(append(b, `,"count":`...), uint64(d.Count), 10)
	b = appendWord(append(b, `,"confidence":`...), d.Confidence.String())
	b = appendWord(append(b, `,"confidence_within":`...), d.Within.String())
	if d.Cold {
		b = append(b, `,"cold":true`...)
	}
	if d.Cycles != nil {
		b = appendNumber(append(b, `,"cycles_per_execution":`...), *d.Cycles)
	}
	if d.LeastCycles != nil {
		b = appendNumber(append(b, `,"least_cycles":`...), *d.LeastCycles)
	}
	if d.Culprits != nil {
		b = appendList(append(b, `,"culprits":`...), d.Culprits)
	}
	return append(b, '}')
}

func (d Culprit) appendTo(b []byte) []byte {
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

func (d Edge) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"from":`...), d.From)
	b = appendAddr(append(b, `,"to":`...), d.To)
	b = appendWord(append(b, `,"kind":`...), d.Kind)
	b = strconv.AppendUint(append(b, `,"count":`...), uint64(d.Count), 10)
	b = appendWord(append(b, `,"confidence":`...), d.Confidence.String())
	return append(appendWord(append(b, `,"confidence_within":`...), d.Within.String()), '}')
}

func (d Call) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"site":`...), d.Site)
	if d.To != 0 {
		b = appendAddr(append(b, `,"to":`...), d.To)
	}
	b = appendWord(append(b, `,"kind":`...), d.Kind)
	b = strconv.AppendUint(append(b, `,"count":`...), uint64(d.Count), 10)
	if d.Targets != nil {
		b = appendList(append(b, `,"targets":`...), d.Targets)
	}
	return append(b, '}')
}

func (d CallTarget) appendTo(b []byte) []byte {
	b = appendAddr(append(b, `{"to":`...), d.To)
	return append(appendNumber(append(b, `,"share":`...), d.Share), '}')
}

// Read reads a counts document of this version or the one before, which is checked whole against its
// schema first. Fields that it does not know are left out.
func Read(r io.Reader) (*Counts, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil { // it says the same of what Check would refuse, but for more than one value
		head.Schema = Schema
	}
	rules := map[string]*Rules{Schema: rules2(), schema1: rules1()}[head.Schema]
	if rules == nil {
		return nil, fmt.Errorf("schema %q, want %q or %q: %w", head.Schema, Schema, schema1, ErrFormat)
	}
	if err := rules.Check(b); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	var d Counts
	if err := json.Unmarshal(b, &d); err != nil { // numbers that the schema allows, and Go's do not hold
		return nil, fmt.Errorf("%w: %w", JSONError(err), ErrFormat)
	}
	d.upgrade()
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	return &d, nil
}

// upgrade makes d one of this version, without what only version 1 has.
func (d *Counts) upgrade() {
	old := d.Schema == schema1
	d.Schema = Schema
	for i := range d.Images {
		for j := range d.Images[i].Procs {
			p := &d.Images[i].Procs[j]
			if old {
				p.SetName(p.OldName)
			}
			p.OldName = ""
			for k := range p.Blocks {
				b := &p.Blocks[k]
				take(&b.Within, &b.OldWithin, old)
				if old {
					b.Cycles = b.OldCycles
				}
				b.OldCycles = nil
			}
			for k := range p.Edges {
				take(&p.Edges[k].Within, &p.Edges[k].OldWithin, old)
			}
		}
	}
}

// take moves a confidence to where this version has it, if the document is old.
func take(within, shape *Confidence, old bool) {
	if old {
		*within = *shape
	}
	*shape = None
}

// check reports the first thing in d that the schema promises and that is not so, and says
// where. What reads a document relies on it.
func (d *Counts) check() error {
	if f := d.CommonFactor; f != 0 && !(f >= 1) {
		return fmt.Errorf("common_factor: %g: want 1 or more", f)
	}
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

func (p *Proc) check() (field string, err error) {
	if uint64(p.Addr)+p.Size < p.Size {
		return "size", fmt.Errorf("%d bytes at %#x are beyond the last address", p.Size, uint64(p.Addr))
	}
	end := uint64(0)
	if f := p.EntriesFactor; f != 0 && !(f >= 1) {
		return "entries_factor", fmt.Errorf("%g: want 1 or more", f)
	}
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
	return "", nil
}
