package image

import "encoding/binary"

// x86 is one decoded x86-64 instruction: its length and class, and the operands
// that jump tables are recognised by. It never allocates.
type x86 struct {
	n     int // bytes; 0 where the bytes are no instruction
	class Class
	op    uint16 // opcode map << 8 | opcode
	vex   bool   // VEX, EVEX or XOP: op names another instruction than without
	rex   byte   // REX bits 0100WRXB, 0 without
	pfx   uint8  // pfx* bits
	modrm byte   // where hasModRM
	mem   bool   // the ModRM operand is memory
	hasRM bool   // there is a ModRM byte
	base  int8   // of the memory operand: register, noReg or ripReg
	index int8
	scale uint8 // log2
	disp  int64
	imm   int64 // immediate, or the displacement of a direct branch
}

const (
	noReg  = -1
	ripReg = 32
)

const (
	pfx66 = 1 << iota
	pfx67
	pfxF2
	pfxF3
	pfxLock
	pfxSeg // %fs or %gs: the memory operand is not at its address
	pfxREX2
)

// Opcode maps, the high byte of x86.op.
const (
	map1  = 0 << 8 // one byte
	map0F = 1 << 8
	map38 = 2 << 8
	map3A = 3 << 8
)

// x86Form is an opcode's entry of a table: its layout in the low bits, what its
// memory operand does and its class.
type x86Form struct {
	layout uint8
	special
	class Class // Load and Store hold only where there is a memory operand
}

// Layout of the bytes after the opcode: bits 0-3 are the immediate.
const (
	immNone  = iota
	immB     // one byte
	immW     // two
	immZ     // four, two with a 16-bit operand
	immV     // like immZ, eight with REX.W
	immWB    // three (enter)
	immAddr  // an absolute address
	immRelB  // branch displacement of one byte
	immRelZ  // of four bytes
	immMask  = 15
	hasModRM = 16
	invalid  = 32
	anyMem   = 64 // Load and Store hold without a ModRM byte too
)

// special names the opcodes whose class depends on more than the opcode.
type special uint8

const (
	plain      special = iota
	grpALU             // 80-83: /7 is cmp
	grpF6              // test, not, neg, mul, div
	grpFE              // inc, dec
	grpFF              // inc, dec, call, jmp, push
	grpC7              // mov, xabort, xbegin
	grp8F              // pop
	grpAE              // fences, fxsave
	grpBA              // bt with an immediate
	grp0FC7            // cmpxchg8b, rdrand
	x87                // D8-DF
	nop90              // nop, pause, xchg
	reg3               // ModRM is a register whatever mod says
	hint1E             // endbr64, rdssp
	mov7E              // movd, movq
	grp0F78            // vmread, or extrq and insertq with two immediates
	movbeCRC           // movbe, crc32
	evexNarrow         // vpmov* down-conversions store
	needMem            // register forms do not exist
	intN               // int $3 traps as int3 does, others are system calls
)

func imm(l uint8, c Class) x86Form { return x86Form{layout: l, class: c} }
func rm(c Class) x86Form           { return x86Form{layout: hasModRM, class: c} }
func rmImm(l uint8, c Class) x86Form {
	return x86Form{layout: hasModRM | l, class: c}
}
func group(s special, l uint8, c Class) x86Form {
	return x86Form{layout: hasModRM | l, special: s, class: c}
}

var oneByte, twoByte, map38Forms, map3AForms [256]x86Form // legacy encodings
var vexForms [4][256]x86Form                              // VEX and EVEX, by map

func init() {
	initOneByte()
	initTwoByte()
	initThreeByte()
	initVEX()
}

func fill(t *[256]x86Form, lo, hi int, f x86Form) {
	for i := lo; i <= hi; i++ {
		t[i] = f
	}
}

func initOneByte() {
	t := &oneByte
	bad := imm(invalid, Bad)
	for alu := 0; alu < 8; alu++ {
		dst, flags := Load|Store, Class(0)
		if alu == 7 {
			dst, flags = Load, Compare
		}
		o := alu << 3
		fill(t, o, o+1, rm(dst|flags))
		fill(t, o+2, o+3, rm(Load|flags))
		t[o+4], t[o+5] = imm(immB, flags), imm(immZ, flags)
		t[o+6], t[o+7] = bad, bad
	}
	fill(t, 0x40, 0x4f, bad) // REX without opcode
	fill(t, 0x50, 0x5f, imm(immNone, Push))
	fill(t, 0x60, 0x67, bad)
	t[0x63] = rm(Load)
	t[0x68], t[0x6a] = imm(immZ, Push), imm(immB, Push)
	t[0x69], t[0x6b] = rmImm(immZ, Load|Mul), rmImm(immB, Load|Mul)
	fill(t, 0x6c, 0x6d, imm(anyMem, System|Store))
	fill(t, 0x6e, 0x6f, imm(anyMem, System|Load))
	fill(t, 0x70, 0x7f, imm(immRelB, CondJump))
	t[0x80], t[0x81], t[0x83] = group(grpALU, immB, 0), group(grpALU, immZ, 0), group(grpALU, immB, 0)
	t[0x82] = bad
	fill(t, 0x84, 0x85, rm(Load|Compare))
	fill(t, 0x86, 0x87, rm(Load|Store|Locked)) // xchg with memory locks without the prefix
	fill(t, 0x88, 0x89, rm(Store))
	fill(t, 0x8a, 0x8b, rm(Load))
	t[0x8c], t[0x8d], t[0x8e] = rm(Store), group(needMem, 0, 0), rm(Load|System)
	t[0x8f] = group(grp8F, 0, Store|Push)
	t[0x90] = x86Form{special: nop90}
	fill(t, 0x91, 0x99, imm(immNone, 0))
	t[0x9a], t[0x9b] = bad, imm(immNone, Float)
	fill(t, 0x9c, 0x9d, imm(immNone, Push))
	fill(t, 0x9e, 0x9f, imm(immNone, 0))
	fill(t, 0xa0, 0xa1, imm(immAddr|anyMem, Load))
	fill(t, 0xa2, 0xa3, imm(immAddr|anyMem, Store))
	fill(t, 0xa4, 0xa5, imm(anyMem, Load|Store))
	fill(t, 0xa6, 0xa7, imm(anyMem, Load|Compare))
	t[0xa8], t[0xa9] = imm(immB, Compare), imm(immZ, Compare)
	fill(t, 0xaa, 0xab, imm(anyMem, Store))
	fill(t, 0xac, 0xad, imm(anyMem, Load))
	fill(t, 0xae, 0xaf, imm(anyMem, Load|Compare))
	fill(t, 0xb0, 0xb7, imm(immB, 0))
	fill(t, 0xb8, 0xbf, imm(immV, 0))
	fill(t, 0xc0, 0xc1, rmImm(immB, Load|Store))
	t[0xc2], t[0xc3] = imm(immW, Ret), imm(immNone, Ret)
	t[0xc4], t[0xc5] = bad, bad // VEX
	t[0xc6], t[0xc7] = group(grpC7, immB, Store), group(grpC7, immZ, Store)
	t[0xc8], t[0xc9] = imm(immWB, Push), imm(immNone, Push)
	t[0xca], t[0xcb] = imm(immW, Ret|System), imm(immNone, Ret|System)
	t[0xcc], t[0xcd], t[0xce], t[0xcf] = imm(immNone, Trap), x86Form{layout: immB, special: intN}, bad, imm(immNone, Ret|System)
	fill(t, 0xd0, 0xd3, rm(Load|Store))
	fill(t, 0xd4, 0xd6, bad)
	t[0xd7] = imm(anyMem, Load)
	fill(t, 0xd8, 0xdf, group(x87, 0, Float))
	fill(t, 0xe0, 0xe3, imm(immRelB, CondJump))
	fill(t, 0xe4, 0xe7, imm(immB, System))
	t[0xe8], t[0xe9], t[0xea], t[0xeb] = imm(immRelZ, DirCall), imm(immRelZ, Jump), bad, imm(immRelB, Jump)
	fill(t, 0xec, 0xef, imm(immNone, System))
	t[0xf0], t[0xf1], t[0xf2], t[0xf3], t[0xf4] = bad, imm(immNone, System), bad, bad, imm(immNone, Trap)
	t[0xf5] = imm(immNone, 0)
	t[0xf6], t[0xf7] = group(grpF6, immB, 0), group(grpF6, immZ, 0)
	fill(t, 0xf8, 0xf9, imm(immNone, 0))
	fill(t, 0xfa, 0xfb, imm(immNone, System))
	fill(t, 0xfc, 0xfd, imm(immNone, 0))
	t[0xfe], t[0xff] = group(grpFE, 0, Load|Store), group(grpFF, 0, 0)
}

func initTwoByte() {
	t := &twoByte
	bad := imm(invalid, Bad)
	fill(t, 0x00, 0x01, rm(System))
	fill(t, 0x02, 0x03, rm(System|Load))
	t[0x04], t[0x05], t[0x06], t[0x07] = bad, imm(immNone, System), imm(immNone, System), imm(immNone, Ret|System)
	t[0x08], t[0x09], t[0x0a], t[0x0b] = imm(immNone, System), imm(immNone, System), bad, imm(immNone, Trap)
	t[0x0c], t[0x0d], t[0x0e], t[0x0f] = bad, rm(0), imm(immNone, 0), rmImm(immB, Load|Float) // 3DNow! opcode as immediate
	fill(t, 0x10, 0x17, rm(Load))
	t[0x11], t[0x13], t[0x17] = rm(Store), rm(Store), rm(Store)
	t[0x14], t[0x15] = rm(Load|Float), rm(Load|Float)
	t[0x18] = rm(0)
	fill(t, 0x19, 0x1f, rm(Nop))
	t[0x1e] = group(hint1E, 0, 0)
	fill(t, 0x20, 0x23, group(reg3, 0, System))
	fill(t, 0x24, 0x27, bad)
	t[0x28], t[0x29], t[0x2a], t[0x2b] = rm(Load), rm(Store), rm(Load|Float), rm(Store)
	fill(t, 0x2c, 0x2d, rm(Load|Float))
	fill(t, 0x2e, 0x2f, rm(Load|Float|Compare))
	fill(t, 0x30, 0x37, imm(immNone, System))
	t[0x36] = bad
	fill(t, 0x38, 0x3f, bad)
	fill(t, 0x40, 0x4f, rm(Load))
	fill(t, 0x50, 0x7f, rm(Load|Float))
	t[0x50] = rm(0)
	t[0x51], t[0x5e] = rm(Load|Float|Div), rm(Load|Float|Div)
	fill(t, 0x6e, 0x6f, rm(Load))
	fill(t, 0x70, 0x73, rmImm(immB, Load|Float))
	t[0x77] = imm(immNone, 0)
	t[0x78], t[0x79] = group(grp0F78, 0, System), rm(System)
	t[0x7a], t[0x7b] = bad, bad
	t[0x7e], t[0x7f] = group(mov7E, 0, 0), rm(Store)
	fill(t, 0x80, 0x8f, imm(immRelZ, CondJump))
	fill(t, 0x90, 0x9f, rm(Store))
	fill(t, 0xa0, 0xa1, imm(immNone, Push))
	t[0xa2], t[0xa3] = imm(immNone, System), rm(Load|Compare)
	t[0xa4], t[0xa5] = rmImm(immB, Load|Store), rm(Load|Store)
	fill(t, 0xa6, 0xa7, rm(System)) // VIA PadLock
	fill(t, 0xa8, 0xa9, imm(immNone, Push))
	t[0xaa], t[0xab] = imm(immNone, System), rm(Load|Store)
	t[0xac], t[0xad] = rmImm(immB, Load|Store), rm(Load|Store)
	t[0xae], t[0xaf] = group(grpAE, 0, 0), rm(Load|Mul)
	fill(t, 0xb0, 0xb1, rm(Load|Store))
	t[0xb2], t[0xb3], t[0xb4], t[0xb5] = rm(Load), rm(Load|Store), rm(Load), rm(Load)
	fill(t, 0xb6, 0xb8, rm(Load))
	t[0xb9], t[0xba], t[0xbb] = rm(Trap), group(grpBA, immB, 0), rm(Load|Store)
	fill(t, 0xbc, 0xbf, rm(Load))
	fill(t, 0xc0, 0xc1, rm(Load|Store))
	t[0xc2], t[0xc3] = rmImm(immB, Load|Float), rm(Store)
	t[0xc4], t[0xc5], t[0xc6] = rmImm(immB, Load), rmImm(immB, 0), rmImm(immB, Load|Float)
	t[0xc7] = group(grp0FC7, 0, 0)
	fill(t, 0xc8, 0xcf, imm(immNone, 0))
	fill(t, 0xd0, 0xfe, rm(Load|Float))
	t[0xd6], t[0xd7] = rm(Store), rm(0)
	t[0xe7], t[0xf0], t[0xf7] = rm(Store), rm(Load), rm(Store)
	t[0xff] = rm(Trap)
}

func initThreeByte() {
	t := &map38Forms
	fill(t, 0, 255, rm(Load|Float))
	t[0x2a] = rm(Load)
	fill(t, 0x80, 0x82, rm(Load|System))
	fill(t, 0xf0, 0xf1, group(movbeCRC, 0, 0))
	t[0xf5], t[0xf6] = rm(Store), rm(Load)
	t[0xf8], t[0xf9] = rm(Load|Store), rm(Store)
	t[0xfc] = rm(Load | Store)

	t = &map3AForms
	fill(t, 0, 255, rmImm(immB, Load|Float))
	fill(t, 0x14, 0x17, rmImm(immB, Store))
}

// initVEX: every opcode but vzeroupper has a ModRM byte, and only map 3 and a
// few opcodes of map 1 an immediate.
func initVEX() {
	m1 := &vexForms[1]
	fill(m1, 0, 255, rm(Load|Float))
	for _, o := range []int{0x10, 0x12, 0x16, 0x28, 0x6e, 0x6f, 0x90, 0xf0} {
		m1[o] = rm(Load)
	}
	for _, o := range []int{0x11, 0x13, 0x17, 0x29, 0x2b, 0x7f, 0x91, 0xd6, 0xe7, 0xf7} {
		m1[o] = rm(Store)
	}
	m1[0x7e] = group(mov7E, 0, 0)
	m1[0x51], m1[0x5e] = rm(Load|Float|Div), rm(Load|Float|Div)
	fill(m1, 0x2e, 0x2f, rm(Load|Float|Compare))
	fill(m1, 0x98, 0x99, rm(Compare))
	fill(m1, 0x70, 0x73, rmImm(immB, Load|Float))
	m1[0xc2], m1[0xc6] = rmImm(immB, Load|Float), rmImm(immB, Load|Float)
	m1[0xc4], m1[0xc5] = rmImm(immB, Load), rmImm(immB, 0)
	m1[0x77] = imm(immNone, 0)
	m1[0xae] = group(grpAE, 0, 0)

	m2 := &vexForms[2]
	fill(m2, 0, 255, rm(Load|Float))
	for _, o := range []int{0x18, 0x19, 0x1a, 0x1b, 0x2a, 0x2c, 0x2d, 0x58, 0x59, 0x5a, 0x5b, 0x78, 0x79, 0x8c} {
		m2[o] = rm(Load)
	}
	for _, o := range []int{0x2e, 0x2f, 0x63, 0x8a, 0x8b, 0x8e, 0xa0, 0xa1, 0xa2, 0xa3} {
		m2[o] = rm(Store)
	}
	fill(m2, 0xe0, 0xef, rm(Load|Store)) // cmpccxadd
	for _, o := range []int{0xf2, 0xf3, 0xf5, 0xf7} {
		m2[o] = rm(Load)
	}
	m2[0xf6] = rm(Load | Mul)
	for _, lo := range []int{0x10, 0x20, 0x30} {
		fill(m2, lo, lo+5, group(evexNarrow, 0, Load|Float))
	}

	m3 := &vexForms[3]
	fill(m3, 0, 255, rmImm(immB, Load|Float))
	for _, o := range []int{0x14, 0x15, 0x16, 0x17, 0x19, 0x1b, 0x1d, 0x39, 0x3b} {
		m3[o] = rmImm(immB, Store)
	}
	m3[0xf0] = rmImm(immB, Load)
}

// decode reads the instruction at the start of b. It accepts more than
// processors do: what it must never do is to misjudge what compilers emit.
func (d *x86) decode(b []byte) {
	if len(b) > longestInst {
		b = b[:longestInst] // the architectural limit
	}
	*d = x86{base: noReg, index: noReg}
	i := 0
	for i < len(b) {
		switch c := b[i]; c {
		case 0x66:
			d.pfx |= pfx66
		case 0x67:
			d.pfx |= pfx67
		case 0xf2:
			d.pfx = d.pfx&^pfxF3 | pfxF2
		case 0xf3:
			d.pfx = d.pfx&^pfxF2 | pfxF3
		case 0xf0:
			d.pfx |= pfxLock
		case 0x64, 0x65:
			d.pfx |= pfxSeg
		case 0x26, 0x2e, 0x36, 0x3e:
		default:
			if c&0xf0 == 0x40 { // a REX followed by a prefix has no effect
				if d.rex = c; i+1 < len(b) && !isPrefix(b[i+1]) {
					d.opcode(b, i+1)
					return
				}
				d.rex = 0
				break
			}
			d.opcode(b, i)
			return
		}
		i++
	}
	d.bad()
}

// afterPrefixes returns the bytes of an instruction from the opcode, VEX or EVEX prefix on.
func afterPrefixes(code []byte) []byte {
	for len(code) > 0 && isPrefix(code[0]) {
		code = code[1:]
	}
	return code
}

func isPrefix(c byte) bool {
	switch c {
	case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3:
		return true
	}
	return c&0xf0 == 0x40
}

// bad makes d one undecodable byte.
func (d *x86) bad() { *d = x86{class: Bad, base: noReg, index: noReg} }

// opcode reads on from the opcode, or from the VEX, EVEX, XOP or REX2 prefix that
// comes with it, at b[i].
func (d *x86) opcode(b []byte, i int) {
	c := b[i]
	i++
	form := &oneByte[c]
	switch c {
	case 0x0f:
		if i >= len(b) {
			d.bad()
			return
		}
		i, form = d.escape(b, i)
	case 0xc4, 0xc5, 0x62:
		d.vector(b, i-1)
		return
	case 0xd5:
		if i+1 >= len(b) {
			d.bad()
			return
		}
		d.pfx |= pfxREX2
		d.rex = 0x40 | b[i]&15
		d.op, form = uint16(b[i+1]), &oneByte[b[i+1]]
		if b[i]&0x80 != 0 {
			d.op, form = map0F|d.op, &twoByte[b[i+1]]
		}
		i += 2
	case 0x8f:
		if i < len(b) && b[i]&0x1f >= 8 {
			d.xop(b, i)
			return
		}
		d.op = uint16(c)
	default:
		d.op = uint16(c)
	}
	if form == nil {
		d.bad()
		return
	}
	d.operands(b, i, form)
}

// escape reads the opcode after 0F.
func (d *x86) escape(b []byte, i int) (int, *x86Form) {
	c := b[i]
	i++
	if c != 0x38 && c != 0x3a {
		d.op = map0F | uint16(c)
		return i, &twoByte[c]
	}
	if i >= len(b) {
		return i, nil
	}
	if c == 0x38 {
		d.op = map38 | uint16(b[i])
		return i + 1, &map38Forms[b[i]]
	}
	d.op = map3A | uint16(b[i])
	return i + 1, &map3AForms[b[i]]
}

// vector reads a VEX or EVEX prefix at b[i] and what follows.
func (d *x86) vector(b []byte, i int) {
	n := 2 // of the prefix
	switch b[i] {
	case 0xc4:
		n = 3
	case 0x62:
		n = 4
	}
	if i+n >= len(b) || d.rex != 0 {
		d.bad()
		return
	}
	m, pp := byte(1), b[i+n-1]&3
	d.rex = 0x40 | ^b[i+1]>>7<<2 // R
	switch b[i] {
	case 0xc4:
		m = b[i+1] & 31
		d.rex |= ^b[i+1] >> 5 & 3 // X, B
		d.rex |= b[i+2] >> 7 << 3 // W
	case 0x62:
		m, pp = b[i+1]&7, b[i+2]&3
		d.rex |= ^b[i+1] >> 5 & 3
		d.rex |= b[i+2] >> 7 << 3
	}
	switch pp {
	case 1:
		d.pfx |= pfx66
	case 2:
		d.pfx |= pfxF3
	case 3:
		d.pfx |= pfxF2
	}
	d.vex = true
	op := b[i+n]
	d.op = uint16(m)<<8 | uint16(op)
	form := vexForm(m, op, b[i] == 0x62)
	if form == nil {
		d.bad()
		return
	}
	d.operands(b, i+n+1, form)
}

var (
	fp16Form  = rm(Load | Float)
	fp16Store = rm(Store)
	msrForm   = x86Form{layout: hasModRM | immZ, class: System}
)

func vexForm(m, op byte, evex bool) *x86Form {
	switch {
	case m >= 1 && m <= 3:
		return &vexForms[m][op]
	case evex && m == 4: // APX: promoted legacy instructions
		if f := &oneByte[op]; f.layout&hasModRM != 0 {
			return f
		}
		return &fp16Form
	case evex && (m == 5 || m == 6): // half precision
		if m == 5 && (op == 0x11 || op == 0x7e) {
			return &fp16Store
		}
		return &fp16Form
	case m == 7:
		return &msrForm
	}
	return nil
}

// xop reads AMD's XOP prefix, whose second byte is b[i].
func (d *x86) xop(b []byte, i int) {
	if i+2 >= len(b) {
		d.bad()
		return
	}
	form := rm(Load | Float)
	switch b[i] & 31 {
	case 8:
		form.layout |= immB
	case 9:
	case 10:
		form.layout |= immZ
		d.pfx &^= pfx66
	default:
		d.bad()
		return
	}
	d.vex = true
	d.rex = 0x40 | ^b[i]>>5&7 | b[i+1]>>7<<3
	d.op = uint16(b[i]&31)<<8 | uint16(b[i+2])
	d.operands(b, i+3, &form)
}

// operands reads ModRM, SIB, displacement and immediate from b[i:].
func (d *x86) operands(b []byte, i int, f *x86Form) {
	if f.layout&invalid != 0 {
		d.bad()
		return
	}
	layout, class := f.layout, f.class
	if layout&hasModRM != 0 {
		if i >= len(b) {
			d.bad()
			return
		}
		d.hasRM = true
		d.modrm = b[i]
		i++
		if d.mem = d.modrm < 0xc0 && f.special != reg3; d.mem {
			if i = d.address(b, i); i < 0 {
				d.bad()
				return
			}
		}
	}
	if !d.mem && layout&anyMem == 0 {
		class &^= Load | Store
		if d.op == 0x86 || d.op == 0x87 {
			class = 0
		}
	}
	if f.special != plain {
		if f.special == intN && i < len(b) {
			d.imm = int64(b[i])
		}
		if layout, class = d.specialise(f, layout, class); class&Bad != 0 {
			d.bad()
			return
		}
	}
	if k := layout & immMask; k != immNone {
		if i = d.immediate(b, i, k); i < 0 {
			d.bad()
			return
		}
	}
	if d.pfx&pfxLock != 0 {
		class |= Locked
	}
	if d.pfx&(pfxF2|pfxF3) != 0 && class&(Load|Store) != 0 && layout&(anyMem|hasModRM|immMask) == anyMem && d.op != 0xd7 {
		class |= Rep
	}
	d.n, d.class = i, class
}

// address reads the SIB byte and displacement of a memory operand. It returns the
// index of the byte after, or -1.
func (d *x86) address(b []byte, i int) int {
	mod, rmBits := d.modrm>>6, d.modrm&7
	dispLen := 0
	switch {
	case rmBits == 4:
		if i >= len(b) {
			return -1
		}
		sib := b[i]
		i++
		d.scale = sib >> 6
		if x := int8(sib>>3&7 | d.rex&2<<2); x != 4 {
			d.index = x
		}
		d.base = int8(sib&7 | d.rex&1<<3)
		if sib&7 == 5 && mod == 0 {
			d.base = noReg
			dispLen = 4
		}
	case rmBits == 5 && mod == 0:
		d.base = ripReg
		dispLen = 4
	default:
		d.base = int8(rmBits | d.rex&1<<3)
	}
	switch mod {
	case 1:
		dispLen = 1
	case 2:
		dispLen = 4
	}
	if i+dispLen > len(b) {
		return -1
	}
	switch dispLen {
	case 1:
		d.disp = int64(int8(b[i]))
	case 4:
		d.disp = int64(int32(binary.LittleEndian.Uint32(b[i:])))
	}
	return i + dispLen
}

// immediate reads the immediate of kind k. It returns the index of the byte after, or -1.
func (d *x86) immediate(b []byte, i int, k uint8) int {
	n := 4
	switch k {
	case immB, immRelB:
		n = 1
	case immW:
		n = 2
	case immWB:
		n = 3
	case immAddr:
		n = 8
		if d.pfx&pfx67 != 0 {
			n = 4
		}
	case immZ, immV:
		switch {
		case d.rex&8 != 0 && k == immV:
			n = 8
		case d.rex&8 == 0 && d.pfx&pfx66 != 0:
			n = 2
		}
	}
	if i+n > len(b) {
		return -1
	}
	switch n {
	case 1:
		d.imm = int64(int8(b[i]))
	case 2:
		d.imm = int64(int16(binary.LittleEndian.Uint16(b[i:])))
	case 4:
		d.imm = int64(int32(binary.LittleEndian.Uint32(b[i:])))
	case 8:
		d.imm = int64(binary.LittleEndian.Uint64(b[i:]))
	}
	return i + n
}

// specialClass settles layout and class of the opcodes of which they depend on more: on the
// bits of ModRM that name no register, on prefixes, or on whether there is a memory operand. Of
// those without an entry, they are as the table of opcodes says.
var specialClass = [...]func(d *x86, layout uint8, class Class) (uint8, Class){
	grpALU: (*x86).classALU,
	grpF6:  (*x86).classF6,
	grpFE: func(d *x86, layout uint8, class Class) (uint8, Class) {
		return layout, class | badUnless(d.regBits() <= 1)
	},
	grpFF: (*x86).classFF,
	grpC7: (*x86).classC7,
	grp8F: func(d *x86, layout uint8, class Class) (uint8, Class) {
		return layout, class | badUnless(d.regBits() == 0)
	},
	grpAE:   func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.fence(d.regBits()) },
	grpBA:   (*x86).classBA,
	grp0FC7: func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.class0FC7() },
	x87:     func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.float(d.regBits()) },
	nop90:   func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.class90() },
	hint1E:  func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.class1E() },
	mov7E:   func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.loads(d.pfx&pfxF3 != 0) },
	grp0F78: (*x86).class0F78,
	movbeCRC: func(d *x86, layout uint8, _ Class) (uint8, Class) {
		return layout, d.loads(d.op&1 == 0 || d.pfx&pfxF2 != 0)
	},
	evexNarrow: (*x86).classNarrow,
	intN:       func(d *x86, layout uint8, _ Class) (uint8, Class) { return layout, d.classInt() },
	needMem:    func(d *x86, layout uint8, class Class) (uint8, Class) { return layout, class | badUnless(d.mem) },
}

// specialise settles layout and class where they depend on more than the opcode.
func (d *x86) specialise(f *x86Form, layout uint8, class Class) (uint8, Class) {
	if settle := specialClass[f.special]; settle != nil {
		return settle(d, layout, class)
	}
	return layout, class
}

// regBits returns the bits of ModRM that extend the opcode where they name no register.
func (d *x86) regBits() byte { return d.modrm >> 3 & 7 }

// ofMem returns c if there is a memory operand.
func (d *x86) ofMem(c Class) Class {
	if d.mem {
		return c
	}
	return 0
}

// loads returns the class of what loads from a memory operand, or else stores to it.
func (d *x86) loads(yes bool) Class {
	if yes {
		return d.ofMem(Load)
	}
	return d.ofMem(Store)
}

func badUnless(ok bool) Class {
	if ok {
		return 0
	}
	return Bad
}

func (d *x86) classALU(layout uint8, _ Class) (uint8, Class) {
	if d.regBits() == 7 {
		return layout, d.ofMem(Load) | Compare
	}
	return layout, d.ofMem(Load | Store)
}

func (d *x86) classF6(layout uint8, _ Class) (uint8, Class) {
	switch d.regBits() {
	case 0, 1:
		return layout, d.ofMem(Load) | Compare
	case 2, 3:
		return layout &^ immMask, d.ofMem(Load | Store)
	case 4, 5:
		return layout &^ immMask, d.ofMem(Load) | Mul
	}
	return layout &^ immMask, d.ofMem(Load) | Div
}

func (d *x86) classFF(layout uint8, _ Class) (uint8, Class) {
	load, both := d.ofMem(Load), d.ofMem(Load|Store)
	return layout, [8]Class{both, both, load | IndCall, d.far(IndCall), load | IndJump, d.far(IndJump), load | Push, Bad}[d.regBits()]
}

func (d *x86) classC7(layout uint8, class Class) (uint8, Class) {
	switch {
	case d.modrm == 0xf8 && d.op == 0xc7: // xbegin goes to its operand if the transaction aborts
		return hasModRM | immRelZ, CondJump | System
	case d.modrm == 0xf8:
		return layout, System
	}
	return layout, class | badUnless(d.regBits() == 0)
}

func (d *x86) classBA(layout uint8, _ Class) (uint8, Class) {
	switch reg := d.regBits(); {
	case reg < 4:
		return layout, Bad
	case reg == 4:
		return layout, d.ofMem(Load) | Compare
	}
	return layout, d.ofMem(Load | Store)
}

func (d *x86) class0FC7() Class {
	switch reg := d.regBits(); {
	case d.mem && reg == 1:
		return Load | Store
	case d.mem && (reg == 4 || reg == 5):
		return Store | System
	case d.mem:
		return Load | System
	}
	return System
}

func (d *x86) class90() Class {
	switch {
	case d.pfx&pfxF3 != 0:
		return System // pause
	case d.rex&1 != 0:
		return 0 // xchg %r8
	}
	return Nop
}

func (d *x86) class1E() Class {
	if d.pfx&pfxF3 != 0 && d.modrm >= 0xc0 && d.regBits() == 1 {
		return 0 // rdssp
	}
	return Nop
}

func (d *x86) class0F78(layout uint8, class Class) (uint8, Class) {
	if d.pfx&(pfx66|pfxF2) != 0 {
		return layout | immW, Float
	}
	return layout, class
}

func (d *x86) classNarrow(layout uint8, class Class) (uint8, Class) {
	if d.pfx&pfxF3 != 0 {
		return layout, d.ofMem(Store)
	}
	return layout, class
}

func (d *x86) classInt() Class {
	if d.imm == 3 {
		return Trap
	}
	return System
}

// far is the class of a far call or jump, which has only a memory form.
func (d *x86) far(c Class) Class {
	if !d.mem {
		return Bad
	}
	return c | Load | System
}

// fence classes 0F AE.
func (d *x86) fence(reg byte) Class {
	switch {
	case !d.mem && d.pfx&pfxF3 == 0 && reg >= 5:
		return Locked
	case !d.mem:
		return System
	case reg == 3 || reg == 0 || reg == 4:
		return Store | System
	case reg == 1 || reg == 2 || reg == 5:
		return Load | System
	}
	return System
}

// x87Stores has bit reg of each of D8 to DF set where the memory operand is written.
var x87Stores = [8]byte{0, 0b11001100, 0, 0b10001110, 0, 0b11001110, 0, 0b11001110}

// float classes the x87 opcodes.
func (d *x86) float(reg byte) Class {
	esc := byte(d.op) - 0xd8
	class := Float
	arith := esc == 0 || esc == 4 || esc == 6 || esc == 2 && d.mem
	if arith && reg >= 6 || d.op == 0xd9 && d.modrm == 0xfa {
		class |= Div
	}
	switch {
	case !d.mem:
	case x87Stores[esc]>>reg&1 != 0:
		class |= Store
	default:
		class |= Load
	}
	return class
}

// inst decodes the instruction at the start of b, which lies at a.
func (d *x86) inst(b []byte, a Addr) Inst {
	d.decode(b)
	if d.n == 0 {
		return Inst{Addr: a, Len: 1, Class: Bad}
	}
	in := Inst{Addr: a, Len: d.n, Class: d.class}
	if in.Class&(CondJump|Jump|DirCall) != 0 {
		in.Target = a + Addr(d.n) + Addr(d.imm)
	}
	return in
}
