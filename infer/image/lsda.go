package image

import "slices"

// landingPads returns the places in s where the unwinder resumes after an
// exception, by increasing address: those of the exception table (LSDA) of s,
// and of other parts of the same function.
func (im *Image) landingPads(s *Symbol) []Addr {
	end := s.Addr + Addr(s.Size)
	var out []Addr
	for a := s.Addr; a < end; {
		f := im.frameAt(a)
		if f == nil || f.hi <= a {
			break
		}
		for _, pad := range im.readLSDA(f) {
			if pad >= s.Addr && pad < end {
				out = append(out, pad)
			}
		}
		a = f.hi
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxLSDA bounds what is read of an exception table: a compiler's are smaller by far. lsdaHeader has room for what comes before the
// call sites, of which the longest are five integers.
const (
	maxLSDA    = 1 << 20
	lsdaHeader = 64
)

// readLSDA returns the landing pads of an exception table, as GCC's
// unwind-c++ personality reads it (libstdc++-v3/libsupc++/eh_personality.cc):
//
//	offset  size     field
//	0       1        encoding of the base of landing pads, 0xff if that is the function
//	1       -        base, if encoded
//	-       1        encoding of types, 0xff if there are none
//	-       uleb128  offset of the types, if encoded
//	-       1        encoding of call sites
//	-       uleb128  size of the call sites in bytes
//	-       -        call sites: start, length, landing pad (0: none), action (uleb128)
func (im *Image) readLSDA(f *frame) []Addr {
	if f.lsda == 0 {
		return nil
	}
	seg := im.segment(f.lsda)
	if seg == nil {
		return nil
	}
	most := uint64(min(maxLSDA, seg.hi-f.lsda))
	d := frameReader{base: f.lsda, b: im.read(f.lsda, int(min(lsdaHeader, most)))}
	base := f.lo
	if enc := byte(d.uint(1, "landing pad encoding")); enc != encOmit {
		base = d.pointer(enc, "landing pad base")
	}
	if byte(d.uint(1, "type encoding")) != encOmit {
		d.uleb("type table")
	}
	enc := byte(d.uint(1, "call site encoding"))
	size := d.uleb("call site size")
	if d.err != nil || size > most-uint64(d.off) {
		return nil
	}
	d.b = im.read(f.lsda, d.off+int(size))
	var out []Addr
	for d.off < len(d.b) {
		d.value(enc, "call site")
		d.value(enc, "call site length")
		pad := d.value(enc, "landing pad")
		d.uleb("action")
		if d.err != nil {
			break
		}
		if pad != 0 {
			out = append(out, base+pad)
		}
	}
	return out
}
