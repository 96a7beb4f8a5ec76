package image

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A Probe is a mark that clang's -fpseudo-probe-for-profiling leaves of a block
// or call of the source: the code at Addr runs as often as the mark. Code that the
// compiler copied has a mark in each of the copies, and as many at one place as
// copies were made one.
type Probe struct {
	Addr Addr
	ID   uint32 // in its function; the entry is 1
	Kind ProbeKind
	In   *ProbeBody
}

// ProbeKind is what a Probe marks.
type ProbeKind uint8

const (
	ProbeBlock ProbeKind = iota
	ProbeIndirectCall
	ProbeCall
)

// A ProbeBody is the body of a function, as a procedure or inlined into one.
type ProbeBody struct {
	Func   ProbeFunc
	Caller *ProbeBody // nil of a procedure
	Site   uint32     // the ID of the call in Caller
}

// A ProbeFunc is a function as the compiler knew it when it set the probes.
type ProbeFunc struct {
	Name     string // linkage name, with a suffix .__uniq. but no others; "" if the image does not tell
	Checksum uint64 // of the control flow: counts are for functions with the same
}

// ErrNoProbes is returned by Probes if the image was not built with them.
var ErrNoProbes = errors.New("no pseudo probes")

// Probes returns the probes of the image by address. The result is kept.
func (im *Image) Probes() ([]Probe, error) { return im.probes() }

func (im *Image) readProbes() ([]Probe, error) {
	probes, desc := im.section(".pseudo_probe"), im.section(".pseudo_probe_desc")
	if probes == nil || desc == nil {
		return nil, fmt.Errorf("%s: %w", im.Path, ErrNoProbes)
	}
	b, err := im.sectionData(desc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	funcs, err := decodeProbeFuncs(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	if b, err = im.sectionData(probes); err != nil {
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	starts := map[uint64]Addr{}
	for _, s := range im.symbols {
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			if id := GUID(name); starts[id] == 0 {
				starts[id] = s.Addr
			}
		}
	}
	out, err := decodeProbes(b, funcs, starts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	return out, nil
}

// GUID returns the number by which LLVM knows a function: the low half of the MD5 of
// its name (GlobalValue::getGUID, MD5Hash in llvm/Support/MD5.h).
func GUID(name string) uint64 {
	sum := md5.Sum([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}

// decodeProbeFuncs reads .pseudo_probe_desc, functions by GUID. Of each it has
//
//	size     field
//	8        GUID
//	8        checksum
//	uleb128  length of the name
//	-        name
func decodeProbeFuncs(b []byte) (map[uint64]ProbeFunc, error) {
	d := frameReader{section: ".pseudo_probe_desc", b: b}
	funcs := map[uint64]ProbeFunc{}
	for d.off < len(d.b) {
		id, sum := d.uint(8, "GUID"), d.uint(8, "checksum")
		n := d.uleb("length of name")
		if n > uint64(len(d.b)-d.off) {
			d.fail("name")
		}
		if d.err != nil {
			return nil, d.err
		}
		funcs[id] = ProbeFunc{Name: string(d.b[d.off : d.off+int(n)]), Checksum: sum}
		d.off += int(n)
	}
	return funcs, nil
}

// Attributes of a probe, and how deep calls may be inlined: LLVM sets no bound,
// and in what it makes a few dozen are much.
const (
	probeSentinel      = 2
	probeDiscriminated = 4
	probeDelta         = 8
	maxProbeDepth      = 1000
)

// A probeReader reads .pseudo_probe, a list of the bodies of procedures
// (llvm/MC/MCPseudoProbe.h):
//
//	size     field
//	8        GUID
//	uleb128  number of probes
//	uleb128  number of inlined bodies
//	-        probes
//	-        inlined bodies: ID of the call (uleb128), then a body
//
// and of each probe
//
//	uleb128  ID
//	1        kind; attributes in bits 4 to 7: 2 sentinel, 4 has a discriminator,
//	         8 the address is a difference
//	sleb128  address less that of the probe before, or 8 bytes: address
//	uleb128  discriminator, if it has one
//
// The first is relative to the start of the procedure whose name has the GUID.
// Code with another name, such as a cold part, begins with a sentinel: its address
// is the GUID of that name.
type probeReader struct {
	frameReader
	funcs  map[uint64]ProbeFunc
	starts map[uint64]Addr // of procedures, by GUID
	last   Addr
	lost   bool // last is unknown: the procedure has no symbol
	out    []Probe
}

func decodeProbes(b []byte, funcs map[uint64]ProbeFunc, starts map[uint64]Addr) ([]Probe, error) {
	d := probeReader{frameReader: frameReader{section: ".pseudo_probe", b: b}, funcs: funcs, starts: starts}
	for d.off < len(d.b) && d.err == nil {
		d.body(nil, 0, 0)
	}
	if d.err != nil {
		return nil, d.err
	}
	slices.SortStableFunc(d.out, func(a, b Probe) int { return cmp.Compare(a.Addr, b.Addr) })
	return d.out, nil
}

func (d *probeReader) body(caller *ProbeBody, site uint32, depth int) {
	if depth > maxProbeDepth {
		d.fail("depth of inlined bodies")
		return
	}
	id := d.uint(8, "GUID")
	if caller == nil {
		d.begin(id)
	}
	body := &ProbeBody{Func: d.funcs[id], Caller: caller, Site: site}
	probes, inlined := d.uleb("number of probes"), d.uleb("number of inlined bodies")
	for ; probes > 0 && d.err == nil; probes-- {
		d.probe(body)
	}
	for ; inlined > 0 && d.err == nil; inlined-- {
		site := uint32(d.uleb("call"))
		d.body(body, site, depth+1)
	}
}

// begin starts the code of the procedure with such a GUID.
func (d *probeReader) begin(id uint64) {
	start, ok := d.starts[id]
	d.last, d.lost = start, !ok
}

func (d *probeReader) probe(in *ProbeBody) {
	id := uint32(d.uleb("probe"))
	flags := d.uint(1, "kind of probe")
	kind, attr := ProbeKind(flags&0x0f), flags>>4
	switch {
	case attr&probeDelta != 0:
		d.last += Addr(d.sleb("address"))
	case attr&probeSentinel != 0:
		d.begin(d.uint(8, "sentinel"))
	default:
		d.last, d.lost = Addr(d.uint(8, "address")), false
	}
	if attr&probeDiscriminated != 0 {
		d.uleb("discriminator")
	}
	if kind > ProbeCall {
		d.fail("kind of probe")
	}
	if d.err == nil && attr&probeSentinel == 0 && !d.lost {
		d.out = append(d.out, Probe{Addr: d.last, ID: id, Kind: kind, In: in})
	}
}
