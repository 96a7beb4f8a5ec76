package trace

// Vector registers are 8 words of 8 bytes; those beyond what an instruction writes stay, or become 0 with VEX.

// setWord sets word j of a vector register.
func (x *machineX86) setWord(r uint8, j int, v uint64, known bool) {
	r &= 31
	x.v[r][j&7] = v
	if known {
		x.vk[r] |= 1 << (j & 7)
	} else {
		x.vk[r] &^= 1 << (j & 7)
	}
}

// word returns word j of a vector register, and whether it is known.
func (x *machineX86) word(r uint8, j int) (uint64, bool) {
	r &= 31
	return x.v[r][j&7], x.vk[r]>>(j&7)&1 != 0
}

// empty makes words from j on 0.
func (x *machineX86) empty(r uint8, j int) {
	r &= 31
	for ; j < 8; j++ {
		x.v[r][j] = 0
		x.vk[r] |= 1 << j
	}
}

// load returns size bytes of memory at ea, at most 8.
func (x *machineX86) load(ea uint64, kea bool, size uint8) (uint64, bool) {
	if !kea {
		return 0, false
	}
	return x.fetch(ea, size)
}

// source returns word j of the source.
func (x *machineX86) source(op *Op, ea uint64, kea bool, j int) (uint64, bool) {
	if op.Flags&X86HasMem != 0 {
		return x.load(ea+uint64(j)*8, kea, 8)
	}
	return x.word(op.Src, j)
}

// beyond is where an operation ends that writes size bytes, and then zeros up to rest bytes: 32 stands
// for all of a register, of which VEX says so.
func (x *machineX86) beyond(r uint8, size, rest uint8) {
	j := int(size+7) / 8
	if rest > 16 {
		x.empty(r, j)
		return
	}
	for ; j < int(rest)/8; j++ {
		x.setWord(r, j, 0, true)
	}
}

// vector is for the operations on vectors that the emulator in the kernel knows, too.
func (x *machineX86) vector(op *Op, ea uint64, kea bool, b uint64, kb bool, r *uint64, known *bool) (sets bool) {
	size := op.Size
	switch op.Kind {
	case X86Vload, X86VloadLow:
		v, k := x.load(ea, kea, min(size, 8))
		if op.Kind == X86VloadLow && size < 8 {
			had, also := x.word(op.Dst, 0)
			v, k = v|had&^ones(size), k && also
		}
		x.setWord(op.Dst, 0, v, k)
		for j := 1; j < int(size)/8; j++ {
			v, k := x.load(ea+uint64(j)*8, kea, 8)
			x.setWord(op.Dst, j, v, k)
		}
		if op.Kind == X86Vload {
			x.beyond(op.Dst, size, op.Cond)
		}
	case X86Vhigh:
		v, k := x.load(ea, kea, 8)
		x.setWord(op.Dst, 1, v, k)
	case X86Vstore, X86VstoreHigh:
		first := 0
		if op.Kind == X86VstoreHigh {
			first = 1
		}
		if !kea {
			x.end = EndAddress
			return false
		}
		for j := 0; j*8 < int(size); j++ {
			v, k := x.word(op.Src, first+j)
			if !x.put(ea+uint64(j)*8, min(8, size-uint8(j)*8), v, k) {
				return false
			}
		}
	case X86Vmov, X86VmovLow:
		for j := 0; j*8 < int(size); j++ {
			v, k := x.word(op.Src, j)
			if part := size - uint8(j)*8; part < 8 {
				had, also := x.word(op.Dst, j)
				v, k = v&ones(part)|had&^ones(part), k && also
			}
			x.setWord(op.Dst, j, v, k)
		}
		if op.Kind == X86Vmov {
			x.beyond(op.Dst, size, op.Cond)
		}
	case X86Vfrom:
		x.setWord(op.Dst, 0, b, kb)
		x.beyond(op.Dst, 8, op.Cond)
	case X86Vto:
		*r, *known = x.word(op.Src, 0)
	case X86Vmaskb:
		for j := 0; j*8 < int(op.Cond); j++ {
			v, k := x.word(op.Src, j)
			*r |= v & 0x8080808080808080 >> 7 * 0x0102040810204080 >> 56 << (8 * j)
			*known = *known && k
		}
	case X86Vzeroupper:
		for i := range uint8(16) {
			x.empty(i, 2)
		}
	case X86Vtest:
		var both, only uint64
		for j := 0; j*8 < int(size); j++ {
			v, k := x.word(op.Dst, j)
			w, l := x.source(op, ea, kea, j)
			both, only = both|v&w, only|^v&w
			*known = *known && k && l
		}
		x.setFlags(flagsRaw, 8, flag(both == 0, zf)|flag(only == 0, cf), 0, 0)
		return true
	case X86Vunpack:
		size, half := uint(op.Imm&15), int(op.Imm>>8&1)
		v, k := x.word(op.Cond, half)
		w, l := x.source(op, ea, kea, half)
		if size == 8 {
			x.setWord(op.Dst, 0, v, k)
			x.setWord(op.Dst, 1, w, l)
			break
		}
		x.setWord(op.Dst, 0, spread(v&0xffffffff, size)|spread(w&0xffffffff, size)<<(8*size), k && l)
		x.setWord(op.Dst, 1, spread(v>>32, size)|spread(w>>32, size)<<(8*size), k && l)
	case X86Vshufd:
		l, kl := x.source(op, ea, kea, 0)
		h, kh := x.source(op, ea, kea, 1)
		how := uint64(op.Imm)
		if how>>8 != 0 {
			if how&(1<<8) != 0 {
				l = shuffleWords(l, how)
			} else {
				h = shuffleWords(h, how)
			}
			x.setWord(op.Dst, 0, l, kl)
			x.setWord(op.Dst, 1, h, kh)
			break
		}
		x.setWord(op.Dst, 0, pickDword(l, h, how)|pickDword(l, h, how>>2)<<32, kl && kh)
		x.setWord(op.Dst, 1, pickDword(l, h, how>>4)|pickDword(l, h, how>>6)<<32, kl && kh)
	case X86Vshift:
		l, kl := x.word(op.Cond, 0)
		h, kh := x.word(op.Cond, 1)
		l, h = shiftBytes(l, h, uint(op.Imm))
		x.setWord(op.Dst, 0, l, kl && kh)
		x.setWord(op.Dst, 1, h, kl && kh)
	case X86Vbcast:
		v, k := x.word(op.Src, 0)
		if op.Flags&X86HasMem != 0 {
			v, k = x.load(ea, kea, size)
		}
		v = repeat(v, size)
		for j := range int(op.Cond) / 8 {
			x.setWord(op.Dst, j, v, k)
		}
		x.empty(op.Dst, int(op.Cond)/8)
	case X86Vxor, X86Vand, X86Vor, X86Vandn, X86Vcmpb, X86Vcmpw, X86Vcmpd, X86Vcmpq, X86Vminb, X86Vaddd, X86Vsubd, X86Vaddq:
		same := op.Flags&X86HasMem == 0 && op.Cond == op.Src
		same = same && (op.Kind == X86Vxor || op.Kind == X86Vcmpb || op.Kind == X86Vcmpd || op.Kind == X86Vsubd)
		for j := range int(size) / 8 {
			v, k := x.word(op.Cond, j)
			w, l := x.source(op, ea, kea, j)
			x.setWord(op.Dst, j, lane(op.Kind, v, w), k && l || same)
		}
		if op.Imm != 0 {
			x.empty(op.Dst, int(size)/8)
		}
	default:
		x.end = EndOp
	}
	return false
}

// spread puts zeros between the elements of size bytes of the lower half of v.
func spread(v uint64, size uint) uint64 {
	if size < 4 {
		v = (v | v<<16) & 0x0000ffff0000ffff
	}
	if size < 2 {
		v = (v | v<<8) & 0x00ff00ff00ff00ff
	}
	return v
}

// shuffleWords returns the four words of 16 bits of v in the order of how.
func shuffleWords(v, how uint64) (r uint64) {
	for j := range 4 {
		r |= v >> (16 * (how >> (2 * j) & 3)) & 0xffff << (16 * j)
	}
	return r
}

// pickDword returns one of the four double words of two words.
func pickDword(l, h, i uint64) uint64 {
	if i&2 != 0 {
		l = h
	}
	return l >> (i & 1 * 32) & 0xffffffff
}

// shiftBytes shifts two words to the right by n bytes.
func shiftBytes(l, h uint64, n uint) (uint64, uint64) {
	switch {
	case n >= 16:
		return 0, 0
	case n >= 8:
		return h >> (8 * (n - 8)), 0
	}
	return l>>(8*n) | h<<(64-8*n), h >> (8 * n)
}

// repeat fills a word with the element of size bytes at its bottom.
func repeat(v uint64, size uint8) uint64 {
	switch size {
	case 1:
		return v & 0xff * 0x0101010101010101
	case 2:
		return v & 0xffff * 0x0001000100010001
	case 4:
		return v & 0xffffffff * 0x0000000100000001
	}
	return v
}

// equal returns all ones in the elements that are equal, of bits bits, of which top are the top ones.
func equal(v, w, top uint64, bits uint) uint64 {
	z := v ^ w
	z = ^((z&^top + ^top) | z) & top
	return z >> (bits - 1) * (1<<bits - 1)
}

// lane is what operations do that are done word by word.
func lane(kind Kind, v, w uint64) uint64 {
	switch kind {
	case X86Vxor:
		return v ^ w
	case X86Vand:
		return v & w
	case X86Vor:
		return v | w
	case X86Vandn:
		return ^v & w
	case X86Vcmpb:
		return equal(v, w, 0x8080808080808080, 8)
	case X86Vcmpw:
		return equal(v, w, 0x8000800080008000, 16)
	case X86Vcmpd:
		return equal(v, w, 0x8000000080000000, 32)
	case X86Vcmpq:
		return flag(v == w, ^uint64(0))
	case X86Vminb:
		const top = 0x8080808080808080
		more := (v&^w | ^(v^w)&(v|top-w&^top)) & top // v >= w
		more = more >> 7 * 0xff
		return w&more | v&^more
	case X86Vaddd:
		return (v+w)&0xffffffff | (v>>32+w>>32)<<32
	case X86Vsubd:
		return (v-w)&0xffffffff | (v>>32-w>>32)<<32
	}
	return v + w // X86Vaddq
}
