package trace

import (
	"encoding/binary"
	"math/bits"
)

// A lane16 is 16 bytes of a vector register.
type lane16 [2]uint64

func (l lane16) bytes() (b [16]byte) {
	binary.LittleEndian.PutUint64(b[:], l[0])
	binary.LittleEndian.PutUint64(b[8:], l[1])
	return b
}

func laneOf(b *[16]byte) lane16 {
	return lane16{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

func (l lane16) double(i uint8) uint32 { return uint32(l[i>>1&1] >> (i & 1 * 32)) }

func lane4(a, b, c, d uint32) lane16 {
	return lane16{uint64(a) | uint64(b)<<32, uint64(c) | uint64(d)<<32}
}

// unpacked takes elements of size bytes of two words in turn.
func unpacked(v, w uint64, size uint8) lane16 {
	if size == 8 {
		return lane16{v, w}
	}
	s := uint(size)
	return lane16{spread(v&0xffffffff, s) | spread(w&0xffffffff, s)<<(8*s), spread(v>>32, s) | spread(w>>32, s)<<(8*s)}
}

// laneOp is what X86Vlanes does with 16 bytes of each source.
func laneOp(d X86Detail, v, w lane16) lane16 {
	how := d.Imm
	switch d.What {
	case X86UnpackLow:
		return unpacked(v[0], w[0], d.Elem)
	case X86UnpackHigh:
		return unpacked(v[1], w[1], d.Elem)
	case X86PackSW, X86PackUW, X86PackSD, X86PackUD:
		return lane16{packed(d.What, v), packed(d.What, w)}
	case X86ShuffleB:
		a, by := v.bytes(), w.bytes()
		var r [16]byte
		for i := range r {
			if by[i] < 0x80 {
				r[i] = a[by[i]&15]
			}
		}
		return laneOf(&r)
	case X86ShuffleD:
		return lane4(w.double(how&3), w.double(how>>2&3), w.double(how>>4&3), w.double(how>>6))
	case X86ShuffleLW:
		return lane16{shuffleWords(w[0], uint64(how)), w[1]}
	case X86ShuffleHW:
		return lane16{w[0], shuffleWords(w[1], uint64(how))}
	case X86ShuffleF:
		if d.Elem == 8 {
			return lane16{v[how&1], w[how>>1&1]}
		}
		return lane4(v.double(how&3), v.double(how>>2&3), w.double(how>>4&3), w.double(how>>6))
	case X86PermuteF:
		if d.Elem == 8 {
			return lane16{w[how&1], w[how>>1&1]}
		}
		return lane4(w.double(how&3), w.double(how>>2&3), w.double(how>>4&3), w.double(how>>6))
	case X86PermuteFV:
		if d.Elem == 8 {
			return lane16{v[w[0]>>1&1], v[w[1]>>1&1]}
		}
		at := func(i uint8) uint32 { return v.double(uint8(w.double(i) & 3)) }
		return lane4(at(0), at(1), at(2), at(3))
	case X86Align:
		n := uint(how)
		if n >= 16 {
			l, h := shiftBytes(v[0], v[1], n-16)
			return lane16{l, h}
		}
		l, h := shiftBytes(w[0], w[1], n)
		vl, vh := bytesLeft(v[0], v[1], 16-n)
		return lane16{l | vl, h | vh}
	case X86BytesLeft:
		l, h := bytesLeft(w[0], w[1], uint(how))
		return lane16{l, h}
	case X86BytesRight:
		l, h := shiftBytes(w[0], w[1], uint(how))
		return lane16{l, h}
	case X86BlendW, X86BlendD, X86BlendQ:
		size := map[X86What]uint{X86BlendW: 16, X86BlendD: 32, X86BlendQ: 64}[d.What]
		r := v
		for i := range 128 / size {
			if how>>i&1 != 0 {
				at := i * size % 64
				m := ^uint64(0) >> (64 - size) << at
				j := i * size / 64
				r[j] = r[j]&^m | w[j]&m
			}
		}
		return r
	case X86DupLow:
		if d.Elem == 8 {
			return lane16{w[0], w[0]}
		}
		return lane4(w.double(0), w.double(0), w.double(2), w.double(2))
	case X86DupHigh:
		return lane4(w.double(1), w.double(1), w.double(3), w.double(3))
	case X86HAddF, X86HSubF:
		what := X86FAdd
		if d.What == X86HSubF {
			what = X86FSub
		}
		if d.Elem == 8 {
			return lane16{floatOf(what, v[0], v[1], 0), floatOf(what, w[0], w[1], 0)}
		}
		f := func(l lane16, i uint8) uint32 { return floatOf(what, l.double(i), l.double(i+1), 0) }
		return lane4(f(v, 0), f(v, 2), f(w, 0), f(w, 2))
	case X86HAddD:
		return lane4(v.double(0)+v.double(1), v.double(2)+v.double(3), w.double(0)+w.double(1), w.double(2)+w.double(3))
	case X86HSubD:
		return lane4(v.double(0)-v.double(1), v.double(2)-v.double(3), w.double(0)-w.double(1), w.double(2)-w.double(3))
	case X86HAddW, X86HSubW:
		var r lane16
		for i := range uint(8) {
			from := v
			if i >= 4 {
				from = w
			}
			x := from[i/2&1] >> (i & 1 * 32)
			sum := uint16(x) + uint16(x>>16)
			if d.What == X86HSubW {
				sum = uint16(x) - uint16(x>>16)
			}
			r[i/4] |= uint64(sum) << (i % 4 * 16)
		}
		return r
	case X86InsertF: // the source's element was put first
		e := w.double(how >> 6)
		r := [4]uint32{v.double(0), v.double(1), v.double(2), v.double(3)}
		r[how>>4&3] = e
		for i := range r {
			if how>>i&1 != 0 {
				r[i] = 0
			}
		}
		return lane4(r[0], r[1], r[2], r[3])
	case X86Multiply:
		return product(v[how&1], w[how>>4&1])
	case X86AESEnc, X86AESEncLast, X86AESDec, X86AESDecLast:
		return aes(d.What, v, w)
	}
	return v
}

// bytesLeft shifts two words to the left by n bytes.
func bytesLeft(l, h uint64, n uint) (uint64, uint64) {
	switch {
	case n >= 16:
		return 0, 0
	case n >= 8:
		return 0, l << (8 * (n - 8))
	}
	return l << (8 * n), h<<(8*n) | l>>(64-8*n)
}

// packed makes the elements of 16 bytes half as long.
func packed(what X86What, v lane16) (r uint64) {
	for j := range 2 {
		switch what {
		case X86PackSW, X86PackUW:
			for i := range 4 {
				n := int64(int16(v[j] >> (16 * i)))
				if what == X86PackSW {
					n = saturate(n, 8)
				} else {
					n = saturateU(n, 8)
				}
				r |= uint64(uint8(n)) << (8*i + 32*j)
			}
		default:
			for i := range 2 {
				n := int64(int32(v[j] >> (32 * i)))
				if what == X86PackSD {
					n = saturate(n, 16)
				} else {
					n = saturateU(n, 16)
				}
				r |= uint64(uint16(n)) << (16*i + 32*j)
			}
		}
	}
	return r
}

// product multiplies without carries.
func product(v, w uint64) (r lane16) {
	for ; w != 0; w &= w - 1 {
		i := bits.TrailingZeros64(w)
		r[0] ^= v << i
		r[1] ^= v >> (64 - i)
	}
	return r
}

// The boxes of AES, made when first used.
var aesBox, aesUnbox = func() (box, unbox [256]byte) {
	p, q := byte(1), byte(1)
	for {
		p ^= times2(p) // times 3
		q ^= q << 1    // divided by 3
		q ^= q << 2
		q ^= q << 4
		if q&0x80 != 0 {
			q ^= 0x09
		}
		box[p] = q ^ bits.RotateLeft8(q, 1) ^ bits.RotateLeft8(q, 2) ^ bits.RotateLeft8(q, 3) ^ bits.RotateLeft8(q, 4) ^ 0x63
		if p == 1 {
			break
		}
	}
	box[0] = 0x63
	for i, b := range box {
		unbox[b] = byte(i)
	}
	return box, unbox
}()

// times2 is by x in the field of AES.
func times2(b byte) byte { return b<<1 ^ b>>7*0x1b }

// aes does one round.
func aes(what X86What, v, key lane16) lane16 {
	s := v.bytes()
	var r [16]byte
	back := what == X86AESDec || what == X86AESDecLast
	for c := range 4 {
		for row := range 4 {
			if back {
				r[4*c+row] = aesUnbox[s[4*((c+4-row)&3)+row]]
			} else {
				r[4*c+row] = aesBox[s[4*((c+row)&3)+row]]
			}
		}
	}
	if what == X86AESEnc || what == X86AESDec {
		for c := range 4 {
			col := [4]byte(r[4*c : 4*c+4])
			for row := range 4 {
				a, b, e, f := col[row], col[(row+1)&3], col[(row+2)&3], col[(row+3)&3]
				if !back {
					r[4*c+row] = times2(a) ^ times2(b) ^ b ^ e ^ f
					continue
				}
				by := func(b, n byte) (p byte) {
					for ; n != 0; n >>= 1 {
						p ^= b * (n & 1)
						b = times2(b)
					}
					return p
				}
				r[4*c+row] = by(a, 14) ^ by(b, 11) ^ by(e, 13) ^ by(f, 9)
			}
		}
	}
	l := laneOf(&r)
	return lane16{l[0] ^ key[0], l[1] ^ key[1]}
}

// extends are, by X86ExtendBW and so on, the sizes from and to.
var extends = [...][2]uint8{{1, 2}, {1, 4}, {1, 8}, {2, 4}, {2, 8}, {4, 8}}

// wideOp is what X86Vwide does with all of each source: words is how many the result has.
func wideOp(d X86Detail, v, w *[8]uint64, words int) (r [8]uint64) {
	how := d.Imm
	switch d.What {
	case X86PermuteQ:
		for j := range words {
			r[j] = w[j&^3|int(how>>(2*(j&3))&3)]
		}
	case X86Permute2:
		for h := range 2 {
			by := how >> (4 * h)
			from := v
			if by&2 != 0 {
				from = w
			}
			if by&8 == 0 {
				copy(r[2*h:2*h+2], from[by&1*2:by&1*2+2])
			}
		}
	case X86PermuteD:
		for i := range 2 * words {
			at := v[i/2] >> (i & 1 * 32) & uint64(2*words-1)
			r[i/2] |= w[at/2] >> (at & 1 * 32) & 0xffffffff << (i & 1 * 32)
		}
	case X86SpreadAll:
		for j := range words {
			if d.Elem < 8 {
				r[j] = repeat(w[0], d.Elem)
			} else {
				r[j] = w[j%(int(d.Imm)/8)] // imm: bytes that are repeated
			}
		}
	case X86InsertLane: // of imm&15 words at word imm>>4
		r = *v
		copy(r[how>>4:words], w[:how&15])
	case X86ExtractLane:
		copy(r[:words], w[how>>4:])
	case X86ExtendBW, X86ExtendBD, X86ExtendBQ, X86ExtendWD, X86ExtendWQ, X86ExtendDQ,
		X86ZeroBW, X86ZeroBD, X86ZeroBQ, X86ZeroWD, X86ZeroWQ, X86ZeroDQ:
		signed := d.What <= X86ExtendDQ
		what := d.What - X86ExtendBW
		if !signed {
			what = d.What - X86ZeroBW
		}
		from, to := int(extends[what][0]), int(extends[what][1])
		for i := range 8 * words / to {
			e := w[i*from/8] >> (i * from % 8 * 8) & ones(uint8(from))
			if signed {
				e = uint64(extend(e, uint8(from)))
			}
			r[i*to/8] |= e & ones(uint8(to)) << (i * to % 8 * 8)
		}
	case X86IntToDouble:
		for j := range words {
			r[j] = float64bits(float64(int32(w[j/2] >> (j & 1 * 32))))
		}
	case X86FloatToDouble:
		for j := range words {
			r[j] = lengthen(uint32(w[j/2] >> (j & 1 * 32)))
		}
	case X86DoubleToFloat:
		for j := range 2 * words {
			r[j/2] |= uint64(shorten(w[j])) << (j & 1 * 32)
		}
	case X86DoubleToInt, X86DoubleToIntCut:
		for j := range 2 * words {
			r[j/2] |= toInt(float64frombits(w[j]), 4, d.What == X86DoubleToIntCut) << (j & 1 * 32)
		}
	}
	return r
}
