package trace

import (
	"math"
	"unsafe"
)

// Numbers are as the processor has them with MXCSR as programs begin: rounded to the nearest, with
// denormal ones. Where one is none, the first source that is none is the result, made quiet.

// Numbers that are none, which the processor makes where nothing was one before.
const none64, none32 = 0xfff8 << 48, 0xffc0 << 16

func isNone64(v uint64) bool { return v&^(1<<63) > 0x7ff<<52 }
func isNone32(v uint32) bool { return v&^(1<<31) > 0xff<<23 }

// A numberBits is the bits of a number of 4 or 8 bytes.
type numberBits interface{ uint32 | uint64 }

// number64 returns the number that v are the bits of: one of 4 bytes is one of 8 too.
func number64[U numberBits](v U) float64 {
	if unsafe.Sizeof(v) == 4 {
		return float64(math.Float32frombits(uint32(v)))
	}
	return math.Float64frombits(uint64(v))
}

// bitsOf is the reverse. What is rounded twice, to 8 bytes and to 4, is as if rounded once: 8 have more than twice the
// digits of 4, and that is enough for one operation (Figueroa, "When is double rounding innocuous?").
func bitsOf[U numberBits](r float64) (v U) {
	if unsafe.Sizeof(v) == 4 {
		return U(math.Float32bits(float32(r)))
	}
	return U(math.Float64bits(r))
}

// noneOf returns the first of v and w that is no number, made quiet; the processor's own if none of them is.
func noneOf[U numberBits](v, w U) U {
	quiet := 51 // the bit that makes it so
	if unsafe.Sizeof(v) == 4 {
		quiet = 22
	}
	for _, n := range [...]U{v, w} {
		if f := number64(n); f != f {
			return n | 1<<quiet
		}
	}
	return ^U(0) << quiet
}

// floatOf is what operations do with numbers.
func floatOf[U numberBits](what X86What, v, w U, how uint8) U {
	a, b := number64(v), number64(w)
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
		v, r = w, math.Sqrt(b)
	case X86FRound:
		v, r = w, round(b, how)
	case X86FCompare:
		return U(flag(compares(a, b, how), uint64(^U(0))))
	case X86FFromInt:
		return bitsOf[U](float64(int32(w)))
	case X86FToInt, X86FToIntCut:
		return U(toInt(b, 4, what == X86FToIntCut))
	}
	if r != r {
		return noneOf(v, w)
	}
	return bitsOf[U](r)
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
		return floatOf(what, v, w, how)
	}
	return uint64(floatOf(what, uint32(v), uint32(w), how)) | uint64(floatOf(what, uint32(v>>32), uint32(w>>32), how))<<32
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
