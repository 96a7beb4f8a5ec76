package trace

// wordOf is what X86Vwords does with a word of each source: integers; numbers are in floatWords.
func wordOf(what X86What, v, w uint64) uint64 {
	switch what {
	case X86LaneXor:
		return v ^ w
	case X86LaneAnd:
		return v & w
	case X86LaneOr:
		return v | w
	case X86LaneAndn:
		return ^v & w
	case X86AddB:
		const low = 0x7f7f7f7f7f7f7f7f
		return (v&low + w&low) ^ (v^w)&^low
	case X86AddW:
		const low = 0x7fff7fff7fff7fff
		return (v&low + w&low) ^ (v^w)&^low
	case X86AddD:
		return lane(X86Vaddd, v, w)
	case X86AddQ:
		return v + w
	case X86SubB:
		const top = 0x8080808080808080
		return (v | top - w&^top) ^ (v^^w)&top
	case X86SubW:
		const top = 0x8000800080008000
		return (v | top - w&^top) ^ (v^^w)&top
	case X86SubD:
		return lane(X86Vsubd, v, w)
	case X86SubQ:
		return v - w
	case X86EqualB:
		return lane(X86Vcmpb, v, w)
	case X86EqualW:
		return lane(X86Vcmpw, v, w)
	case X86EqualD:
		return lane(X86Vcmpd, v, w)
	case X86EqualQ:
		return lane(X86Vcmpq, v, w)
	case X86MinUB:
		return lane(X86Vminb, v, w)
	case X86MaxUB:
		return v ^ w ^ lane(X86Vminb, v, w)
	}
	switch what {
	case X86AddSB, X86AddUSB, X86SubSB, X86SubUSB, X86AvgB, X86MinSB, X86MaxSB, X86MoreB, X86SignB, X86AbsB:
		return bytesOf(what, v, w)
	case X86AddSW, X86AddUSW, X86SubSW, X86SubUSW, X86AvgW, X86MinSW, X86MaxSW, X86MinUW, X86MaxUW, X86MoreW, X86SignW, X86AbsW,
		X86MulLowW, X86MulHighW, X86MulHighUW, X86MulRoundW:
		return wordsOf(what, v, w)
	case X86MulAddW:
		p := func(i int) uint64 { return uint64(int64(int16(v>>i)) * int64(int16(w>>i))) }
		return (p(0)+p(16))&0xffffffff | (p(32)+p(48))<<32
	case X86MulAddB:
		var r uint64
		for i := 0; i < 64; i += 16 {
			sum := int64(uint8(v>>i))*int64(int8(w>>i)) + int64(uint8(v>>(i+8)))*int64(int8(w>>(i+8)))
			r |= uint64(uint16(saturate(sum, 16))) << i
		}
		return r
	case X86SumB:
		var r uint64
		for i := 0; i < 64; i += 8 {
			r += uint64(apart(int(uint8(v>>i)) - int(uint8(w>>i))))
		}
		return r
	case X86MulUD:
		return v & 0xffffffff * (w & 0xffffffff)
	case X86MulSD:
		return uint64(int64(int32(v)) * int64(int32(w)))
	case X86MulLowQ:
		return v * w
	case X86MinSQ, X86MaxSQ:
		if (int64(v) < int64(w)) == (what == X86MinSQ) {
			return v
		}
		return w
	case X86MinUQ, X86MaxUQ:
		if (v < w) == (what == X86MinUQ) {
			return v
		}
		return w
	case X86MoreQ:
		return flag(int64(v) > int64(w), ^uint64(0))
	case X86AbsQ:
		return flag(int64(w) < 0, -w) | flag(int64(w) >= 0, w)
	case X86LeftVQ:
		return v << w
	case X86RightVQ:
		return v >> w
	case X86RotateLQ:
		return v<<(w&63) | v>>(64-w&63)
	case X86RotateRQ:
		return v>>(w&63) | v<<(64-w&63)
	}
	return doublesOf(what, uint32(v), uint32(w)) | doublesOf(what, uint32(v>>32), uint32(w>>32))<<32
}

// saturate returns n, or the nearest to it of signed numbers of some bits.
func saturate(n int64, bits uint) int64 { return min(max(n, -1<<(bits-1)), 1<<(bits-1)-1) }

// saturateU is that of unsigned ones.
func saturateU(n int64, bits uint) int64 { return min(max(n, 0), 1<<bits-1) }

// bytesOf does what for each byte.
func bytesOf(what X86What, v, w uint64) (r uint64) {
	for i := 0; i < 64; i += 8 {
		r |= elementOf(what-X86AddSB, uint64(uint8(v>>i)), uint64(uint8(w>>i)), 8) & 0xff << i
	}
	return r
}

// wordsOf does what for each 2 bytes.
func wordsOf(what X86What, v, w uint64) (r uint64) {
	for i := 0; i < 64; i += 16 {
		a, b := uint64(uint16(v>>i)), uint64(uint16(w>>i))
		var e uint64
		switch p := int64(int16(a)) * int64(int16(b)); what {
		case X86MulLowW:
			e = uint64(p)
		case X86MulHighW:
			e = uint64(p >> 16)
		case X86MulHighUW:
			e = a * b >> 16
		case X86MulRoundW:
			e = uint64((p>>14 + 1) >> 1)
		default:
			e = elementOf(what-X86AddSW, a, b, 16)
		}
		r |= e & 0xffff << i
	}
	return r
}

// elementOf is for what there is of bytes and of 2 bytes; what is beside the first of these.
func elementOf(what X86What, a, b uint64, bits uint) uint64 {
	s, t := int64(a<<(64-bits))>>(64-bits), int64(b<<(64-bits))>>(64-bits)
	switch what {
	case 0: // X86AddSB, X86AddSW
		return uint64(saturate(s+t, bits))
	case X86AddUSB - X86AddSB:
		return uint64(saturateU(int64(a+b), bits))
	case X86SubSB - X86AddSB:
		return uint64(saturate(s-t, bits))
	case X86SubUSB - X86AddSB:
		return uint64(saturateU(int64(a)-int64(b), bits))
	case X86AvgB - X86AddSB:
		return (a + b + 1) >> 1
	case X86MinSB - X86AddSB:
		return uint64(min(s, t))
	case X86MaxSB - X86AddSB:
		return uint64(max(s, t))
	case X86MinUB - X86AddSB:
		return min(a, b)
	case X86MaxUB - X86AddSB:
		return max(a, b)
	case X86MoreB - X86AddSB:
		return flag(s > t, ^uint64(0))
	case X86SignB - X86AddSB:
		switch {
		case t < 0:
			return -a
		case t == 0:
			return 0
		}
		return a
	case X86AbsB - X86AddSB:
		return uint64(max(t, -t))
	}
	return 0
}

// doublesOf does what for 4 bytes.
func doublesOf(what X86What, v, w uint32) uint64 {
	s, t := int32(v), int32(w)
	switch what {
	case X86MinSD:
		return uint64(uint32(min(s, t)))
	case X86MaxSD:
		return uint64(uint32(max(s, t)))
	case X86MinUD:
		return uint64(min(v, w))
	case X86MaxUD:
		return uint64(max(v, w))
	case X86MoreD:
		return flag(s > t, 0xffffffff)
	case X86MulLowD:
		return uint64(v * w)
	case X86SignD:
		switch {
		case t < 0:
			return uint64(-v)
		case t == 0:
			return 0
		}
		return uint64(v)
	case X86AbsD:
		return uint64(uint32(max(t, -t)))
	case X86LeftVD:
		return uint64(v << w)
	case X86RightVD:
		return uint64(v >> w)
	case X86RightSVD:
		return uint64(uint32(s >> min(w, 31)))
	case X86RotateLD:
		return uint64(v<<(w&31) | v>>((32-w)&31))
	case X86RotateRD:
		return uint64(v>>(w&31) | v<<((32-w)&31))
	}
	return 0
}

// shifted is what X86Vshifts does with a word.
func shifted(what X86What, v, n uint64) (r uint64) {
	switch what {
	case X86LeftQ:
		return v << n
	case X86RightQ:
		return v >> n
	case X86RightSQ:
		return uint64(int64(v) >> min(n, 63))
	case X86RotateLQ, X86RotateRQ:
		return wordOf(what, v, n)
	case X86LeftD:
		return uint64(uint32(v)<<n) | v>>32<<n<<32
	case X86RightD:
		return uint64(uint32(v)>>n) | v>>32>>n<<32
	case X86RightSD:
		n = min(n, 31)
		return uint64(uint32(int32(v)>>n)) | uint64(int32(v>>32)>>n)<<32
	case X86RotateLD, X86RotateRD:
		return wordOf(what, v, n&0xffffffff|n<<32)
	}
	for i := 0; i < 64; i += 16 {
		e := uint16(v >> i)
		switch what {
		case X86LeftW:
			e <<= n
		case X86RightW:
			e >>= n
		case X86RightSW:
			e = uint16(int16(e) >> min(n, 15))
		}
		r |= uint64(e) << i
	}
	return r
}

// ternary is by the bits of how, of which each three bits choose one.
func ternary(a, b, c uint64, how uint8) (r uint64) {
	for i := range 8 {
		if how>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^a
		}
		if i&2 == 0 {
			y = ^b
		}
		if i&1 == 0 {
			z = ^c
		}
		r |= x & y & z
	}
	return r
}
