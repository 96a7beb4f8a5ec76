package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
)

// A frame is what one frame description entry (FDE) of .eh_frame says: a range
// of code that was compiled or assembled as one piece.
type frame struct {
	lo, hi Addr
	lsda   Addr // its exception table in .gcc_except_table; 0 if it has none
}

// readFrames returns the entries of .eh_frame, in the order of the section.
// Where the bytes are malformed it stops, with what it has so far.
//
// The table of .eh_frame_hdr would be of no help: it has the starts of the
// ranges, not their ends. It says where .eh_frame is if the section headers are
// gone.
func (im *Image) readFrames() ([]frame, error) {
	addr, b, err := im.ehFrame()
	if err != nil || b == nil {
		return nil, err
	}
	all, err := parseFrames(b, addr)
	kept := all[:0]
	for _, f := range all {
		// Entries of functions that the linker dropped are left with address 0.
		if r := im.region(f.lo); r != nil && f.hi > f.lo && f.hi <= r.hi {
			kept = append(kept, f)
		}
	}
	return kept, err
}

// ehFrame finds .eh_frame.
func (im *Image) ehFrame() (Addr, []byte, error) {
	for _, s := range im.elf.Sections {
		if s.Name != ".eh_frame" || s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := im.sectionData(s)
		return Addr(s.Addr), b, err
	}
	if len(im.elf.Sections) > 0 {
		return 0, nil, nil
	}
	for _, p := range im.elf.Progs {
		if p.Type == elf.PT_GNU_EH_FRAME {
			addr := im.frameHeader(Addr(p.Vaddr))
			if s := im.segment(addr); s != nil {
				return addr, im.read(addr, int(s.hi-addr)), nil
			}
		}
	}
	return 0, nil, nil
}

// frameHeader returns the address of .eh_frame that the .eh_frame_hdr at a has; 0
// if it has none.
//
//	offset  size  field
//	0       1     version, 1
//	1       1     encoding of the pointer to .eh_frame
//	2       2     encodings of the count and of the table
//	4       -     pointer to .eh_frame
func (im *Image) frameHeader(a Addr) Addr {
	b := im.read(a, 12)
	if b == nil || b[0] != 1 {
		return 0
	}
	d := frameReader{b: b, base: a, dataRel: a, off: 4}
	addr := d.pointer(b[1], "eh_frame_ptr")
	if d.err != nil {
		return 0
	}
	return addr
}

// Pointer encodings of .eh_frame, from the Linux Standard Base, "DWARF
// Extensions". The low four bits are the format, the next three say what the
// value is relative to, the top one that it is the address of the pointer.
const (
	encAbs      = 0x00
	encULEB     = 0x01
	encU2       = 0x02
	encU4       = 0x03
	encU8       = 0x04
	encSLEB     = 0x09
	encS2       = 0x0a
	encS4       = 0x0b
	encS8       = 0x0c
	encPCRel    = 0x10
	encDataRel  = 0x30
	encIndirect = 0x80
	encOmit     = 0xff
)

// A cie is a common information entry: what FDEs share.
type cie struct {
	augmented bool // its FDEs have augmentation data, with a length before it
	code      byte // encoding of the addresses of code
	lsda      byte // encoding of the pointer to the exception table

	codeAlign uint64 // unit of advances of the location, in bytes
	dataAlign int64  // unit of offsets from the CFA, in bytes
	ra        uint64 // number of the return address's column
	rules     []byte // instructions that hold for all its FDEs
	opaque    bool   // of an augmentation that is not known: nobody can tell what its rules mean
}

// parseFrames reads the ranges of an .eh_frame section that begins at base.
func parseFrames(b []byte, base Addr) ([]frame, error) {
	const usual = 32 // bytes of an entry
	out := make([]frame, 0, len(b)/usual)
	err := eachFrame(b, base, func(f frame, _ *cie, _ []byte) { out = append(out, f) })
	return out, err
}

// eachFrame reads the entries of an .eh_frame section that begins at base, and
// calls f with each FDE with its CIE and its instructions. It stops at the zero length that ends the section, as an unwinder does.
//
//	offset  size  field
//	0       4     length of the rest of the entry; 0 ends the section
//	4       4     0: a CIE. Else an FDE, whose CIE lies so many bytes before this field
//	8       -     the entry
//
// A length of 0xffffffff means that 8 bytes with the length follow.
func eachFrame(b []byte, base Addr, each func(f frame, c *cie, rules []byte)) error {
	return eachEntry(frameReader{section: ehFrameName, b: b, base: base}, each)
}

// eachDebugFrame does so with a .debug_frame section (DWARF 5, 6.4.1), which is as long as it is.
//
//	offset  size  field
//	0       4     length of the rest of the entry
//	4       4     0xffffffff: a CIE. Else an FDE, whose CIE lies so many bytes from the start of the section
//	8       -     the entry
//
// After a length of 0xffffffff, 8 bytes with the length follow, and as many where 4 follow else.
func eachDebugFrame(b []byte, each func(f frame, c *cie, rules []byte)) error {
	return eachEntry(frameReader{section: debugFrameName, b: b}, each)
}

const (
	ehFrameName    = ".eh_frame"
	debugFrameName = ".debug_frame"
)

func eachEntry(whole frameReader, each func(f frame, c *cie, rules []byte)) error {
	b, debug := whole.b, whole.section == debugFrameName
	cies := map[uint64]*cie{} // by offset
	for off := 0; off+4 <= len(b); {
		d := whole
		d.off = off
		length, idSize, cieID := d.uint(4, "length"), 4, uint64(0)
		if length == 0 {
			if !debug {
				break
			}
			off += 4
			continue
		}
		if debug {
			cieID = 0xffffffff
		}
		if length == 0xffffffff {
			length = d.uint(8, "extended length")
			if debug {
				idSize, cieID = 8, math.MaxUint64
			}
		}
		if d.err != nil {
			return d.err
		}
		if length < 4 || length > uint64(len(b)-d.off) {
			return fmt.Errorf("%s: offset %#x: length %#x: %w", d.section, off, length, ErrFormat)
		}
		end := d.off + int(length)
		d.b = b[:end] // an entry's fields are inside the entry
		idAt := d.off
		if id := d.uint(idSize, "CIE pointer"); id == cieID {
			cies[uint64(off)] = d.cie()
		} else {
			// A pointer forward or out of the section finds no CIE.
			at := id
			if !debug {
				at = uint64(idAt) - id
			}
			c, ok := cies[at]
			if d.err == nil && !ok {
				return fmt.Errorf("%s: offset %#x: CIE pointer %#x: no such entry: %w", d.section, idAt, id, ErrFormat)
			}
			if d.err == nil {
				if f, rules := d.fde(c); d.err == nil {
					each(f, c, rules)
				}
			}
		}
		if d.err != nil {
			return d.err
		}
		off = end
	}
	return nil
}

// A frameReader reads the fields of an entry. The first failure sticks, and
// says which field and where.
type frameReader struct {
	section string // for errors; "" is .eh_frame
	b       []byte
	off     int
	base    Addr // of b[0]
	dataRel Addr
	err     error
}

func (d *frameReader) fail(field string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: offset %#x: %s: %w", cmp.Or(d.section, ".eh_frame"), d.off, field, ErrFormat)
	}
	d.off = len(d.b)
}

func (d *frameReader) uint(n int, field string) uint64 {
	if len(d.b)-d.off < n {
		d.fail(field)
		return 0
	}
	var v [8]byte
	copy(v[:], d.b[d.off:d.off+n])
	d.off += n
	return binary.LittleEndian.Uint64(v[:])
}

func (d *frameReader) uleb(field string) uint64 {
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 {
		d.fail(field)
		return 0
	}
	d.off += n
	return v
}

func (d *frameReader) sleb(field string) int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		c := d.uint(1, field)
		if d.err != nil || shift > 63 {
			d.fail(field)
			return 0
		}
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// value reads a pointer's bits in the format that enc asks for.
func (d *frameReader) value(enc byte, field string) Addr {
	switch enc & 0x0f {
	case encAbs, encU8, encS8:
		return Addr(d.uint(8, field))
	case encU4:
		return Addr(d.uint(4, field))
	case encU2:
		return Addr(d.uint(2, field))
	case encS4:
		return Addr(int32(d.uint(4, field)))
	case encS2:
		return Addr(int16(d.uint(2, field)))
	case encULEB:
		return Addr(d.uleb(field))
	case encSLEB:
		return Addr(d.sleb(field))
	}
	d.fail(field + " encoding")
	return 0
}

// pointer reads an encoded pointer. 0 is a null pointer, whatever it is
// relative to. What an indirect one points at is known only at run time: it is
// read, and 0 returned.
func (d *frameReader) pointer(enc byte, field string) Addr {
	if enc == encOmit {
		return 0
	}
	at := d.base + Addr(d.off)
	v := d.value(enc, field)
	if v == 0 || enc&encIndirect != 0 {
		return 0
	}
	switch enc & 0x70 {
	case encAbs:
		return v
	case encPCRel:
		return at + v
	case encDataRel:
		return d.dataRel + v
	}
	d.fail(field + " base") // textrel, funcrel, aligned: no compiler for these processors makes them
	return 0
}

// cie reads a CIE from its version on: augmentation string, sizes of addresses and of segments (version 4), code alignment,
// data alignment, return address register, augmentation data, instructions.
func (d *frameReader) cie() *cie {
	version := d.uint(1, "CIE version")
	if version != 1 && version != 3 && (version != 4 || d.section != debugFrameName) {
		d.fail("CIE version")
		return nil
	}
	n := bytes.IndexByte(d.b[d.off:], 0)
	if n < 0 {
		d.fail("augmentation")
		return nil
	}
	aug := string(d.b[d.off : d.off+n])
	d.off += n + 1
	c := &cie{code: encAbs, lsda: encOmit}
	if version == 4 {
		if address, segment := d.uint(1, "address size"), d.uint(1, "segment size"); address != 8 || segment != 0 {
			d.fail("address size")
			return nil
		}
	}
	c.codeAlign = d.uleb("code alignment")
	c.dataAlign = d.sleb("data alignment")
	if version == 1 {
		c.ra = d.uint(1, "return address register")
	} else {
		c.ra = d.uleb("return address register")
	}
	if aug == "" || aug[0] != 'z' {
		c.opaque = aug != ""
		c.rules = d.b[d.off:]
		return c
	}
	c.augmented = true
	c.rules = d.rest(d.uleb("augmentation length"))
	for _, letter := range aug[1:] {
		switch letter {
		case 'R':
			c.code = byte(d.uint(1, "FDE encoding"))
		case 'L':
			c.lsda = byte(d.uint(1, "LSDA encoding"))
		case 'P':
			d.pointer(byte(d.uint(1, "personality encoding")), "personality")
		case 'S', 'B', 'G': // signal frame, AArch64's B key, memory tagging: no data
		default:
			return c // of a letter that we do not know, the data's length is unknown
		}
	}
	return c
}

// rest returns what follows the next n bytes, the augmentation data, which it
// leaves to be read; nothing if there are not so many.
func (d *frameReader) rest(n uint64) []byte {
	if n > uint64(len(d.b)-d.off) {
		return nil
	}
	return d.b[d.off+int(n):]
}

// fde reads an FDE from its initial location on, and returns its instructions, too.
func (d *frameReader) fde(c *cie) (f frame, rules []byte) {
	f.lo = d.pointer(c.code, "initial location")
	f.hi = f.lo + d.value(c.code, "address range")
	if !c.augmented {
		return f, d.b[d.off:]
	}
	rules = d.rest(d.uleb("augmentation length"))
	f.lsda = d.pointer(c.lsda, "LSDA")
	return f, rules
}
