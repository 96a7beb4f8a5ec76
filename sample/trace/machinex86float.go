package trace

import "math"

// Numbers are as the processor has them with MXCSR as programs begin: rounded to the nearest, with
// denormal ones. Where one is none, the first source that is none is the result, made quiet.

// Numbers that are none, which the processor makes where nothing was one before.
const none64, none32 = 0xfff8 << 48, 0xffc0 << 16

func isNone64(v uint64) bool { return v&^(1<<63) > 0x7ff<<52 }
func isNone32(v uint32) bool { return v&^(1<<31) > 0xff<<23 }

// float64Of is what operations do with numbers of 8 bytes.
func float64Of(what X86What, v, w uint64, how uint8) uint64 {
	a, b := math.Float64frombits(v), math.Float64frombits(w)
	var r float64
	switch what {
	case X86FAdd:
		r = a + b
	case X86FSub:
		r = a - b
	case X86FMul:
		r = a * b
	case X86FDiv:
		r = a / b
	case X86FMin:
		if a < b {
			return v
		}
		return w
	case X86FMax:
		if a > b {
			return v
		}
		return w
	case X86FSqrt:
		if isNone64(w) {
			return w | 1<<51
		}
		if r = math.Sqrt(b); r != r {
			return none64
		}
		return math.Float64bits(r)
	case X86FCompare:
		return flag(compares(a, b, how), ^uint64(0))
	case X86FRound:
		if isNone64(w) {
			return w | 1<<51
		}
		return math.Float64bits(round(b, how))
	}
	switch {
	case r == r:
		return math.Float64bits(r)
	case isNone64(v):
		return v | 1<<51
	case isNone64(w):
		return w | 1<<51
	}
	return none64
}

// float32Of is the same of 4 bytes.
func float32Of(what X86What, v, w uint32, how uint8) uint32 {
	a, b := math.Float32frombits(v), math.Float32frombits(w)
	var r float32
	switch what {
	case X86FAdd:
		r = a + b
	case X86FSub:
		r = a - b
	case X86FMul:
		r = a * b
	case X86FDiv:
		r = a / b
	case X86FMin:
		if a < b {
			return v
		}
		return w
	case X86FMax:
		if a > b {
			return v
		}
		return w
	case X86FSqrt:
		if isNone32(w) {
			return w | 1<<22
		}
		if b < 0 {
			return none32
		}
		return math.Float32bits(float32(math.Sqrt(float64(b)))) // twice as exact and more: rounded once
	case X86FCompare:
		return uint32(flag(compares(float64(a), float64(b), how), 0xffffffff))
	case X86FRound:
		if isNone32(w) {
			return w | 1<<22
		}
		return math.Float32bits(float32(round(float64(b), how)))
	case X86FFromInt:
		return math.Float32bits(float32(int32(w)))
	case X86FToInt:
		return uint32(toInt(float64(b), 4, false))
	case X86FToIntCut:
		return uint32(toInt(float64(b), 4, true))
	}
	switch {
	case r == r:
		return math.Float32bits(r)
	case isNone32(v):
		return v | 1<<22
	case isNone32(w):
		return w | 1<<22
	}
	return none32
}

// compares is by the immediate of cmpps and the like.
func compares(a, b float64, how uint8) bool {
	unordered := a != a || b != b
	var r bool
	switch how & 7 {
	case 0:
		r = a == b
		if how&8 != 0 { // or unordered
			r = r || unordered
		}
		return r
	case 1:
		r = a < b
	case 2:
		r = a <= b
	case 3:
		r = unordered
		if how&8 != 0 { // never
			r = false
		}
		return r
	case 4:
		r = a != b
		if how&8 != 0 { // and ordered
			r = r && !unordered
		}
		return r
	case 5:
		r = !(a < b)
		if how&8 != 0 {
			r = a >= b
		}
		return r
	case 6:
		r = !(a <= b)
		if how&8 != 0 {
			r = a > b
		}
		return r
	case 7:
		r = !unordered
		if how&8 != 0 { // always
			r = true
		}
		return r
	}
	if how&8 != 0 { // 9: not greater or equal; 10: not greater
		r = r || unordered
	}
	return r
}

// round is by the immediate of roundsd and the like.
func round(a float64, how uint8) float64 {
	if how&4 != 0 { // as MXCSR says
		how = 0
	}
	switch how & 3 {
	case 1:
		return math.Floor(a)
	case 2:
		return math.Ceil(a)
	case 3:
		return math.Trunc(a)
	}
	return math.RoundToEven(a)
}

// toInt makes a an integer of size bytes; what none can be is the lowest.
func toInt(a float64, size uint8, cut bool) uint64 {
	if cut {
		a = math.Trunc(a)
	} else {
		a = math.RoundToEven(a)
	}
	if size == 4 {
		if !(a >= -1<<31 && a < 1<<31) {
			return 1 << 31
		}
		return uint64(uint32(int32(a)))
	}
	if !(a >= -1<<63 && a < 1<<63) {
		return 1 << 63
	}
	return uint64(int64(a))
}

// shorten makes 4 bytes of 8, lengthen the reverse.
func shorten(v uint64) uint32 {
	if isNone64(v) {
		return uint32(v>>63)<<31 | 0x7fc00000 | uint32(v>>29&0x3fffff)
	}
	return math.Float32bits(float32(math.Float64frombits(v)))
}

func lengthen(v uint32) uint64 {
	if isNone32(v) {
		return uint64(v>>31)<<63 | 0x7ff8<<48 | uint64(v&0x3fffff)<<29
	}
	return math.Float64bits(float64(math.Float32frombits(v)))
}

// floats does what for numbers of size bytes in a word.
func floats(what X86What, v, w uint64, size, how uint8) uint64 {
	if size == 8 {
		return float64Of(what, v, w, how)
	}
	return uint64(float32Of(what, uint32(v), uint32(w), how)) | uint64(float32Of(what, uint32(v>>32), uint32(w>>32), how))<<32
}

// fuse64 returns a*b+c rounded once.
func fuse64(v, w, u uint64) uint64 {
	r := math.FMA(math.Float64frombits(v), math.Float64frombits(w), math.Float64frombits(u))
	if r == r {
		return math.Float64bits(r)
	}
	for _, n := range []uint64{v, w, u} {
		if isNone64(n) {
			return n | 1<<51
		}
	}
	return none64
}

// fuse32 returns the same of 4 bytes. The product is exact in 8 bytes; the sum is rounded to odd, so that it can
// be rounded again.
func fuse32(v, w, u uint32) uint32 {
	for _, n := range []uint32{v, w, u} {
		if isNone32(n) {
			return n | 1<<22
		}
	}
	p := float64(math.Float32frombits(v)) * float64(math.Float32frombits(w))
	c := float64(math.Float32frombits(u))
	s := p + c
	if s != s {
		return none32
	}
	if math.IsInf(s, 0) {
		return math.Float32bits(float32(s))
	}
	t := s - p // what s lacks of p + c, exactly
	lost := (p - (s - t)) + (c - t)
	if bits := math.Float64bits(s); lost != 0 && bits&1 == 0 {
		if lost > 0 == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return math.Float32bits(float32(s))
}

func float64bits(f float64) uint64     { return math.Float64bits(f) }
func float64frombits(v uint64) float64 { return math.Float64frombits(v) }
func float32bits(f float32) uint32     { return math.Float32bits(f) }
