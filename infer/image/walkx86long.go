package image

import "backfeed/sample/trace"

// A longForm is what walks in user space take an opcode for that those in the kernel do not emulate.
type longForm struct {
	kind  trace.Kind
	what  trace.X86What
	wide  trace.X86What // with W, if it is another
	elem  uint8         // size of elements, in bytes, or byW
	mem   uint8         // bytes of the memory operand, or as below
	shape longShape
}

// Sizes that depend on more than the opcode.
const (
	byW        = 0xff // of elements: 8 with W, else 4
	wholeBytes = 0    // of memory: the whole vector
	elemBytes  = 0xf1 // one element
	halfBytes  = 0xf2
	quarter    = 0xf4
	eighth     = 0xf8
	dupBytes   = 0xf3 // half of 16, or all
)

// A longShape is how operands are written, and which encodings there are.
type longShape uint16

const (
	unary     longShape = 1 << iota // the first source is not read
	toMemory                        // memory, or the register in its place, is the destination
	toGeneral                       // the field of the register names a general one
	toMask                          // or a mask register
	scalarOp                        // of one element: the vector has 16 bytes
	byImm                           // has an immediate
	onlyMem
	onlyReg
	legacy
	withVEX
	withEVEX
	anyVEX = withVEX | withEVEX
	all    = legacy | anyVEX
	sse    = legacy | withVEX
)

// Prefixes that are part of an opcode.
const (
	ppNone = iota
	pp66
	ppF3
	ppF2
)

// longForms are by map, opcode and prefix: those with memory or both kinds of operand, then those with registers
// alone that differ, and those that write mask registers.
var longForms, longRegs, longMasks [4][256][4]longForm

func init() {
	initLongIntegers()
	initLongFloats()
	initLongMoves()
	initLongMasks()
}

// pp returns which prefix is part of the opcode of d.
func (d *x86) pp() int {
	switch {
	case d.pfx&pfxF3 != 0:
		return ppF3
	case d.pfx&pfxF2 != 0:
		return ppF2
	case d.pfx&pfx66 != 0:
		return pp66
	}
	return ppNone
}

func initLongIntegers() {
	words := func(m int, elem uint8, shape longShape, what trace.X86What, opcodes ...int) {
		for i, op := range opcodes {
			longForms[m][op][pp66] = longForm{trace.X86Vwords, what + trace.X86What(i), 0, elem, wholeBytes, shape}
		}
	}
	words(1, 1, all, trace.X86AddB, 0xfc, 0xfd, 0xfe, 0xd4, 0xf8, 0xf9, 0xfa, 0xfb, 0xec, 0xed, 0xdc, 0xdd, 0xe8, 0xe9, 0xd8, 0xd9, 0xe0, 0xe3)
	words(1, 2, all, trace.X86MinSW, 0xea)
	words(1, 1, all, trace.X86MinUB, 0xda)
	words(1, 2, all, trace.X86MaxSW, 0xee)
	words(1, 1, all, trace.X86MaxUB, 0xde)
	words(1, 1, sse, trace.X86EqualB, 0x74, 0x75, 0x76)
	words(1, 1, sse, trace.X86MoreB, 0x64, 0x65, 0x66)
	words(1, 2, all, trace.X86MulLowW, 0xd5, 0xe5, 0xe4)
	words(1, 8, all, trace.X86MulUD, 0xf4)
	words(1, 4, all, trace.X86MulAddW, 0xf5)
	words(1, 8, all, trace.X86SumB, 0xf6)
	words(1, byW, all, trace.X86LaneAnd, 0xdb, 0xeb, 0xdf)
	words(1, byW, all, trace.X86LaneXor, 0xef)
	for _, op := range []int{0xfd, 0xf9, 0xed, 0xdd, 0xe9, 0xd9, 0xe3} {
		longForms[1][op][pp66].elem = 2
	}
	longForms[1][0xfe][pp66].elem, longForms[1][0xfa][pp66].elem = 4, 4
	longForms[1][0xd4][pp66].elem, longForms[1][0xfb][pp66].elem = 8, 8

	words(2, 1, all, trace.X86MinSB, 0x38)
	words(2, byW, all, trace.X86MinSD, 0x39)
	words(2, 2, all, trace.X86MinUW, 0x3a)
	words(2, byW, all, trace.X86MinUD, 0x3b)
	words(2, 1, all, trace.X86MaxSB, 0x3c)
	words(2, byW, all, trace.X86MaxSD, 0x3d)
	words(2, 2, all, trace.X86MaxUW, 0x3e)
	words(2, byW, all, trace.X86MaxUD, 0x3f)
	for op, wide := range map[int]trace.X86What{0x39: trace.X86MinSQ, 0x3b: trace.X86MinUQ, 0x3d: trace.X86MaxSQ, 0x3f: trace.X86MaxUQ} {
		longForms[2][op][pp66].wide = wide
	}
	words(2, 8, sse, trace.X86EqualQ, 0x29)
	words(2, 8, sse, trace.X86MoreQ, 0x37)
	words(2, 8, all, trace.X86MulSD, 0x28)
	words(2, byW, all, trace.X86MulLowD, 0x40)
	longForms[2][0x40][pp66].wide = trace.X86MulLowQ
	words(2, 2, all, trace.X86MulAddB, 0x04)
	words(2, 2, all, trace.X86MulRoundW, 0x0b)
	words(2, 1, sse, trace.X86SignB, 0x08, 0x09, 0x0a)
	words(2, 1, all|unary, trace.X86AbsB, 0x1c, 0x1d, 0x1e)
	longForms[2][0x1d][pp66].elem, longForms[2][0x1e][pp66].elem = 2, 4
	words(2, 8, withEVEX|unary, trace.X86AbsQ, 0x1f)
	for op, both := range map[int][2]trace.X86What{0x45: {trace.X86RightVD, trace.X86RightVQ}, 0x47: {trace.X86LeftVD, trace.X86LeftVQ}} {
		longForms[2][op][pp66] = longForm{trace.X86Vwords, both[0], both[1], byW, wholeBytes, anyVEX}
	}
	longForms[2][0x46][pp66] = longForm{trace.X86Vwords, trace.X86RightSVD, trace.X86Nothing, 4, wholeBytes, withVEX}
	longForms[3][0x25][pp66] = longForm{trace.X86Vwords, trace.X86Ternary, 0, byW, wholeBytes, withEVEX | byImm}

	for op, what := range map[int]trace.X86What{0xd1: trace.X86RightW, 0xd2: trace.X86RightD, 0xd3: trace.X86RightQ, 0xe1: trace.X86RightSW, 0xe2: trace.X86RightSD,
		0xf1: trace.X86LeftW, 0xf2: trace.X86LeftD, 0xf3: trace.X86LeftQ} {
		longForms[1][op][pp66] = longForm{trace.X86Vshifts, what, what, [3]uint8{2, 4, 8}[op&15-1], 16, all}
	}
	longForms[1][0xe2][pp66].elem, longForms[1][0xe2][pp66].wide = byW, trace.X86RightSQ

	lanes := func(m, op, pp int, what trace.X86What, elem uint8, shape longShape) {
		longForms[m][op][pp] = longForm{trace.X86Vlanes, what, what, elem, wholeBytes, shape}
	}
	for i, op := range []int{0x60, 0x61, 0x62, 0x6c} {
		lanes(1, op, pp66, trace.X86UnpackLow, 1<<i, all)
	}
	for i, op := range []int{0x68, 0x69, 0x6a, 0x6d} {
		lanes(1, op, pp66, trace.X86UnpackHigh, 1<<i, all)
	}
	lanes(1, 0x63, pp66, trace.X86PackSW, 1, all)
	lanes(1, 0x67, pp66, trace.X86PackUW, 1, all)
	lanes(1, 0x6b, pp66, trace.X86PackSD, 2, all)
	lanes(2, 0x2b, pp66, trace.X86PackUD, 2, all)
	lanes(2, 0x00, pp66, trace.X86ShuffleB, 1, all)
	lanes(1, 0x70, pp66, trace.X86ShuffleD, 4, all|unary|byImm)
	lanes(1, 0x70, ppF2, trace.X86ShuffleLW, 2, all|unary|byImm)
	lanes(1, 0x70, ppF3, trace.X86ShuffleHW, 2, all|unary|byImm)
	lanes(3, 0x0f, pp66, trace.X86Align, 1, all|byImm)
	lanes(3, 0x0e, pp66, trace.X86BlendW, 2, sse|byImm)
	lanes(3, 0x0c, pp66, trace.X86BlendD, 4, sse|byImm)
	lanes(3, 0x0d, pp66, trace.X86BlendQ, 8, sse|byImm)
	lanes(2, 0x01, pp66, trace.X86HAddW, 2, sse)
	lanes(2, 0x02, pp66, trace.X86HAddD, 4, sse)
	lanes(2, 0x05, pp66, trace.X86HSubW, 2, sse)
	lanes(2, 0x06, pp66, trace.X86HSubD, 4, sse)
	lanes(3, 0x44, pp66, trace.X86Multiply, 8, sse|byImm)
	for i, op := range []int{0xdc, 0xdd, 0xde, 0xdf} {
		lanes(2, op, pp66, trace.X86AESEnc+trace.X86What(i), 8, sse)
	}

	for i, op := range []int{0x20, 0x21, 0x22, 0x23, 0x24, 0x25} {
		mem := [6]uint8{halfBytes, quarter, eighth, halfBytes, quarter, halfBytes}[i]
		to := [6]uint8{2, 4, 8, 4, 8, 8}[i]
		longForms[2][op][pp66] = longForm{trace.X86Vwide, trace.X86ExtendBW + trace.X86What(i), trace.X86ExtendBW + trace.X86What(i), to, mem, all | unary}
		longForms[2][op+0x10][pp66] = longForm{trace.X86Vwide, trace.X86ZeroBW + trace.X86What(i), trace.X86ZeroBW + trace.X86What(i), to, mem, all | unary}
	}
	wide := func(m, op int, what trace.X86What, elem, mem uint8, shape longShape) {
		longForms[m][op][pp66] = longForm{trace.X86Vwide, what, what, elem, mem, shape}
	}
	wide(3, 0x00, trace.X86PermuteQ, 8, wholeBytes, withVEX|unary|byImm)
	wide(3, 0x01, trace.X86PermuteQ, 8, wholeBytes, withVEX|unary|byImm)
	wide(3, 0x06, trace.X86Permute2, 8, wholeBytes, withVEX|byImm)
	wide(3, 0x46, trace.X86Permute2, 8, wholeBytes, withVEX|byImm)
	wide(2, 0x16, trace.X86PermuteD, 4, wholeBytes, withVEX)
	wide(2, 0x36, trace.X86PermuteD, 4, wholeBytes, withVEX)
	wide(2, 0x78, trace.X86SpreadAll, 1, elemBytes, withEVEX|unary)
	wide(2, 0x79, trace.X86SpreadAll, 2, elemBytes, withEVEX|unary)
	wide(2, 0x58, trace.X86SpreadAll, 4, elemBytes, withEVEX|unary)
	wide(2, 0x59, trace.X86SpreadAll, 8, elemBytes, withEVEX|unary)
	wide(2, 0x18, trace.X86SpreadAll, 4, elemBytes, anyVEX|unary)
	wide(2, 0x19, trace.X86SpreadAll, 8, elemBytes, anyVEX|unary)
	wide(2, 0x1a, trace.X86SpreadAll, 8, 16, withVEX|unary|onlyMem)
	wide(2, 0x5a, trace.X86SpreadAll, 8, 16, withVEX|unary|onlyMem)
	for _, op := range []int{0x18, 0x38} {
		wide(3, op, trace.X86InsertLane, 8, 16, withVEX|byImm)
		wide(3, op+1, trace.X86ExtractLane, 8, 16, withVEX|byImm|unary|toMemory)
	}
}

func initLongFloats() {
	for i, op := range []int{0x58, 0x5c, 0x59, 0x5e, 0x5d, 0x5f} {
		what := trace.X86FAdd + trace.X86What(i)
		longForms[1][op][ppNone] = longForm{trace.X86Vwords, what, what, 4, wholeBytes, all}
		longForms[1][op][pp66] = longForm{trace.X86Vwords, what, what, 8, wholeBytes, all}
		longForms[1][op][ppF3] = longForm{trace.X86Vscalar, what, what, 4, elemBytes, all | scalarOp}
		longForms[1][op][ppF2] = longForm{trace.X86Vscalar, what, what, 8, elemBytes, all | scalarOp}
	}
	both := func(m, op, pp int, kind trace.Kind, what trace.X86What, elem, mem uint8, shape longShape) {
		longForms[m][op][pp] = longForm{kind, what, what, elem, mem, shape}
	}
	both(1, 0x51, ppNone, trace.X86Vwords, trace.X86FSqrt, 4, wholeBytes, all|unary)
	both(1, 0x51, pp66, trace.X86Vwords, trace.X86FSqrt, 8, wholeBytes, all|unary)
	both(1, 0x51, ppF3, trace.X86Vscalar, trace.X86FSqrt, 4, elemBytes, all|unary|scalarOp)
	both(1, 0x51, ppF2, trace.X86Vscalar, trace.X86FSqrt, 8, elemBytes, all|unary|scalarOp)
	both(1, 0xc2, ppNone, trace.X86Vwords, trace.X86FCompare, 4, wholeBytes, sse|byImm)
	both(1, 0xc2, pp66, trace.X86Vwords, trace.X86FCompare, 8, wholeBytes, sse|byImm)
	both(1, 0xc2, ppF3, trace.X86Vscalar, trace.X86FCompare, 4, elemBytes, sse|byImm|scalarOp)
	both(1, 0xc2, ppF2, trace.X86Vscalar, trace.X86FCompare, 8, elemBytes, sse|byImm|scalarOp)
	both(3, 0x08, pp66, trace.X86Vwords, trace.X86FRound, 4, wholeBytes, sse|byImm|unary)
	both(3, 0x09, pp66, trace.X86Vwords, trace.X86FRound, 8, wholeBytes, sse|byImm|unary)
	both(3, 0x0a, pp66, trace.X86Vscalar, trace.X86FRound, 4, elemBytes, sse|byImm|unary|scalarOp)
	both(3, 0x0b, pp66, trace.X86Vscalar, trace.X86FRound, 8, elemBytes, sse|byImm|unary|scalarOp)
	both(1, 0x5b, ppNone, trace.X86Vwords, trace.X86FFromInt, 4, wholeBytes, sse|unary)
	both(1, 0x5b, pp66, trace.X86Vwords, trace.X86FToInt, 4, wholeBytes, all|unary)
	both(1, 0x5b, ppF3, trace.X86Vwords, trace.X86FToIntCut, 4, wholeBytes, all|unary)
	both(1, 0x5a, ppF3, trace.X86Vscalar, trace.X86FToOther, 8, 4, all|unary|scalarOp)
	both(1, 0x5a, ppF2, trace.X86Vscalar, trace.X86FToOther, 4, 8, all|scalarOp)
	both(1, 0x5a, ppNone, trace.X86Vwide, trace.X86FloatToDouble, 8, halfBytes, all|unary)
	both(1, 0x5a, pp66, trace.X86Vwide, trace.X86DoubleToFloat, 8, wholeBytes, sse|unary)
	both(1, 0xe6, ppF3, trace.X86Vwide, trace.X86IntToDouble, 8, halfBytes, sse|unary)
	both(1, 0xe6, ppF2, trace.X86Vwide, trace.X86DoubleToInt, 8, wholeBytes, sse|unary)
	both(1, 0xe6, pp66, trace.X86Vwide, trace.X86DoubleToIntCut, 8, wholeBytes, sse|unary)
	for i, op := range []int{0x54, 0x55, 0x56, 0x57} {
		what := [4]trace.X86What{trace.X86LaneAnd, trace.X86LaneAndn, trace.X86LaneOr, trace.X86LaneXor}[i]
		both(1, op, ppNone, trace.X86Vwords, what, 4, wholeBytes, all)
		both(1, op, pp66, trace.X86Vwords, what, 8, wholeBytes, all)
	}
	for _, op := range []int{0x2e, 0x2f} {
		both(1, op, ppNone, trace.X86Vcompare, 0, 4, elemBytes, all|scalarOp)
		both(1, op, pp66, trace.X86Vcompare, 0, 8, elemBytes, all|scalarOp)
	}
	for i, pp := range []int{ppNone, pp66} {
		elem := uint8(4 << i)
		both(1, 0x14, pp, trace.X86Vlanes, trace.X86UnpackLow, elem, wholeBytes, all)
		both(1, 0x15, pp, trace.X86Vlanes, trace.X86UnpackHigh, elem, wholeBytes, all)
		both(1, 0xc6, pp, trace.X86Vlanes, trace.X86ShuffleF, elem, wholeBytes, all|byImm)
		both(3, 0x04+i, pp66, trace.X86Vlanes, trace.X86PermuteF, elem, wholeBytes, withVEX|byImm|unary)
		both(2, 0x0c+i, pp66, trace.X86Vlanes, trace.X86PermuteFV, elem, wholeBytes, withVEX)
		both(1, 0x50, pp, trace.X86Vsigns, 0, elem, wholeBytes, sse|toGeneral|onlyReg|unary)
	}
	both(1, 0x7c, pp66, trace.X86Vlanes, trace.X86HAddF, 8, wholeBytes, sse)
	both(1, 0x7c, ppF2, trace.X86Vlanes, trace.X86HAddF, 4, wholeBytes, sse)
	both(1, 0x7d, pp66, trace.X86Vlanes, trace.X86HSubF, 8, wholeBytes, sse)
	both(1, 0x7d, ppF2, trace.X86Vlanes, trace.X86HSubF, 4, wholeBytes, sse)
	both(1, 0x12, ppF2, trace.X86Vlanes, trace.X86DupLow, 8, dupBytes, sse|unary)
	both(1, 0x12, ppF3, trace.X86Vlanes, trace.X86DupLow, 4, wholeBytes, sse|unary)
	both(1, 0x16, ppF3, trace.X86Vlanes, trace.X86DupHigh, 4, wholeBytes, sse|unary)
}

func initLongMoves() {
	load := func(m, op, pp int, elem, mem uint8, shape longShape) {
		longForms[m][op][pp] = longForm{trace.X86Vmove, 0, 0, elem, mem, shape | unary}
	}
	for i, pp := range []int{ppNone, pp66} {
		for _, op := range []int{0x10, 0x28} {
			load(1, op, pp, 4<<i, wholeBytes, withEVEX)
			load(1, op+1, pp, 4<<i, wholeBytes, withEVEX|toMemory)
		}
		load(1, 0x2b, pp, 4<<i, wholeBytes, withEVEX|toMemory|onlyMem)
	}
	for _, pp := range []int{pp66, ppF3, ppF2} {
		elem := uint8(byW)
		if pp == ppF2 {
			elem = 1 // or 2
		}
		load(1, 0x6f, pp, elem, wholeBytes, withEVEX)
		load(1, 0x7f, pp, elem, wholeBytes, withEVEX|toMemory)
	}
	load(1, 0xe7, pp66, 4, wholeBytes, withEVEX|toMemory|onlyMem)
	load(2, 0x2a, pp66, 4, wholeBytes, all|onlyMem)
	load(1, 0xf0, ppF2, 4, wholeBytes, sse|onlyMem)
	for i, pp := range []int{ppF3, ppF2} { // vmovss, vmovsd of registers
		longRegs[1][0x10][pp] = longForm{trace.X86Vmerge, 0, 0, 4 << i, elemBytes, withVEX | scalarOp}
		longRegs[1][0x11][pp] = longForm{trace.X86Vmerge, 0, 0, 4 << i, elemBytes, withVEX | scalarOp | toMemory}
	}
	for _, pp := range []int{ppNone, pp66} { // halves; what says which
		longForms[1][0x12][pp] = longForm{trace.X86Vhalf, 0, 0, 8, 8, withVEX | onlyMem}
		longForms[1][0x16][pp] = longForm{trace.X86Vhalf, 1, 1, 8, 8, withVEX | onlyMem}
	}
	longRegs[1][0x12][ppNone] = longForm{trace.X86Vhalf, 2, 2, 8, 8, sse}
	longRegs[1][0x16][ppNone] = longForm{trace.X86Vhalf, 1, 1, 8, 8, withVEX}
	for i, op := range []int{0x10, 0x14, 0x15} { // pblendvb, blendvps, blendvpd
		elem := [3]uint8{1, 4, 8}[i]
		longForms[2][op][pp66] = longForm{trace.X86Vblend, 0, 0, elem, wholeBytes, legacy}
		longForms[3][[3]int{0x4c, 0x4a, 0x4b}[i]][pp66] = longForm{trace.X86Vblend, 0, 0, elem, wholeBytes, withVEX | byImm}
	}
}

func initLongMasks() {
	masks := func(m, op, pp int, what trace.X86What, elem uint8, shape longShape) {
		longMasks[m][op][pp] = longForm{trace.X86Vtomask, what, what, elem, wholeBytes, shape | withEVEX | toMask}
	}
	for i := range 3 {
		masks(1, 0x74+i, pp66, trace.X86IsLess, 1<<i, 0)
		masks(1, 0x64+i, pp66, trace.X86IsLess, 1<<i, 0)
	}
	masks(2, 0x29, pp66, trace.X86IsLess, 8, 0)
	masks(2, 0x37, pp66, trace.X86IsLess, 8, 0)
	masks(3, 0x3f, pp66, trace.X86IsLess, 1, byImm)
	masks(3, 0x3e, pp66, trace.X86IsLessU, 1, byImm)
	masks(3, 0x1f, pp66, trace.X86IsLess, byW, byImm)
	masks(3, 0x1e, pp66, trace.X86IsLessU, byW, byImm)
	masks(2, 0x26, pp66, trace.X86TestAny, 1, 0)
	masks(2, 0x27, pp66, trace.X86TestAny, byW, 0)
	masks(2, 0x26, ppF3, trace.X86TestNone, 1, 0)
	masks(2, 0x27, ppF3, trace.X86TestNone, byW, 0)
}

// walkLong is for what walks in user space alone emulate; false: nobody does. o has nothing but the address of
// the memory operand.
func (d *x86) walkLong(o x86Op, code []byte, in Inst) (trace.Op, bool) {
	if d.pfx&(pfx67|pfxREX2) != 0 || in.Class&Bad != 0 || d.n == 0 {
		return trace.Op{}, false
	}
	o = x86Op{trace.Op{Dst: trace.X86None, Src: trace.X86None, Base: o.Base, Index: o.Index, Scale: o.Scale, Disp: o.Disp, Flags: o.Flags & trace.X86FS}}
	if d.mem {
		o.Flags |= trace.X86HasMem
	}
	if d.longGeneral(&o, code) || d.longVector(&o, code) {
		return o.Op, true
	}
	return trace.Op{}, false
}

// vectorLength returns how many bytes the vectors of d have, and which encoding it is; 0 is none that is known.
func (d *x86) vectorLength(code []byte) (bytes uint8, encoding longShape) {
	code = afterPrefixes(code)
	switch {
	case !d.vex:
		return 16, legacy
	case len(code) > 2 && code[0] == 0xc5:
		return 16 << (code[1] >> 2 & 1), withVEX
	case len(code) > 3 && code[0] == 0xc4:
		return 16 << (code[2] >> 2 & 1), withVEX
	case len(code) > 4 && code[0] == 0x62 && code[1]&8 == 0 && code[2]&4 != 0:
		if l := code[3] >> 5 & 3; l < 3 {
			return 16 << l, withEVEX
		}
	}
	return 0, 0
}

// longVector is for what longForms has.
func (d *x86) longVector(o *x86Op, code []byte) bool {
	m := int(d.op >> 8)
	bytes, encoding := d.vectorLength(code)
	if bytes == 0 || m < 1 || m > 3 {
		return false
	}
	v := vexFields(code)
	if encoding == legacy {
		v = vexPrefix{reg2: int(d.regField())}
	}
	det := trace.X86Detail{VEX: encoding != legacy}
	if d.longOther(o, code, bytes, encoding, v, det) {
		return true
	}
	f := &longForms[m][d.op&0xff][d.pp()]
	if r := &longRegs[m][d.op&0xff][d.pp()]; !d.mem && r.kind != 0 {
		f = r
	}
	if k := &longMasks[m][d.op&0xff][d.pp()]; encoding == withEVEX && k.kind != 0 {
		f = k
	}
	if f.kind == 0 || f.shape&encoding == 0 || f.shape&onlyMem != 0 && !d.mem || f.shape&onlyReg != 0 && d.mem {
		return false
	}
	reg, rm := uint8(int(d.regField())|v.regHigh), uint8(int(d.rmField())|v.rmHigh)
	det.What, det.Elem = f.what, f.elem
	switch {
	case f.elem == byW && d.rex&8 != 0:
		if det.Elem = 8; f.wide != 0 {
			det.What = f.wide
		}
	case f.elem == byW:
		det.Elem = 4
	case encoding == withEVEX && d.rex&8 != 0 && (f.elem == 1 && (f.kind == trace.X86Vtomask && m > 1 || d.pp() == ppF2)):
		det.Elem = 2
	}
	if variable := d.op == map38|0x45 || d.op == map38|0x47; encoding != withEVEX && f.elem == byW && !variable {
		det.What, det.Elem = f.what, 4 // W is of EVEX alone
	}
	if f.shape&byImm != 0 {
		if det.Imm = uint8(d.imm); det.What == trace.X86FCompare && encoding == legacy {
			det.Imm &= 7
		}
	}
	det.Unary = f.shape&unary != 0
	o.Kind, o.Size, o.Dst, o.Src, o.Cond = f.kind, bytes, reg, rm, uint8(v.reg2)
	if f.shape&scalarOp != 0 {
		o.Size = det.Elem
	}
	if f.shape&toMemory != 0 {
		o.Dst, o.Src = rm, reg
	}
	o.Ext = longMemory(f.mem, bytes, det.Elem)
	if encoding == withEVEX && !d.evexDetail(code, v, &det, o) {
		return false
	}
	return d.longFinish(o, f, &det, bytes)
}

// longMemory returns how many bytes of memory an instruction reads.
func longMemory(mem, bytes, elem uint8) uint8 {
	switch mem {
	case wholeBytes:
		return bytes
	case elemBytes:
		return elem
	case halfBytes:
		return bytes / 2
	case quarter:
		return bytes / 4
	case eighth:
		return bytes / 8
	case dupBytes:
		if bytes == 16 {
			return 8
		}
		return bytes
	}
	return mem
}

// evexDetail reads what EVEX has beside VEX. Rounding that an instruction asks for is not emulated.
func (d *x86) evexDetail(code []byte, v vexPrefix, det *trace.X86Detail, o *x86Op) bool {
	code = afterPrefixes(code)
	det.Mask, det.Zero = uint8(v.mask), !v.merge
	if code[3]&0x10 != 0 {
		if det.Broadcast = true; !d.mem || det.Elem < 4 {
			return false
		}
		o.Ext = det.Elem
	}
	if d.mem && d.modrm>>6 == 1 {
		o.Disp = int32(d.disp) * int32(o.Ext)
	}
	if (d.op == map38|0x19 || d.op == map38|0x59) && d.rex&8 == 0 && det.Mask != 0 { // of two elements
		return false
	}
	switch o.Kind {
	case trace.X86Vwords, trace.X86Vlanes, trace.X86Vwide, trace.X86Vmove, trace.X86Vtomask, trace.X86Vshifts:
		return true
	case trace.X86Vcompare:
		return det.Mask == 0
	}
	return det.Mask == 0 && !det.Zero
}

// longFinish settles what depends on the kind.
func (d *x86) longFinish(o *x86Op, f *longForm, det *trace.X86Detail, bytes uint8) bool {
	switch f.kind {
	case trace.X86Vmove:
		if f.shape&toMemory != 0 && d.mem {
			o.Kind, o.Dst, o.Flags = trace.X86Vput, trace.X86Mem, o.Flags|trace.X86WritesDst
		}
	case trace.X86Vsigns:
		o.Flags |= trace.X86WritesDst
	case trace.X86Vhalf:
		det.Imm, det.What = uint8(f.what), 0
	case trace.X86Vblend:
		if det.Imm >>= 4; !det.VEX {
			det.Imm = 0
		}
	case trace.X86Vtomask:
		o.Dst &= 7
		switch {
		case d.op>>8 == 1 && d.op&0xf0 == 0x60 || d.op == map38|0x37: // greater
			det.Imm = 6
		case f.shape&byImm == 0:
			det.Imm = 0
		}
		det.Imm &= 7
	case trace.X86Vwide:
		switch det.What {
		case trace.X86SpreadAll:
			det.Imm = o.Ext // what is repeated
			if det.Elem < 8 {
				det.Imm = 8
			}
		case trace.X86InsertLane:
			det.Imm = 2 | det.Imm&1<<5
		case trace.X86ExtractLane:
			if det.Imm, o.Size = det.Imm&1<<5, 16; d.mem {
				o.Dst, o.Flags = trace.X86Mem, o.Flags|trace.X86WritesDst
			}
		case trace.X86DoubleToFloat, trace.X86DoubleToInt, trace.X86DoubleToIntCut:
			o.Size = bytes / 2
		}
		if (det.What == trace.X86PermuteD || det.What == trace.X86PermuteQ || det.What == trace.X86Permute2) && bytes != 32 {
			return false
		}
	case trace.X86Vwords:
		if det.What == trace.X86Nothing {
			return false
		}
	}
	o.Imm = det.Pack()
	return true
}

// longOther is for vector instructions that are written otherwise.
func (d *x86) longOther(o *x86Op, code []byte, bytes uint8, encoding longShape, v vexPrefix, det trace.X86Detail) bool {
	reg, rm := uint8(d.regField()), uint8(d.rmField())
	long := d.rex&8 != 0
	word := uint8(4)
	if long {
		word = 8
	}
	pp := d.pp()
	first := uint8(v.reg2)
	is := func(k trace.Kind, dst, src, cond, size, ext uint8) bool {
		o.Kind, o.Dst, o.Src, o.Cond, o.Size, o.Ext, o.Imm = k, dst, src, cond, size, ext, det.Pack()
		return true
	}
	toGeneralOrMem := func(k trace.Kind, size uint8) bool {
		o.Flags |= trace.X86WritesDst
		dst := rm
		if d.mem {
			dst = trace.X86Mem
		}
		return is(k, dst, reg, 0, size, size)
	}
	switch {
	case encoding == withEVEX:
		return d.longEVEX(o, v, bytes, pp, det)
	case d.op == map0F|0x2a && (pp == ppF3 || pp == ppF2):
		return is(trace.X86Vfloat, reg, rm, first, uint8(4<<(pp-ppF3)), word)
	case (d.op == map0F|0x2c || d.op == map0F|0x2d) && (pp == ppF3 || pp == ppF2):
		if det.What = trace.X86FToInt; d.op == map0F|0x2c {
			det.What = trace.X86FToIntCut
		}
		o.Flags |= trace.X86WritesDst
		size := uint8(4 << (pp - ppF3))
		return is(trace.X86Vinteger, reg, rm, word, size, size)
	case d.op == map0F|0x71 || d.op == map0F|0x72 || d.op == map0F|0x73:
		return pp == pp66 && !d.mem && d.longShiftImm(o, bytes, encoding, v, rm, rm, det)
	case d.op == map3A|0x20 && pp == pp66:
		det.Imm = uint8(d.imm) & 15
		return is(trace.X86Vinsert, reg, rm, first, 16, 1)
	case d.op == map0F|0xc4 && pp == pp66:
		det.Imm = uint8(d.imm) & 7
		return is(trace.X86Vinsert, reg, rm, first, 16, 2)
	case d.op == map3A|0x22 && pp == pp66:
		det.Imm = uint8(d.imm) & (16/word - 1)
		return is(trace.X86Vinsert, reg, rm, first, 16, word)
	case d.op == map3A|0x21 && pp == pp66: // insertps
		det.What, det.Elem, det.Imm = trace.X86InsertF, 4, uint8(d.imm)
		if d.mem {
			det.Imm &= 0x3f
		}
		return is(trace.X86Vlanes, reg, rm, first, 16, 4)
	case d.op == map3A|0x14 && pp == pp66:
		det.Imm = uint8(d.imm) & 15
		return toGeneralOrMem(trace.X86Vextract, 1)
	case d.op == map3A|0x15 && pp == pp66:
		det.Imm = uint8(d.imm) & 7
		return toGeneralOrMem(trace.X86Vextract, 2)
	case d.op == map3A|0x16 && pp == pp66:
		det.Imm = uint8(d.imm) & (16/word - 1)
		return toGeneralOrMem(trace.X86Vextract, word)
	case d.op == map3A|0x17 && pp == pp66:
		det.Imm = uint8(d.imm) & 3
		return toGeneralOrMem(trace.X86Vextract, 4)
	case d.op == map0F|0xc5 && pp == pp66 && !d.mem:
		det.Imm = uint8(d.imm) & 7
		o.Flags |= trace.X86WritesDst
		return is(trace.X86Vextract, reg, rm, 0, 2, 2)
	case encoding == withVEX && d.op>>8 == 2 && d.fused() && pp == pp66:
		return d.longFused(o, reg, rm, first, bytes, det)
	case encoding == withVEX && d.op>>8 == 1 && (d.op&0xff >= 0x41 && d.op&0xff <= 0x4b || d.op&0xff >= 0x90 && d.op&0xff <= 0x99) ||
		encoding == withVEX && d.op >= map3A|0x30 && d.op <= map3A|0x33:
		return d.longMask(o, code, reg, rm, first, pp, det)
	}
	return false
}

// longFused is for fused multiply-add.
func (d *x86) longFused(o *x86Op, reg, rm, first, bytes uint8, det trace.X86Detail) bool {
	op := d.op & 0xff
	det.Elem = 4
	if d.rex&8 != 0 {
		det.Elem = 8
	}
	det.Imm = uint8(op>>4) - 9 // 132, 213, 231
	scalar := false
	switch op & 15 {
	case 6: // fmaddsub: even ones are subtracted
		det.Imm |= 1 << 2
	case 7:
		det.Imm |= 2 << 2
	default:
		which := (op & 15) - 8
		scalar = which&1 != 0
		det.Imm |= uint8(which>>2&1) << 4 // fnm
		det.Imm |= uint8(which>>1&1) << 5 // sub
	}
	o.Size, o.Ext = bytes, bytes
	if scalar {
		det.Imm |= 1 << 6
		o.Size, o.Ext = det.Elem, det.Elem
	}
	o.Kind, o.Dst, o.Src, o.Cond, o.Imm = trace.X86Vfused, reg, rm, first, det.Pack()
	return true
}

// longShiftImm is for shifts by a constant: of dst and src, VEX has the first in its prefix.
func (d *x86) longShiftImm(o *x86Op, bytes uint8, encoding longShape, v vexPrefix, dst, src uint8, det trace.X86Detail) bool {
	if encoding != legacy {
		dst = uint8(v.reg2)
	}
	size := int(d.op&0xff) - 0x71
	rows := [8][3]trace.X86What{2: {trace.X86RightW, trace.X86RightD, trace.X86RightQ}, 4: {trace.X86RightSW, trace.X86RightSD}, 6: {trace.X86LeftW, trace.X86LeftD, trace.X86LeftQ}}
	det.What, det.Imm, det.Unary = rows[d.regBits()][size], uint8(d.imm), true
	det.Elem = 2 << size
	o.Kind, o.Dst, o.Cond, o.Src, o.Size = trace.X86Vshifts, dst, src, src, bytes
	if d.op&0xff == 0x73 && (d.regBits() == 3 || d.regBits() == 7) {
		o.Kind, det.What = trace.X86Vlanes, trace.X86BytesRight
		if d.regBits() == 7 {
			det.What = trace.X86BytesLeft
		}
	}
	if d.op&0xff == 0x72 && d.regBits() == 4 && encoding == withEVEX && d.rex&8 != 0 {
		det.What, det.Elem = trace.X86RightSQ, 8
	}
	o.Imm = det.Pack()
	return det.What != trace.X86Nothing
}

// longEVEX is for what EVEX alone has.
func (d *x86) longEVEX(o *x86Op, v vexPrefix, bytes uint8, pp int, det trace.X86Detail) bool {
	reg, rm := uint8(int(d.regField())|v.regHigh), uint8(d.rmField())
	det.Mask, det.Zero = uint8(v.mask), !v.merge
	switch {
	case d.op >= map38|0x7a && d.op <= map38|0x7c && pp == pp66 && !d.mem:
		if det.Elem = uint8(1 << (d.op - (map38 | 0x7a))); det.Elem == 4 && d.rex&8 != 0 {
			det.Elem = 8
		}
		o.Kind, o.Dst, o.Src, o.Size, o.Imm = trace.X86Vrepeat, reg, rm, bytes, det.Pack()
		return true
	case (d.op == map0F|0x7e || d.op == map0F|0xd6) && pp == pp66 && v.mask == 0:
		size := uint8(4)
		if d.op == map0F|0xd6 || d.rex&8 != 0 {
			size = 8
		}
		if !d.mem {
			if d.op == map0F|0xd6 {
				return false
			}
			o.Kind, o.Dst = trace.X86Vextract, rm
		} else if o.Kind, o.Dst = trace.X86Vput, trace.X86Mem; d.modrm>>6 == 1 {
			o.Disp = int32(d.disp) * int32(size)
		}
		o.Src, o.Size, o.Ext, o.Imm, o.Flags = reg, size, size, det.Pack(), o.Flags|trace.X86WritesDst
		return true
	case d.op == map0F|0x7e && pp == ppF3 && v.mask == 0:
		if d.mem && d.modrm>>6 == 1 {
			o.Disp = int32(d.disp) * 8
		}
		o.Kind, o.Dst, o.Src, o.Size, o.Ext, o.Imm = trace.X86Vmove, reg, uint8(int(rm)|v.rmHigh), 8, 8, det.Pack()
		return true
	}
	return false
}

// longMask is for instructions on mask registers.
func (d *x86) longMask(o *x86Op, code []byte, reg, rm, first uint8, pp int, det trace.X86Detail) bool {
	code = afterPrefixes(code)
	l := code[0] == 0xc5 && code[1]&4 != 0 || code[0] == 0xc4 && code[2]&4 != 0
	w := d.rex&8 != 0
	size := uint8(2) // by 66 and W: w, b, q, d
	switch {
	case w && pp == ppNone:
		size = 8
	case w && pp == pp66:
		size = 4
	case pp == pp66:
		size = 1
	}
	is := func(k trace.Kind, dst, src, cond uint8) bool {
		o.Kind, o.Dst, o.Src, o.Cond, o.Size, o.Ext, o.Imm = k, dst, src, cond, size, size, det.Pack()
		return true
	}
	whats := map[uint16]trace.X86What{0x41: trace.X86MaskAnd, 0x42: trace.X86MaskAndn, 0x45: trace.X86MaskOr, 0x46: trace.X86MaskXnor, 0x47: trace.X86MaskXor, 0x4a: trace.X86MaskAdd}
	op := d.op & 0xff
	switch {
	case d.op>>8 == 3:
		// kshiftrw has W, kshiftrb has none; of 32 and 3 bytes likewise
		if det.What = trace.X86MaskRight; op >= 0x32 {
			det.What = trace.X86MaskLeft
		}
		size = [4]uint8{1, 2, 4, 8}[byte(op&1)<<1|d.rex>>3&1]
		det.Imm = uint8(d.imm)
		return pp == pp66 && !d.mem && is(trace.X86Mask, reg&7, rm&7, 0)
	case whats[op] != 0 && !d.mem && l:
		det.What = whats[op]
		return is(trace.X86Mask, reg&7, rm&7, first&7)
	case op == 0x44 && !d.mem && !l:
		det.What = trace.X86MaskNot
		return is(trace.X86Mask, reg&7, rm&7, 0)
	case op == 0x4b && !d.mem && l:
		if size = 2; pp == ppNone { // of bytes with 66, else of 2 bytes, with W of 4
			if size = 4; w {
				size = 8
			}
		}
		det.What = trace.X86MaskUnpack
		return is(trace.X86Mask, reg&7, rm&7, first&7)
	case op == 0x90 && !l:
		if d.mem {
			return is(trace.X86MaskFrom, reg&7, 0, 0)
		}
		det.What = trace.X86MaskCopy
		return is(trace.X86Mask, reg&7, rm&7, 0)
	case op == 0x91 && d.mem && !l:
		o.Flags |= trace.X86WritesDst
		return is(trace.X86MaskPut, trace.X86Mem, reg&7, 0)
	case (op == 0x92 || op == 0x93) && !d.mem && !l:
		switch pp {
		case ppF2:
			if size = 4; w {
				size = 8
			}
		case pp66:
			size = 1
		default:
			size = 2
		}
		if op == 0x92 {
			return is(trace.X86MaskFrom, reg&7, rm, 0)
		}
		o.Flags |= trace.X86WritesDst
		return is(trace.X86MaskTo, reg, rm&7, 0)
	case (op == 0x98 || op == 0x99) && !d.mem && !l:
		det.Imm = uint8(op & 1)
		return is(trace.X86MaskTest, reg&7, rm&7, 0)
	}
	return false
}

// longGeneral is for instructions on general registers.
func (d *x86) longGeneral(o *x86Op, code []byte) bool {
	if d.vex {
		return d.longBMI(o, code)
	}
	pp := d.pp()
	is := func(k trace.Kind, dst, src, size uint8, det trace.X86Detail) bool {
		o.Kind, o.Dst, o.Src, o.Size, o.Ext, o.Imm = k, dst, src, size, size, det.Pack()
		return true
	}
	rm := uint8(d.rmField())
	if d.mem {
		rm = trace.X86Mem
	}
	unknown := func(w int64) bool {
		o.Kind, o.Imm, o.Flags = trace.X86Unknown, w, 0
		return true
	}
	switch op := d.op; {
	case op >= 0xa4 && op <= 0xa7 || op >= 0xaa && op <= 0xaf:
		return d.longString(o)
	case op == 0xf5 || op == 0xf8 || op == 0xf9:
		return is(trace.X86Carry, trace.X86None, trace.X86None, 1, trace.X86Detail{Imm: map[uint16]uint8{0xf5: 2, 0xf8: 0, 0xf9: 1}[op]})
	case op == 0xfc || op == 0xfd:
		return is(trace.X86Direction, trace.X86None, trace.X86None, 1, trace.X86Detail{Imm: uint8(op & 1)})
	case op == 0xf6 && d.regBits() >= 4 && (d.mem || !d.high(d.rmField())):
		kind := trace.X86MulByte
		if d.regBits() >= 6 {
			kind = trace.X86DivByte
		}
		o.Cond = d.regBits() & 1
		return is(kind, trace.X86None, rm, 1, trace.X86Detail{})
	case op == map0F|0xa2: // cpuid
		return unknown(1<<rax | 1<<rbx | 1<<rcx | 1<<rdx)
	case op == map0F|0x31: // rdtsc
		return unknown(1<<rax | 1<<rdx)
	case op == map0F|0x01 && d.modrm == 0xf9: // rdtscp
		return unknown(1<<rax | 1<<rdx | 1<<rcx)
	case op == map0F|0x01 && d.modrm == 0xd0: // xgetbv
		return unknown(1<<rax | 1<<rdx)
	case op == map0F|0xc7 && !d.mem && d.regBits() >= 6: // rdrand, rdseed, rdpid
		return unknown(1<<d.rmField() | 1<<16)
	case op == map0F|0xc7 && d.mem && d.regBits() == 1 && pp&^ppF3 != pp66:
		o.Flags |= trace.X86WritesDst
		size := uint8(4)
		if d.rex&8 != 0 {
			size = 8
		}
		return is(trace.X86CmpxchgTwo, trace.X86Mem, trace.X86None, size, trace.X86Detail{})
	case op == map0F|0xae && d.mem && (d.regBits() == 2 || d.regBits() == 3) && pp == ppNone:
		o.Cond = d.regBits()
		return is(trace.X86Mxcsr, trace.X86None, trace.X86None, 4, trace.X86Detail{})
	case op == 0xd9 && d.mem && (d.regBits() == 5 || d.regBits() == 7):
		if o.Cond = d.regBits(); o.Cond == 7 {
			o.Flags |= trace.X86WritesDst
			return is(trace.X86Fcw, trace.X86Mem, trace.X86None, 2, trace.X86Detail{})
		}
		return is(trace.X86Fcw, trace.X86None, trace.X86None, 2, trace.X86Detail{})
	case op == map0F|0xb0 && !d.mem && (d.high(d.rmField()) || d.high(d.regField())):
		return false
	case (op == map0F|0xb0 || op == map0F|0xb1) && !d.mem:
		o.Flags |= trace.X86WritesDst
		return is(trace.X86CmpxchgReg, rm, uint8(d.regField()), d.opSize(), trace.X86Detail{})
	case d.mem && (op == map0F|0xa3 || op == map0F|0xab || op == map0F|0xb3 || op == map0F|0xbb):
		return is(trace.X86BitMem, trace.X86None, uint8(d.regField()), d.wordSize(), trace.X86Detail{Imm: uint8(op >> 3 & 3)})
	case op == map38|0xf6 && (pp == pp66 || pp == ppF3):
		if o.Cond = 1; pp == ppF3 {
			o.Cond = 11
		}
		o.Flags |= trace.X86WritesDst
		return is(trace.X86Adx, uint8(d.regField()), rm, max(4, d.wordSize()), trace.X86Detail{})
	case (op == map38|0xf0 || op == map38|0xf1) && d.pfx&pfxF2 != 0:
		size := uint8(1)
		if op&1 != 0 {
			size = d.wordSize()
		} else if !d.mem && d.high(d.rmField()) {
			return false
		}
		o.Flags |= trace.X86WritesDst
		return is(trace.X86Crc32, uint8(d.regField()), rm, size, trace.X86Detail{})
	}
	return d.longHigh(o)
}

// longString is for string instructions.
func (d *x86) longString(o *x86Op) bool {
	if d.pfx&pfxSeg != 0 {
		return false
	}
	kinds := map[uint16]trace.Kind{0xa4: trace.X86Moves, 0xa6: trace.X86Compares, 0xaa: trace.X86Stores, 0xac: trace.X86Loads, 0xae: trace.X86Scans}
	o.Kind, o.Size = kinds[d.op&^1], d.opSize()
	compares := o.Kind == trace.X86Compares || o.Kind == trace.X86Scans
	switch {
	case d.pfx&pfxF2 != 0 && compares:
		o.Ext = 2
	case d.pfx&(pfxF2|pfxF3) != 0:
		o.Ext = 1
	}
	return o.Kind != 0
}

// longHigh is for operations with %ah and the like.
func (d *x86) longHigh(o *x86Op) bool {
	if d.rex != 0 || d.pfx&pfxLock != 0 {
		return false
	}
	det := trace.X86Detail{}
	operand := func(to *uint8, r reg, bit uint8) {
		if *to = uint8(r); d.high(r) {
			*to, det.Imm = uint8(r)-4, det.Imm|bit
		}
	}
	kind, byImm := trace.Kind(0), false
	o.Size = 1
	switch op := d.op; {
	case op < 0x40 && op&7 == 0 || op == 0x88 || op == 0x84: // from the register
		kind = trace.X86Mov
		if op == 0x84 {
			kind = trace.X86Test
		} else if op < 0x40 {
			kind = walkALU[op>>3]
		}
		operand(&o.Src, d.regField(), 2)
		if o.Dst = trace.X86Mem; !d.mem {
			operand(&o.Dst, d.rmField(), 1)
		}
	case op < 0x40 && op&7 == 2 || op == 0x8a || op == map0F|0xb6: // to it
		if kind = trace.X86Mov; op < 0x40 {
			kind = walkALU[op>>3]
		}
		if op == map0F|0xb6 {
			kind, o.Size, o.Dst = trace.X86Movzx, d.wordSize(), uint8(d.regField())
		} else {
			operand(&o.Dst, d.regField(), 1)
		}
		if o.Src = trace.X86Mem; !d.mem {
			operand(&o.Src, d.rmField(), 2)
		}
	case op == 0x80 || op == 0xf6 && d.regBits() < 2 || op == 0xc6 && d.regBits() == 0:
		if byImm, kind = true, walkALU[d.regBits()]; op == 0xf6 {
			kind = trace.X86Test
		} else if op == 0xc6 {
			kind = trace.X86Mov
		}
		if d.mem {
			return false
		}
		operand(&o.Dst, d.rmField(), 1)
		o.Src = trace.X86Imm
	case op >= 0xb4 && op <= 0xb7:
		byImm, kind, o.Src = true, trace.X86Mov, trace.X86Imm
		operand(&o.Dst, d.opReg(), 1)
	default:
		return false
	}
	switch kind {
	case trace.X86Adc, trace.X86Sbb:
		return false
	}
	if det.Imm == 0 || !byImm && kind == trace.X86Xor && o.Dst == o.Src && det.Imm == 3 {
		return false
	}
	o.Cond = uint8(kind)
	if o.Kind, o.Imm = trace.X86Highs, det.Pack(); byImm {
		o.Imm |= d.imm & 0xff << 32
	}
	if kind != trace.X86Cmp && kind != trace.X86Test {
		o.Flags |= trace.X86WritesDst
	}
	return true
}

// longBMI is for what VEX has of general registers.
func (d *x86) longBMI(o *x86Op, code []byte) bool {
	code = afterPrefixes(code)
	if len(code) < 4 || code[0] != 0xc4 && code[0] != 0xc5 {
		return false
	}
	if long := code[0] == 0xc4 && code[2]&4 != 0; long {
		return false
	}
	v, pp := vexFields(code), d.pp()
	o.Size, o.Cond, o.Dst, o.Src = 4, uint8(v.reg2), uint8(d.regField()), uint8(d.rmField())
	if d.rex&8 != 0 {
		o.Size = 8
	}
	switch {
	case d.op == map38|0xf6 && pp == ppF2:
		o.Kind = trace.X86Mulx
	case d.op == map38|0xf5 && pp == ppF2:
		o.Kind = trace.X86Pdep
	case d.op == map38|0xf5 && pp == ppF3:
		o.Kind = trace.X86Pext
	case d.op == map38|0xf7 && pp == ppNone:
		o.Kind = trace.X86Bextr
	case d.op == map0F|0xae && d.mem && (d.regBits() == 2 || d.regBits() == 3) && pp == ppNone:
		o.Kind, o.Cond, o.Size = trace.X86Mxcsr, d.regBits(), 4
		return true
	default:
		return false
	}
	o.Ext, o.Flags = o.Size, o.Flags|trace.X86WritesDst
	return true
}
