package image

import (
	"math/bits"

	"backfeed/sample/trace"
)

// xr returns the register of a field where 31 is the zero register.
func xr(field uint32) uint8 {
	if field &= 31; field == 31 {
		return trace.ArmZero
	}
	return uint8(field)
}

// sp returns the register of a field where 31 is the stack pointer.
func sp(field uint32) uint8 { return uint8(field & 31) }

// walkARM returns the operation of the instruction w.
func walkARM(w uint32, in Inst) trace.Op {
	fresh := trace.Op{Dst: trace.ArmNone, Src: trace.ArmNone, Base: trace.ArmNone, Index: trace.ArmNone}
	o, known := armOp{Op: fresh, w: w}, false
	if in.Class&Bad != 0 {
		return fresh
	}
	switch w >> 25 & 15 {
	case 8, 9:
		known = o.immediate(in.Addr)
	case 10, 11:
		known = o.branch(in)
	case 5, 13:
		known = o.register()
	case 4, 6, 12, 14:
		known = o.memory(in.Addr)
	case 7, 15:
		known = o.vector()
	}
	if !known {
		o.Op = fresh
		if !o.unknown(in) {
			o.Op = trace.Op{}
		}
	}
	return o.Op
}

// An armOp is an operation that becomes that of the instruction w. Its methods are for groups of
// instructions; they return false for what is not emulated.
type armOp struct {
	trace.Op
	w uint32
}

// bit returns a bit of the instruction.
func (o *armOp) bit(i int) bool { return o.w>>i&1 != 0 }

// wide makes the operands those of the bit sf: 4 or 8 bytes.
func (o *armOp) wide() (bits uint32) {
	o.Size = 4 << (o.w >> 31)
	return uint32(o.Size) * 8
}

// of makes o an operation on fields Rd and Rn.
func (o *armOp) of(k trace.Kind) {
	o.Kind, o.Dst, o.Src = k, xr(o.w), xr(o.w>>5)
}

// imms makes the second operand an immediate.
func (o *armOp) imms(v uint64) {
	o.Imm = int64(v)
	o.Flags |= trace.ArmImm
}

// negative makes a sum a difference.
func (o *armOp) negative(yes bool) {
	if yes {
		o.Flags |= trace.ArmNot | trace.ArmInc
	}
}

func (o *armOp) flags(yes bool) {
	if yes {
		o.Flags |= trace.ArmFlags
	}
}

// immediate is for data processing with an immediate.
func (o *armOp) immediate(a Addr) bool {
	w := o.w
	rd, rn := w&31, w>>5&31
	n := o.wide()
	switch {
	case w&0x1f000000 == 0x10000000: // adr, adrp
		o.Kind, o.Dst, o.Size = trace.ArmLea, xr(rd), 8
		if o.Imm = int64(a + armPCRel(w)); w>>31 != 0 {
			o.Imm = int64(armPage(w, a))
		}
		return true
	case w&0x1f800000 == 0x11000000: // add, sub
		o.of(trace.ArmAdd)
		o.Src = sp(rn)
		o.imms(uint64(w >> 10 & 0xfff << (w >> 22 & 1 * 12)))
		o.negative(o.bit(30))
		if o.flags(o.bit(29)); !o.bit(29) {
			o.Dst = sp(rd)
		}
		return true
	case w&0x1f800000 == 0x12000000: // logical
		mask, ok := armBitMask(w)
		o.of([4]trace.Kind{trace.ArmAnd, trace.ArmOrr, trace.ArmEor, trace.ArmAnd}[w>>29&3])
		o.imms(mask)
		if o.flags(w>>29&3 == 3); w>>29&3 != 3 {
			o.Dst = sp(rd)
		}
		return ok
	case w&0x1f800000 == 0x12800000: // movn, movz, movk
		at := w >> 21 & 3 * 16
		v := uint64(w >> 5 & 0xffff)
		o.of(trace.ArmOrr)
		o.Src = trace.ArmZero
		switch w >> 29 & 3 {
		case 0:
			o.imms(^(v << at))
		case 2:
			o.imms(v << at)
		case 3:
			o.Kind, o.Src, o.Scale, o.Imm = trace.ArmMovk, trace.ArmNone, uint8(at), int64(v)
		default:
			return false
		}
		return at < n
	case w&0x1f800000 == 0x13000000: // bit fields
		return o.bitfield(n)
	case w&0x7fa00000 == 0x13800000: // extr
		o.of(trace.ArmExtr)
		o.Index, o.Imm = xr(w>>16), int64(w>>10&63)
		return o.bit(22) == o.bit(31) && w>>10&63 < n
	}
	return false
}

// armBitMask decodes the mask of a logical instruction (DecodeBitMasks of the manual).
func armBitMask(w uint32) (mask uint64, ok bool) {
	n, r, s := w>>22&1, w>>16&63, w>>10&63
	size := 1 << bits.Len32((n<<6|^s&63)>>1) // of an element, in bits
	if n<<6|^s&63 < 2 || n != 0 && w>>31 == 0 {
		return 0, false
	}
	s, r = s&uint32(size-1), r&uint32(size-1)
	if int(s) == size-1 {
		return 0, false
	}
	ones := uint64(1)<<(s+1) - 1
	mask = ones>>r | ones<<(uint32(size)-r)
	if size < 64 {
		mask &= 1<<size - 1
	}
	for ; size < 64; size *= 2 {
		mask |= mask << size
	}
	return mask, true
}

func (o *armOp) bitfield(n uint32) bool {
	w := o.w
	r, s := w>>16&63, w>>10&63
	opc := w >> 29 & 3
	if opc == 3 || o.bit(22) != o.bit(31) || r >= n || s >= n {
		return false
	}
	o.of([3]trace.Kind{trace.ArmSbf, trace.ArmBfi, trace.ArmUbf}[opc])
	if s >= r {
		o.Cond, o.Imm = uint8(r), int64(s-r+1)
	} else {
		o.Scale, o.Imm = uint8(n-r), int64(s+1)
	}
	return true
}

// branch is for branches and system instructions.
func (o *armOp) branch(in Inst) bool {
	w := o.w
	rt, rn := w&31, w>>5&31
	o.Size = 8
	switch {
	case w&0xff000000 == 0x54000000: // b.cond, bc.cond
		o.Kind, o.Cond = trace.CondJump, uint8(w&15)
	case w&0x7e000000 == 0x34000000: // cbz, cbnz
		o.wide()
		o.Kind, o.Src, o.Ext = trace.CondJump, xr(rt), trace.ArmIfZero+uint8(w>>24&1)
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		o.Kind, o.Src, o.Ext = trace.CondJump, xr(rt), trace.ArmIfClear+uint8(w>>24&1)
		o.Scale = uint8(w>>26&32 | w>>19&31)
	case w&0xfc000000 == 0x14000000:
		o.Kind = trace.Jump
	case w&0xfc000000 == 0x94000000:
		o.Kind, o.Imm = trace.Call, int64(in.Addr)+4
	case w&0xfe1f0000 == 0xd61f0000: // br, blr, ret, and those that authenticate
		o.Src = xr(rn)
		switch w >> 21 & 15 {
		case 0, 8:
			o.Kind = trace.JumpInd
		case 1, 9:
			o.Kind, o.Imm = trace.CallInd, int64(in.Addr)+4
		case 2:
			if o.Kind = trace.Ret; w>>11&1 != 0 { // retaa
				o.Src = 30
			}
		default:
			return false
		}
	case w&0xfffff01f == 0xd503201f: // hints
		return o.hint(w >> 5 & 127)
	case w&0xfffff01f == 0xd503301f: // barriers
		o.Kind = trace.ArmNop
		if w>>5&7 == 2 {
			o.Kind = trace.ArmClrex
		}
		return w>>5&7 == 2 || w>>5&7 >= 4 && w>>5&7 <= 6 // clrex, dsb, dmb, isb
	case w&0xffffffe0 == 0xd53bd040: // mrs of tpidr_el0
		o.Kind, o.Dst = trace.ArmTls, xr(rt)
	case w&0xffffffe0 == 0xd53b4200: // of nzcv
		o.Kind, o.Dst = trace.ArmGetf, xr(rt)
	case w&0xffffffe0 == 0xd51b4200: // msr nzcv
		o.Kind, o.Src = trace.ArmSetf, xr(rt)
	default:
		return false
	}
	return true
}

// hint is for what processors that do not know it ignore.
func (o *armOp) hint(n uint32) bool {
	strip := func(r uint8) bool {
		o.Kind, o.Dst, o.Src = trace.ArmStrip, r, r
		return true
	}
	switch n {
	case 7, 28, 29, 30, 31, 12, 14: // xpaclri, autiaz, autiasp, autibz, autibsp, autia1716, autib1716
		if n == 12 || n == 14 {
			return strip(17)
		}
		return strip(30)
	case 40: // chkfeat
		o.Kind, o.Imm = trace.ArmClobber, 1<<16
		return true
	}
	// What signs an address changes nothing here: walks take signatures off wherever they go to an address.
	o.Kind = trace.ArmNop
	return true
}

// second makes the second operand the shifted register Rm.
func (o *armOp) second() bool {
	o.Index, o.Ext, o.Scale = xr(o.w>>16), uint8(o.w>>22&3), uint8(o.w>>10&63)
	return uint32(o.Scale) < uint32(o.Size)*8
}

// register is for data processing with registers.
func (o *armOp) register() bool {
	w := o.w
	rd, rn := w&31, w>>5&31
	n := o.wide()
	switch {
	case w&0x1f000000 == 0x0a000000: // logical
		o.of([4]trace.Kind{trace.ArmAnd, trace.ArmOrr, trace.ArmEor, trace.ArmAnd}[w>>29&3])
		if o.bit(21) {
			o.Flags |= trace.ArmNot
		}
		o.flags(w>>29&3 == 3)
		return o.second()
	case w&0x1f200000 == 0x0b000000: // add, sub of a shifted register
		o.of(trace.ArmAdd)
		o.negative(o.bit(30))
		o.flags(o.bit(29))
		return o.second() && o.Ext != trace.ArmROR
	case w&0x1fe00000 == 0x0b200000: // of an extended one
		o.of(trace.ArmAdd)
		o.Src, o.Index, o.Ext, o.Scale = sp(rn), xr(w>>16), trace.ArmUXTB+uint8(w>>13&7), uint8(w>>10&7)
		o.negative(o.bit(30))
		if o.flags(o.bit(29)); !o.bit(29) {
			o.Dst = sp(rd)
		}
		return o.Scale <= 4
	case w&0x1fe0fc00 == 0x1a000000: // adc, sbc
		o.of(trace.ArmAdc)
		o.Index = xr(w >> 16)
		if o.bit(30) {
			o.Flags |= trace.ArmNot
		}
		o.flags(o.bit(29))
		return true
	case w&0x3fe00410 == 0x3a400000: // ccmp, ccmn
		o.Kind, o.Src, o.Cond, o.Base = trace.ArmCcmp, xr(rn), uint8(w>>12&15), uint8(w&15)
		if o.Index = xr(w >> 16); o.bit(11) {
			o.Index = trace.ArmNone
			o.imms(uint64(w >> 16 & 31))
		}
		o.negative(o.bit(30))
		return true
	case w&0x3fe00800 == 0x1a800000: // csel, csinc, csinv, csneg
		o.of(trace.ArmCsel)
		o.Index, o.Cond = xr(w>>16), uint8(w>>12&15)
		if o.bit(30) {
			o.Flags |= trace.ArmNot
		}
		if o.bit(10) {
			o.Flags |= trace.ArmInc
		}
		return true
	case w&0x7fe00000 == 0x1ac00000:
		return o.twoSources()
	case w&0x5fe00000 == 0x5ac00000 && !o.bit(29):
		return o.oneSource(n)
	case w&0x7f000000 == 0x1b000000:
		return o.multiply()
	}
	return false
}

func (o *armOp) twoSources() bool {
	o.of(trace.ArmDiv)
	o.Index = xr(o.w >> 16)
	switch op := o.w >> 10 & 63; op {
	case 2:
	case 3:
		o.Flags |= trace.ArmSign
	case 8, 9, 10, 11:
		o.Kind, o.Cond = trace.ArmShift, uint8(op-8)
	default:
		return false
	}
	return true
}

func (o *armOp) oneSource(n uint32) bool {
	switch op := o.w >> 10 & 0x7ff; op {
	case 0:
		o.of(trace.ArmRbit)
	case 1, 2, 3: // rev16, rev32, rev
		o.of(trace.ArmRev)
		o.Cond = 1 << op
		return uint32(o.Cond)*8 <= n
	case 4:
		o.of(trace.ArmClz)
	case 5:
		o.of(trace.ArmCls)
	default: // pointer authentication
		switch op -= 64; {
		case n < 64 || op > 17: // among them those of no such processor
			return false
		case op == 16 || op == 17, op&4 != 0: // xpaci, autia
			o.of(trace.ArmStrip)
			o.Src = o.Dst
		default: // pacia
			o.Kind = trace.ArmNop
		}
	}
	return true
}

func (o *armOp) multiply() bool {
	w := o.w
	o.of(trace.ArmMadd)
	o.Index, o.Base = xr(w>>16), xr(w>>10)
	if o.bit(15) {
		o.Flags |= trace.ArmNot
	}
	op := w >> 21 & 7
	if op != 0 && w>>31 == 0 {
		return false
	}
	switch op {
	case 0:
	case 1, 5: // smaddl, umaddl
		o.Cond = 4
	case 2, 6: // smulh, umulh
		o.Kind, o.Base = trace.ArmMulh, trace.ArmNone
		if o.bit(15) {
			return false
		}
	default:
		return false
	}
	if op == 1 || op == 2 {
		o.Flags |= trace.ArmSign
	}
	return true
}

// at makes the memory operand one relative to register Rn.
func (o *armOp) at(disp int64) {
	o.Base, o.Disp = sp(o.w>>5), int32(disp)
	o.Flags |= trace.ArmHasMem
}

// memory is for loads and stores.
func (o *armOp) memory(a Addr) bool {
	w := o.w
	switch {
	case w&0x3f000000 == 0x08000000:
		return o.exclusive()
	case w&0x3f200c00 == 0x19000000: // ldapur, stlur
		o.at(signed(w>>12, 9))
		return o.general()
	case w&0x3b000000 == 0x18000000:
		return o.literal(a)
	case w&0x3a000000 == 0x28000000:
		return o.pair()
	case w&0x3b000000 == 0x39000000: // unsigned offset
		if !o.one() {
			return o.Kind == trace.ArmNop
		}
		o.at(int64(w>>10&0xfff) * int64(o.Size))
		return true
	case w&0x3b200000 == 0x38000000: // unscaled, and with writeback
		if !o.one() {
			return o.Kind == trace.ArmNop && w>>10&3 == 0
		}
		o.at(signed(w>>12, 9))
		switch w >> 10 & 3 {
		case 1:
			return o.back(trace.ArmPost)
		case 2: // as if without privilege
			return w>>26&1 == 0
		case 3:
			return o.back(trace.ArmPre)
		}
		return true
	case w&0x3b200c00 == 0x38200800: // register
		one := o.one()
		if !o.bit(14) {
			return false
		}
		if !one {
			return o.Kind == trace.ArmNop
		}
		o.at(0)
		o.Index, o.Ext = xr(w>>16), trace.ArmUXTB+uint8(w>>13&7)
		if o.Index == trace.ArmZero {
			o.Index = trace.ArmNone
		}
		if o.bit(12) {
			o.Scale = uint8(bits.TrailingZeros8(o.Size))
		}
		return true
	case w&0x3f200c00 == 0x38200000:
		return o.atomic()
	case w&0xbe000000 == 0x0c000000:
		return o.structure()
	}
	return false
}

// general makes o a load or store of register Rt by the fields size and opc; false for a prefetch, which
// becomes an trace.ArmNop, and what there is not.
func (o *armOp) general() bool {
	w := o.w
	o.Size = 1 << (w >> 30)
	switch opc := w >> 22 & 3; {
	case opc == 0:
		o.Kind, o.Src = trace.ArmStore, xr(w)
		return true
	case opc >= 2 && o.Size == 8:
		if opc == 2 {
			o.Kind = trace.ArmNop
		}
		return false
	case opc == 3 && o.Size == 4:
		return false
	default:
		o.Kind, o.Dst = trace.ArmLoad, xr(w)
		if opc >= 2 {
			o.Flags |= trace.ArmSign
			o.Cond = uint8(8 >> (opc & 1))
		}
	}
	return true
}

// one is general for vector registers too.
func (o *armOp) one() bool {
	w := o.w
	if w>>26&1 == 0 {
		return o.general()
	}
	o.Size = 1 << (w >> 30)
	if o.bit(23) {
		if o.Size > 1 {
			return false
		}
		o.Size = 16
	}
	if o.Kind, o.Dst = trace.ArmVload, uint8(w&31); !o.bit(22) {
		o.Kind, o.Dst, o.Src = trace.ArmVstore, trace.ArmNone, uint8(w&31)
	}
	return true
}

// back has the address written to its base, which must not be what is loaded or stored.
func (o *armOp) back(how trace.Flags) bool {
	o.Flags |= how
	switch o.Kind {
	case trace.ArmLoad, trace.ArmLoadp, trace.ArmStore, trace.ArmStorep:
		return o.Base == 31 || o.Base != o.Dst && o.Base != o.Src && (o.Kind == trace.ArmLoad || o.Kind == trace.ArmStore || o.Base != o.Cond)
	}
	return true
}

func (o *armOp) literal(a Addr) bool {
	w := o.w
	o.Base, o.Imm = trace.ArmBaseImage, int64(a)+signed(w>>5, 19)<<2
	o.Flags |= trace.ArmHasMem
	opc := w >> 30
	if w>>26&1 != 0 {
		o.Kind, o.Dst, o.Size = trace.ArmVload, uint8(w&31), 4<<opc
		return opc < 3
	}
	o.Kind, o.Dst, o.Size = trace.ArmLoad, xr(w), 4
	switch opc {
	case 1:
		o.Size = 8
	case 2:
		o.Flags |= trace.ArmSign
		o.Cond = 8
	case 3:
		o.Kind, o.Dst, o.Base, o.Flags = trace.ArmNop, trace.ArmNone, trace.ArmNone, 0
	}
	return true
}

func (o *armOp) pair() bool {
	w := o.w
	opc, load := w>>30, o.bit(22)
	if w>>26&1 != 0 {
		o.Size = 4 << opc
		if o.Kind, o.Dst, o.Cond = trace.ArmVloadp, uint8(w&31), uint8(w>>10&31); !load {
			o.Kind, o.Dst, o.Src = trace.ArmVstorep, trace.ArmNone, uint8(w&31)
		}
		if opc == 3 || load && o.Dst == o.Cond {
			return false
		}
	} else {
		o.Size = 4 << (opc >> 1)
		if o.Kind, o.Dst, o.Cond = trace.ArmLoadp, xr(w), xr(w>>10); !load {
			o.Kind, o.Dst, o.Src = trace.ArmStorep, trace.ArmNone, xr(w)
		}
		switch {
		case opc == 3, load && o.Dst == o.Cond && o.Dst != trace.ArmZero, load && o.Dst == o.Cond:
			return false
		case opc == 1:
			if o.Flags |= trace.ArmSign; !load || w>>23&3 == 0 { // stgp; ldnpsw there is not
				return false
			}
		}
	}
	o.at(signed(w>>15, 7) * int64(o.Size))
	switch w >> 23 & 3 {
	case 1:
		return o.back(trace.ArmPost)
	case 3:
		return o.back(trace.ArmPre)
	}
	return true
}

// exclusive is for ordered and exclusive accesses, and compare and swap.
func (o *armOp) exclusive() bool {
	w := o.w
	rs, rt2 := w>>16&31, w>>10&31
	load := o.bit(22)
	o.Size, o.Cond = 1<<(w>>30), trace.ArmNone
	o.at(0)
	switch {
	case o.bit(23) && o.bit(21): // cas
		o.Kind, o.Dst, o.Src = trace.ArmCas, xr(rs), xr(w)
		return rt2 == 31
	case o.bit(23) && load: // ldar
		o.Kind, o.Dst = trace.ArmLoad, xr(w)
		return true
	case o.bit(23):
		o.Kind, o.Src = trace.ArmStore, xr(w)
		return true
	case o.bit(21) && w>>31 == 0: // casp
		return false
	}
	if o.bit(21) {
		o.Cond = xr(rt2)
	}
	if load {
		o.Kind, o.Dst = trace.ArmLoadx, xr(w)
		return o.Dst != o.Cond
	}
	o.Kind, o.Dst, o.Src = trace.ArmStorex, xr(rs), xr(w)
	return rs != w&31 && (!o.bit(21) || rs != rt2) && (rs != w>>5&31 || rs == 31)
}

// atomic is for the atomic instructions of LSE, and ldapr.
func (o *armOp) atomic() bool {
	w := o.w
	o.Size = 1 << (w >> 30)
	o.at(0)
	switch {
	case w&0xbffc00 == 0xbfc000: // ldapr
		o.Kind, o.Dst = trace.ArmLoad, xr(w)
		return true
	case !o.bit(15):
		o.Kind, o.Dst, o.Src, o.Cond = trace.ArmAtomic, xr(w), xr(w>>16), uint8(w>>12&7)
		return true
	case w>>12&15 == trace.ArmAtomicSwap:
		o.Kind, o.Dst, o.Src, o.Cond = trace.ArmAtomic, xr(w), xr(w>>16), trace.ArmAtomicSwap
		return true
	}
	return false
}

// structure is for ld1 and st1 of whole registers, and ld1r.
func (o *armOp) structure() bool {
	w := o.w
	rm := w >> 16 & 31
	bytes := uint8(8) << (w >> 30 & 1)
	o.at(0)
	all := bytes
	switch {
	case w&0x3f000000 == 0x0c000000 && !o.bit(21):
		n := map[uint32]uint8{7: 1, 10: 2, 6: 3, 2: 4}[w>>12&15]
		if n == 0 {
			return false
		}
		o.Size, o.Cond, all = bytes, n, n*bytes
		if o.Kind, o.Dst = trace.ArmVloadn, uint8(w&31); !o.bit(22) {
			o.Kind, o.Dst, o.Src = trace.ArmVstoren, trace.ArmNone, uint8(w&31)
		}
	case w&0x3f60f000 == 0x0d40c000: // ld1r
		o.Size, o.Cond = 1<<(w>>10&3), bytes
		o.Kind, o.Dst, all = trace.ArmVloadr, uint8(w&31), o.Size
	default:
		return false
	}
	switch {
	case !o.bit(23):
		return rm == 0
	case rm == 31:
		o.Disp = int32(all)
	default:
		o.Index, o.Ext = uint8(rm), trace.ArmLSL
	}
	o.Flags |= trace.ArmPost
	return true
}

// unknown makes o one that says what is not known after an instruction that is not emulated; false if
// nothing is known at all.
func (o *armOp) unknown(in Inst) bool {
	if in.Class&(Bad|System|Trap|CondJump|Jump|IndJump|DirCall|IndCall|Ret|Rep) != 0 {
		return false
	}
	w := o.w
	u := armOperands(w, in.Class)
	out := u.Writes
	out.add(u.Update)
	o.Kind = trace.ArmClobber
	switch w >> 25 & 15 {
	case 10, 11:
		if w&0xfff00000 != 0xd5300000 { // nothing is known of what a msr does
			return false
		}
	case 2: // SVE: counts go to general registers
		if in.Class&Store != 0 {
			return false
		}
		out = RegSet{General: uint64(armMask(w&31)) | 1<<Flags, Vector: 1<<32 - 1}
	case 0: // SME
		return false
	case 4, 6, 12, 14:
		casp := w&0xbfa00000 == 0x08200000
		switch {
		case w&0xbe000000 == 0x0c000000: // of vectors; a store is of 64 bytes at most
			if o.Size = 64; in.Class&Store != 0 {
				o.at(0)
			}
		case casp:
			o.Size = 16
			o.at(0)
			out = RegSet{General: uint64(armMask(w>>16&31) | armMask((w>>16+1)&31))}
		case in.Class&Store != 0, w>>24&0x3f == 0x19, w&0x3b200400 == 0x38200400: // the last one is ldraa
			return false
		}
	}
	o.Imm = int64(out.General&0xffffffff) | int64(out.Vector)<<32
	o.flags(out.General>>Flags&1 != 0)
	return true
}
