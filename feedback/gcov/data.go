package gcov

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
)

// Data are the counters of the functions of an object. gcc's runtime writes them at the end of a
// program that was built with -fprofile-generate, and -fprofile-use reads them.
type Data struct {
	Version   Version // gcc reads data of exactly its own version
	BigEndian bool    // as the machine that gcc runs on
	Stamp     uint32  // of the notes, which gcov compares; -fprofile-use does not
	Checksum  uint32  // of the object, since GCC 12; neither gcov nor -fprofile-use compares it
	Runs      uint32  // of the program

	// Max is the largest counter of the whole program, all of its objects included, summed over
	// runs. gcc takes what runs at least a 10,000th as often for hot until it has seen all counters
	// of the program (hot-bb-count-fraction, get_hot_bb_threshold in predict.cc).
	// Files have 32 bits of it: WriteData writes the largest number instead of one that is beyond.
	Max uint64

	Functions []Counts
}

// Counts are the counters of a function.
type Counts struct {
	Ident        uint32
	LineChecksum uint32
	CFGChecksum  uint32
	Arcs         []int64    // executions, of the arcs of Function.Counted; nil if the file has none
	Values       []Counters // of other kinds, by increasing kind
}

// Counters are those of another kind than arcs, as they are in the file.
type Counters struct {
	Kind Kind
	N    []int64
}

// A Kind is what counters count (gcov-counter.def).
//
// Counters of arcs alone are fine. With others, each place of a function that wants those of indirect
// calls or of frequent values has to have its own, be they of no calls: gcc steps through them by what
// they say of their length (compute_value_histograms in profile.cc), and gcc 12 crashes on a function
// with two indirect calls that has FirstRun and no Indirect.
type Kind int

// Kinds that a writer may want. How many places of a function want Indirect is not in the notes; it is a
// 24th of the size of the symbol __gcov4.FUNCTION in an object that was built with -fprofile-generate.
const (
	Arcs     Kind = 0
	Indirect Kind = 4 // since GCC 11 of each call: how often, how many pairs, then pairs of the callee's ident and a count
	FirstRun Kind = 7 // one: the order in which functions ran first
)

// kinds is more than any version of gcc has: 11 in GCC 16.
const kinds = 32

// counterOf returns the kind of counters that a tag is of; -1 if it is of none.
func counterOf(tag uint32) Kind {
	if k := (tag - tagCounters) >> 17; tag >= tagCounters && tag&0x1ffff == tagCounters&0x1ffff && k < kinds {
		return Kind(k)
	}
	return -1
}

// NewData returns data without functions for the object of notes.
func NewData(n *Notes) *Data {
	return &Data{Version: n.Version, BigEndian: n.BigEndian, Stamp: n.Stamp, Checksum: n.Checksum, Runs: 1}
}

// Add adds the executions of all arcs of a function. Its error, that of Function.Check, adds nothing.
func (d *Data) Add(f *Function, flows []int64) error {
	n, err := f.Counters(flows)
	if err != nil {
		return err
	}
	d.Functions = append(d.Functions, Counts{Ident: f.Ident, LineChecksum: f.LineChecksum, CFGChecksum: f.CFGChecksum, Arcs: n})
	for _, n := range n {
		d.Max = max(d.Max, uint64(n))
	}
	return nil
}

// Of returns the counters of a function of notes. A function that has others of its own, because the
// source has changed since, has none.
func (d *Data) Of(f *Function) (*Counts, bool) {
	for i := range d.Functions {
		if c := &d.Functions[i]; c.Ident == f.Ident && c.CFGChecksum == f.CFGChecksum {
			return c, true
		}
	}
	return nil, false
}

// ReadData reads a .gcda file. Path is for errors.
//
//	4  "gcda", in the order of bytes of the file
//	4  version              4  stamp              4  checksum (since GCC 12)
//	records: 4  tag         4  length             and so many bytes or words, of
//	  a1000000  summary     4  runs               4  sum of the largest counter of each run
//	  01000000  function    4  ident              4  checksum of lines   4  checksum of the graph;
//	                        none if it was not linked
//	  01a10000  counters    8  of each arc; a length below 0 (since GCC 11) says how many are all zero
//	  + 1<<17 by kind
//	4  0 ends them
func ReadData(r io.Reader, path string) (*Data, error) {
	c, stamp, err := open(r, path, magicData, "data")
	if err != nil {
		return nil, err
	}
	if c.version.Major() < oldestData {
		return nil, fmt.Errorf("%s: version %s: data of gcc %d and later can be read: %w", path, c.version, oldestData, ErrVersion)
	}
	d := &Data{Version: c.version, BigEndian: c.order == binary.BigEndian, Stamp: stamp}
	if c.version.bytes() {
		d.Checksum = c.u32("checksum")
	}
	var f *Counts
	for {
		rec, ok := c.record()
		if !ok {
			break
		}
		switch {
		case rec.tag == tagSummary:
			d.Runs = c.u32("runs")
			d.Max = uint64(c.u32("largest counter"))
		case rec.tag == tagFunction && rec.bytes == 0:
			f = nil
		case rec.tag == tagFunction:
			d.Functions = append(d.Functions, Counts{
				Ident: c.u32("ident"), LineChecksum: c.u32("checksum of lines"), CFGChecksum: c.u32("checksum of the graph"),
			})
			f = &d.Functions[len(d.Functions)-1]
		case counterOf(rec.tag) >= 0 && f != nil:
			f.add(counterOf(rec.tag), c.counters(rec))
		}
		c.done()
	}
	if c.err != nil {
		return nil, c.err
	}
	for i := range d.Functions {
		slices.SortStableFunc(d.Functions[i].Values, func(a, b Counters) int { return int(a.Kind - b.Kind) })
	}
	return d, nil
}

// oldestData is the oldest gcc whose data can be read: those before have histograms in the summary.
const oldestData = 9

func (f *Counts) add(k Kind, n []int64) {
	if k == Arcs {
		f.Arcs = n
		return
	}
	f.Values = append(f.Values, Counters{k, n})
}

func (c *cursor) counters(rec record) []int64 {
	size := rec.bytes + rec.zeros
	if size%8 != 0 {
		c.fail(rec.off, "counters", "%d bytes, which is no number of counters", size)
		return nil
	}
	if err := c.in.Hold(int64(size)); err != nil { // zeros take no bytes of the file
		c.err = fmt.Errorf("%s: offset %#x: counters: %w", c.path, rec.off, err)
		return nil
	}
	n := make([]int64, size/8)
	for i := 0; i < len(n) && rec.bytes > 0; i++ {
		n[i] = c.i64("counter")
	}
	return n
}

// WriteData writes a .gcda file, which gcc of exactly that version takes. Data of a gcc before 9 wrap
// ErrVersion.
func WriteData(w io.Writer, d *Data) error {
	if d.Version.Major() < oldestData {
		return fmt.Errorf("data of gcc %s: those of gcc %d and later can be written: %w", d.Version, oldestData, ErrVersion)
	}
	e := &writer{order: binary.LittleEndian, version: d.Version}
	if d.BigEndian {
		e.order = binary.BigEndian
	}
	e.u32(magicData, uint32(d.Version), d.Stamp)
	if d.Version.bytes() {
		e.u32(d.Checksum)
	}
	e.head(tagSummary, 8)
	e.u32(d.Runs, uint32(min(d.Max, math.MaxUint32)))
	for i := range d.Functions {
		f := &d.Functions[i]
		e.head(tagFunction, 12)
		e.u32(f.Ident, f.LineChecksum, f.CFGChecksum)
		if f.Arcs != nil {
			e.counters(Arcs, f.Arcs)
		}
		for _, v := range f.Values {
			if v.Kind <= Arcs || v.Kind >= kinds {
				return fmt.Errorf("function %#x: %d is no kind of counters: %w", f.Ident, v.Kind, ErrFormat)
			}
			e.counters(v.Kind, v.N)
		}
	}
	e.u32(0)
	_, err := w.Write(e.b)
	return err
}

type writer struct {
	b       []byte
	order   binary.AppendByteOrder
	version Version
}

func (w *writer) u32(n ...uint32) {
	for _, n := range n {
		w.b = w.order.AppendUint32(w.b, n)
	}
}

// head writes a tag and a length, which is below 0 for counters that are all zero.
func (w *writer) head(tag uint32, bytes int) {
	if !w.version.bytes() {
		bytes /= 4
	}
	w.u32(tag, uint32(int32(bytes)))
}

func (w *writer) counters(k Kind, n []int64) {
	size := 8 * len(n)
	tag := tagCounters + uint32(k)<<17
	if w.version.Major() >= sinceZeros && !slices.ContainsFunc(n, func(n int64) bool { return n != 0 }) {
		w.head(tag, -size)
		return
	}
	w.head(tag, size)
	for _, n := range n {
		w.u32(uint32(n), uint32(n>>32))
	}
}
