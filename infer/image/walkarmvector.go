package image

import (
	"math/bits"

	"backfeed/sample/trace"
)

// vector is for moves of vector registers, and what compilers and libraries look for bytes with; what
// computes with floating-point numbers is not emulated.
func (o *armOp) vector() bool {
	w := o.w
	rd, rn, rm := uint8(w&31), uint8(w>>5&31), uint8(w>>16&31)
	o.Dst, o.Src = rd, rn
	bytes := uint8(8) << (w >> 30 & 1) // of a vector
	switch {
	case w&0xff3ffc00 == 0x1e204000: // fmov of a register
		o.Kind, o.Size = trace.ArmVdup, [4]uint8{4, 8, 0, 2}[w>>22&3]
		o.Cond = o.Size
		return o.Size > 0
	case w&0x7f36fc00 == 0x1e260000: // fmov to or from a general register
		return o.transfer()
	case w&0xff201fe0 == 0x1e201000: // fmov of a constant
		o.Kind, o.Src, o.Size = trace.ArmVimm, trace.ArmNone, [4]uint8{4, 8, 0, 2}[w>>22&3]
		o.Cond, o.Imm = o.Size, int64(armFloatImm(w>>13&0xff, o.Size))
		return o.Size > 0
	case w&0x9fe08400 == 0x0e000400:
		return o.copy(bytes)
	case w&0xffe0fc00 == 0x5e000400: // dup of an element to a scalar
		at := w >> 16 & 31
		i := bits.TrailingZeros32(at)
		o.Kind, o.Size, o.Imm = trace.ArmVdup, 1<<i, int64(at>>(i+1)<<i)
		o.Cond = o.Size
		return i < 4
	case w&0x9ff80400 == 0x0f000400:
		return o.constant(bytes)
	case w&0xbfe08400 == 0x2e000000: // ext
		o.Kind, o.Index, o.Cond, o.Imm = trace.ArmVext, rm, bytes, int64(w>>11&15)
		return bytes == 16 || w>>14&1 == 0
	case w&0x9f200400 == 0x0e200400:
		return o.threeSame(bytes)
	case w&0x9f3e0c00 == 0x0e200800:
		return o.twoRegisters(bytes)
	case w&0x9f3e0c00 == 0x0e300800:
		return o.acrossLanes(bytes)
	case w&0xfffffc00 == 0x5ef1b800: // addp of a pair to a scalar
		o.Kind, o.Size, o.Cond = trace.ArmVaddv, 8, 16
		return true
	case w&0x9f800400 == 0x0f000400:
		return o.shiftImm(bytes)
	}
	return false
}

// transfer is for fmov between general and vector registers.
func (o *armOp) transfer() bool {
	w := o.w
	to := o.bit(16) // to a vector register
	top := w>>19&3 == 1
	o.Size = [4]uint8{4, 8, 8, 2}[w>>22&3]
	switch {
	case w>>22&3 == 2 != top, w>>19&3 > 1:
		return false
	case o.Size == 8 && w>>31 == 0, o.Size == 4 && w>>31 != 0:
		return false
	case top && w>>22&3 != 2:
		return false
	}
	switch {
	case to && top:
		o.Kind, o.Src, o.Imm = trace.ArmVput, xr(w>>5), 8
	case to:
		o.Kind, o.Src, o.Cond = trace.ArmVfrom, xr(w>>5), o.Size
	default:
		if o.Kind, o.Dst = trace.ArmVto, xr(w); top {
			o.Imm = 8
		}
	}
	return true
}

// copy is for dup, ins, umov and smov.
func (o *armOp) copy(bytes uint8) bool {
	w := o.w
	at := w >> 16 & 31
	i := bits.TrailingZeros32(at)
	if i > 3 {
		return false
	}
	o.Size, o.Imm = 1<<i, int64(at>>(i+1)<<i)
	if w>>29&1 != 0 { // ins of an element
		o.Kind, o.Cond = trace.ArmVins, uint8(w>>11&15>>i<<i)
		return bytes == 16
	}
	switch w >> 11 & 15 {
	case 0: // dup of an element
		o.Kind, o.Cond = trace.ArmVdup, bytes
		return o.Size < 8 || bytes == 16
	case 1: // of a general register
		o.Kind, o.Src, o.Cond, o.Imm = trace.ArmVfrom, xr(w>>5), bytes, 0
		return o.Size < 8 || bytes == 16
	case 3: // ins
		o.Kind, o.Src = trace.ArmVput, xr(w>>5)
		return bytes == 16
	case 5: // smov
		o.Kind, o.Dst, o.Cond = trace.ArmVto, xr(w), 4<<(w>>30&1)
		o.Flags |= trace.ArmSign
		return o.Size < o.Cond
	case 7: // umov
		o.Kind, o.Dst = trace.ArmVto, xr(w)
		return (o.Size == 8) == (bytes == 16)
	}
	return false
}

// armFloatImm returns the floating-point number of size bytes that 8 bits stand for (VFPExpandImm of the
// manual).
func armFloatImm(imm uint32, size uint8) uint64 {
	sign, b6, low := uint64(imm>>7), uint64(imm>>6&1), uint64(imm&63)
	switch size {
	case 2:
		return sign<<15 | (b6^1)<<14 | b6*3<<12 | low<<6
	case 4:
		return sign<<31 | (b6^1)<<30 | b6*31<<25 | low<<19
	}
	return sign<<63 | (b6^1)<<62 | b6*255<<54 | low<<48
}

// constant is for movi, mvni and fmov of a constant (AdvSIMDExpandImm of the manual).
func (o *armOp) constant(bytes uint8) bool {
	w := o.w
	imm := uint64(w>>16&7<<5 | w>>5&31)
	not := w>>29&1 != 0
	mode, o2 := w>>12&15, w>>11&1
	every := func(v uint64, bits int) uint64 {
		for ; bits < 64; bits *= 2 {
			v |= v << bits
		}
		return v
	}
	o.Kind, o.Src, o.Cond = trace.ArmVimm, trace.ArmNone, bytes
	var v uint64
	switch {
	case o2 != 0 && mode != 15:
		return false
	case mode < 8 && mode&1 == 0:
		v = every(imm<<(mode/2*8), 32)
	case mode < 12 && mode&1 == 0:
		v = every(imm<<(mode/2&1*8), 16)
	case mode == 12:
		v = every(imm<<8|0xff, 32)
	case mode == 13:
		v = every(imm<<16|0xffff, 32)
	case mode == 14 && !not:
		v = every(imm, 8)
	case mode == 14:
		for i := range 8 {
			v |= imm >> i & 1 * 0xff << (8 * i)
		}
		not = false
	case mode == 15 && o2 != 0:
		if not {
			return false
		}
		v = every(armFloatImm(uint32(imm), 2), 16)
	case mode == 15 && !not:
		v = every(armFloatImm(uint32(imm), 4), 32)
	case mode == 15:
		if v, not = armFloatImm(uint32(imm), 8), false; bytes == 8 {
			return false
		}
	default: // orr, bic
		return false
	}
	if not {
		v = ^v
	}
	o.Imm = int64(v)
	return true
}

// threeSame is for vectors of one size.
func (o *armOp) threeSame(bytes uint8) bool {
	w := o.w
	u, op, size := w>>29&1, w>>11&31, w>>22&3
	o.Index, o.Cond, o.Size = uint8(w>>16&31), bytes, 1<<size
	lane := func(k trace.Kind, signed bool) bool {
		if o.Kind = k; signed {
			o.Flags |= trace.ArmSign
		}
		return size < 3 || bytes == 16
	}
	switch op {
	case 3:
		o.Size = 8
		if u != 0 {
			o.Kind = [4]trace.Kind{trace.ArmVeor, trace.ArmVbsl, trace.ArmVbit, trace.ArmVbif}[size]
			return true
		}
		if o.Kind = [4]trace.Kind{trace.ArmVand, trace.ArmVand, trace.ArmVorr, trace.ArmVorr}[size]; size&1 != 0 {
			o.Flags |= trace.ArmNot
		}
		return true
	case 6: // cmgt, cmhi
		return lane(trace.ArmVcmhi, u == 0)
	case 7:
		return lane(trace.ArmVcmhs, u == 0)
	case 12:
		return lane(trace.ArmVmax, u == 0) && size < 3
	case 13:
		return lane(trace.ArmVmin, u == 0) && size < 3
	case 16:
		return lane([2]trace.Kind{trace.ArmVadd, trace.ArmVsub}[u], false)
	case 17:
		return lane([2]trace.Kind{trace.ArmVcmtst, trace.ArmVcmeq}[u], false)
	case 20:
		return u != 0 && lane(trace.ArmVumaxp, false) && size < 3
	case 21:
		return u != 0 && lane(trace.ArmVuminp, false) && size < 3
	case 23:
		return u == 0 && lane(trace.ArmVaddp, false)
	}
	return false
}

// twoRegisters is for comparisons with 0, narrowing and counts.
func (o *armOp) twoRegisters(bytes uint8) bool {
	w := o.w
	u, op, size := w>>29&1, w>>12&31, w>>22&3
	o.Cond, o.Size = bytes, 1<<size
	zero := func(k trace.Kind, signed bool) bool {
		if o.Kind = k; signed {
			o.Flags |= trace.ArmSign
		}
		o.imms(0)
		return size < 3 || bytes == 16
	}
	switch {
	case op == 5 && u == 0 && size == 0:
		o.Kind = trace.ArmVcnt
		return true
	case op == 5 && u != 0 && size == 0: // not
		o.Kind, o.Size = trace.ArmVeor, 8
		o.imms(^uint64(0))
		return true
	case op == 8: // cmgt, cmge
		return zero([2]trace.Kind{trace.ArmVcmhi, trace.ArmVcmhs}[u], true)
	case op == 9 && u == 0:
		return zero(trace.ArmVcmeq, false)
	case op == 18 && u == 0: // xtn
		if o.Kind, o.Cond = trace.ArmVnarrow, 0; bytes == 16 {
			o.Flags |= trace.ArmInc
		}
		return size < 3
	}
	return false
}

// acrossLanes is for what reduces a vector to one element.
func (o *armOp) acrossLanes(bytes uint8) bool {
	w := o.w
	u, op, size := w>>29&1, w>>12&31, w>>22&3
	o.Cond, o.Size = bytes, 1<<size
	switch {
	case op == 27 && u == 0:
		o.Kind = trace.ArmVaddv
	case op == 10 && u != 0:
		o.Kind = trace.ArmVmaxv
	case op == 26 && u != 0:
		o.Kind = trace.ArmVminv
	default:
		return false
	}
	return size < 2 || size == 2 && bytes == 16
}

// shiftImm is for shifts by a constant.
func (o *armOp) shiftImm(bytes uint8) bool {
	w := o.w
	u, op := w>>29&1, w>>11&31
	by := w >> 16 & 127
	i := bits.Len32(by>>3) - 1 // log2 of the size of elements
	if i < 0 {
		return false
	}
	size := uint32(8) << i
	o.Size, o.Cond = 1<<i, bytes
	switch {
	case op == 0 && u != 0: // ushr
		o.Kind = trace.ArmVshr
		o.imms(uint64(2*size - by))
	case op == 10 && u == 0:
		o.Kind = trace.ArmVshl
		o.imms(uint64(by - size))
	case op == 16 && u == 0: // shrn
		o.Kind, o.Cond, o.Imm = trace.ArmVnarrow, 0, int64(2*size-by)
		if bytes == 16 {
			o.Flags |= trace.ArmInc
		}
		return i < 3
	default:
		return false
	}
	return i < 3 || bytes == 16
}
