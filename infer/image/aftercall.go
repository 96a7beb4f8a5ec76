package image

import "encoding/binary"

// AfterCall reports whether the bytes before a are those of a call, so that a may be a return address: where an unwinder took
// something else for a frame pointer, it found what is none. Of five bytes before any place, some are a call's by chance.
func (im *Image) AfterCall(a Addr) bool {
	if im.Arch == AArch64 {
		b := im.before(a, 4)
		if b == nil {
			return false
		}
		w := binary.LittleEndian.Uint32(b)
		return w>>26 == 0x25 || w&0xfefff000 == 0xd63f0000 // BL; BLR, also of a signed pointer (BLRA)
	}
	if b := im.before(a, 5); b != nil && b[0] == 0xe8 {
		return true
	}
	for n := 2; n <= 7; n++ {
		if b := im.before(a, n); b != nil && b[0] == 0xff && indirectCall(b) {
			return true
		}
	}
	return false
}

// before is the n bytes of code before a; nil if they are not all code.
func (im *Image) before(a Addr, n int) []byte {
	if uint64(a) < uint64(n) {
		return nil
	}
	return im.code(a-Addr(n), a)
}

// indirectCall reports whether b, which begins with 0xff, is CALL r/m64 of x86 with all of its operand (Intel's manual, volume 2, 2.1.3).
func indirectCall(b []byte) bool {
	if b[1]>>3&7 != 2 {
		return false
	}
	mod, rm, n := b[1]>>6, b[1]&7, 2
	if mod != 3 && rm == 4 { // a byte of scale, index and base
		if n++; len(b) > 2 && mod == 0 && b[2]&7 == 5 {
			n += 4
		}
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && rm == 5:
		n += 4
	}
	return len(b) == n
}
