package image

import (
	"encoding/binary"
	"math/bits"
)

// A RegSet is a set of registers.
type RegSet struct {
	General uint64 // bits 0 to 31: general registers, 31 the AArch64 stack pointer; then Flags, X87 and masks or predicates from FirstMask on
	Vector  uint64 // bits 0 to 31: vector and floating-point registers
}

// Bits of RegSet.General that are no general register.
const (
	Flags     = 32 // condition flags, as one register
	X87       = 33 // the x87 stack, as one register
	FirstMask = 40 // AVX-512 masks k0 to k7, SVE predicates p0 to p15
)

// Has reports whether the sets have a register in common.
func (s RegSet) Has(t RegSet) bool { return s.General&t.General|s.Vector&t.Vector != 0 }

// Registers is how many registers a RegSet can name.
const Registers = 64 + 32

// Each calls f with the number of each register of s: those of General are its bits, those of Vector follow from 64 on.
func (s RegSet) Each(f func(r int)) {
	for g := s.General; g != 0; g &= g - 1 {
		f(bits.TrailingZeros64(g))
	}
	for v := s.Vector; v != 0; v &= v - 1 {
		f(64 + bits.TrailingZeros64(v))
	}
}

func (s *RegSet) general(r int) { s.General |= 1 << uint(r) }
func (s *RegSet) add(t RegSet)  { s.General |= t.General; s.Vector |= t.Vector }

// Operands are the registers that an instruction reads and writes, and what it
// asks of the processor. Memory is not among them, nor are registers that never
// change or whose value an instruction ignores, such as both operands of XOR
// of a register with itself.
type Operands struct {
	Op      Op
	Reads   RegSet // that the operation needs, without Address
	Address RegSet // that the address of the memory operand is made from
	Writes  RegSet // that the operation gives
	Update  RegSet // that stepping the address gives: the base of writeback, the stack pointer of push and pop
	Vector  bool   // the memory operand is loaded to or stored from a vector register
	Pair    bool   // the memory operand is loaded to or stored from two registers
}

// Fixed reports whether the memory operand, if there is one, is where the stack pointer or the instruction alone says.
func (o *Operands) Fixed(a Arch) bool {
	sp := uint64(1) << rsp
	if a == AArch64 {
		sp = 1 << 31
	}
	return o.Address.Vector == 0 && o.Address.General&^sp == 0
}

// An Op is what the arithmetic of an instruction asks of the processor, as fine
// as tables of latencies distinguish it. Loads and stores are in Inst.Class: a
// plain load is OpNone with Load, an addition from memory is OpALU with Load.
type Op uint8

const (
	OpNone       Op = iota // memory only: plain loads and stores
	OpALU                  // addition, logic, comparison, sign extension, constants
	OpALUFlags             // AArch64: the same, setting flags
	OpALUScaled            // AArch64: addition of a register shifted left by up to 4, logic with a shifted one
	OpALUShifted           // AArch64: the same with an operand shifted or extended otherwise
	OpMove                 // general register to general register
	OpZero                 // a register is cleared by an idiom
	OpNop
	OpLea        // address of two parts
	OpLeaComplex // of base, index and displacement
	OpShift      // shift, rotate or bit field, by a constant
	OpShiftVar   // by a register
	OpCarry      // addition or subtraction with carry
	OpSelect     // cmov, csel, ccmp
	OpSetCond    // x86: setcc
	OpBits       // population count, leading zeros, crc32, pdep
	OpMul        // x86: product of one register; AArch64: 32-bit multiply and add
	OpMulWide    // x86: product of two registers; AArch64: 64-bit multiply and add, high half
	OpDiv32
	OpDiv64
	OpBranch       // conditional branch
	OpJump         // direct jump
	OpJumpIndirect // jump to an address in a register or in memory
	OpCall
	OpReturn
	OpVectorMove // vector register to vector register
	OpVectorInt  // integer and bitwise vector arithmetic
	OpVectorMul  // integer vector product
	OpShuffle    // permutations, insertions, extractions
	OpFloatAdd   // addition, subtraction, minimum, maximum
	OpFloatMul
	OpFMA
	OpFloatDiv32
	OpFloatDiv64
	OpSqrt32
	OpSqrt64
	OpFloatCompare // to flags
	OpConvert      // between floating-point formats, integers in vector registers, rounding
	OpToVector     // general register to vector register
	OpFromVector   // vector register to general register
	OpCrypto       // AES, SHA, carry-less product
	OpX87          // x86: arithmetic on the x87 stack
	OpMask         // AVX-512 masks, SVE predicates
	OpAtomic       // atomic read-modify-write
	OpFence
	OpString // repeated string instruction
	OpSystem // serialising or microcoded
	NumOps   // how many there are
)

var opNames = [NumOps]string{"none", "alu", "alu-flags", "alu-scaled", "alu-shifted", "move", "zero", "nop", "lea", "lea-complex", "shift", "shift-variable",
	"carry", "select", "setcc", "bits", "mul", "mul-wide", "div32", "div64", "branch", "jump", "jump-indirect", "call", "return",
	"vector-move", "vector-int", "vector-mul", "shuffle", "float-add", "float-mul", "fma", "float-div32", "float-div64", "sqrt32", "sqrt64",
	"float-compare", "convert", "to-vector", "from-vector", "crypto", "x87", "mask", "atomic", "fence", "string", "system"}

func (o Op) String() string {
	if o < NumOps {
		return opNames[o]
	}
	return "unknown"
}

// Operands returns the operands of an instruction that Insts returned. It does not
// allocate.
func (im *Image) Operands(in Inst) Operands {
	code := im.code(in.Addr, in.Addr+Addr(in.Len))
	var d x86
	if im.Arch == X86_64 {
		d.decode(code)
	}
	return operands(&d, im.Arch, code, in)
}

// AppendOperands appends the instructions of b, by increasing address, and the
// operands of each.
func (im *Image) AppendOperands(insts []Inst, ops []Operands, b *Block) ([]Inst, []Operands) {
	var d x86
	for code, a := im.code(b.Start, b.End), b.Start; len(code) > 0; {
		in := im.instIn(&d, code, a)
		insts, ops = append(insts, in), append(ops, operands(&d, im.Arch, code[:in.Len], in))
		code = code[in.Len:]
		a += Addr(in.Len)
	}
	return insts, ops
}

// operands returns the operands of the instruction in code, which on x86-64 d holds.
func operands(d *x86, arch Arch, code []byte, in Inst) Operands {
	switch {
	case in.Class&Bad != 0 || len(code) < in.Len:
		return Operands{Op: OpSystem}
	case arch == AArch64:
		return armOperands(binary.LittleEndian.Uint32(code), in.Class)
	}
	return d.uses(code)
}

// Forms of x86 operands, by the roles of ModRM's two fields. With a VEX prefix,
// the first source of formRegRM and formMerge is the register in the prefix.
const (
	formNone    = iota
	formRegRM   // reg op= rm
	formMovReg  // reg = f(rm)
	formMerge   // reg = f(rm) in its low part; like formMovReg where rm is memory
	formRMReg   // rm op= reg
	formMovRM   // rm = f(reg)
	formReadAll // reads reg, rm
	formRM      // rm = f(rm)
	formSetRM   // rm = constant
	formReadRM  // reads rm
)

// x86Use is an opcode's entry of the tables of operands.
type x86Use struct {
	form  uint8
	banks uint8 // regV, rmV
	flags uint8 // readF, writeF
	op    Op
}

const (
	regV = 1 << iota // ModRM.reg is a vector register
	rmV              // ModRM.rm is one
	readF
	writeF
	vecs = regV | rmV
)

// x86Uses has the operands of legacy opcodes by map; VEX and EVEX opcodes share
// them but for what vexUse says.
var x86Uses [4][256]x86Use

func init() {
	initUses1()
	initUses0F()
	initUses38()
	initUses3A()
}

func use(form, banks, flags uint8, op Op) x86Use { return x86Use{form, banks, flags, op} }

func fillUse(t *[256]x86Use, lo, hi int, u x86Use) {
	for i := lo; i <= hi; i++ {
		t[i] = u
	}
}

// setUse returns the same operands to each opcode of a list.
func setUse(t *[256]x86Use, u x86Use, opcodes ...int) {
	for _, o := range opcodes {
		t[o] = u
	}
}

func initUses1() {
	t := &x86Uses[0]
	for alu := 0; alu < 8; alu++ {
		op, flags := OpALU, uint8(writeF)
		if alu == 2 || alu == 3 {
			op, flags = OpCarry, readF|writeF
		}
		o := alu << 3
		fillUse(t, o, o+1, use(formRMReg, 0, flags, op))
		fillUse(t, o+2, o+3, use(formRegRM, 0, flags, op))
		fillUse(t, o+4, o+5, use(formNone, 0, flags, op)) // rax, see oneByteUses
		if alu == 7 {
			fillUse(t, o, o+3, use(formReadAll, 0, flags, op))
		}
	}
	t[0x63] = use(formMovReg, 0, 0, OpALU)
	fillUse(t, 0x69, 0x6b, use(formMovReg, 0, writeF, OpMul))
	t[0x68], t[0x6a] = use(formNone, 0, 0, OpNone), use(formNone, 0, 0, OpNone)
	fillUse(t, 0x70, 0x7f, use(formNone, 0, readF, OpBranch))
	fillUse(t, 0x80, 0x83, use(formRM, 0, writeF, OpALU))
	fillUse(t, 0x84, 0x85, use(formReadAll, 0, writeF, OpALU))
	fillUse(t, 0x88, 0x89, use(formMovRM, 0, 0, OpMove))
	fillUse(t, 0x8a, 0x8b, use(formMovReg, 0, 0, OpMove))
	t[0x8d] = use(formMovReg, 0, 0, OpLea)
	fillUse(t, 0x98, 0x99, use(formNone, 0, 0, OpALU))
	t[0x9c], t[0x9d] = use(formNone, 0, readF, OpNone), use(formNone, 0, writeF, OpALU)
	fillUse(t, 0xa8, 0xa9, use(formNone, 0, writeF, OpALU))
	fillUse(t, 0xb0, 0xbf, use(formNone, 0, 0, OpALU))
	fillUse(t, 0xc0, 0xc1, use(formRM, 0, writeF, OpShift))
	fillUse(t, 0xd0, 0xd1, use(formRM, 0, writeF, OpShift))
	fillUse(t, 0xd2, 0xd3, use(formRM, 0, readF|writeF, OpShiftVar))
	fillUse(t, 0xc6, 0xc7, use(formSetRM, 0, 0, OpALU))
	fillUse(t, 0xd8, 0xdf, use(formNone, 0, 0, OpX87))
	fillUse(t, 0xe0, 0xe3, use(formNone, 0, readF, OpBranch))
	fillUse(t, 0xf6, 0xf7, use(formRM, 0, writeF, OpALU))
	fillUse(t, 0xfe, 0xff, use(formRM, 0, writeF, OpALU))
	setUse(t, use(formNone, 0, writeF, OpALU), 0xf5, 0xf8, 0xf9, 0xfc, 0xfd, 0x9e)
	t[0x9f] = use(formNone, 0, readF, OpALU)
}

func initUses0F() {
	t := &x86Uses[1]
	setUse(t, use(formMerge, vecs, 0, OpVectorMove), 0x10)
	setUse(t, use(formMovRM, vecs, 0, OpVectorMove), 0x11, 0x13, 0x17, 0x29, 0x2b, 0x7f, 0xd6, 0xe7)
	setUse(t, use(formRegRM, vecs, 0, OpShuffle), 0x12, 0x14, 0x15, 0x16, 0xc6)
	setUse(t, use(formMovReg, vecs, 0, OpVectorMove), 0x28, 0x6f, 0xf0)
	setUse(t, use(formMerge, regV, 0, OpConvert), 0x2a)
	setUse(t, use(formMovReg, rmV, 0, OpConvert), 0x2c, 0x2d)
	setUse(t, use(formReadAll, vecs, writeF, OpFloatCompare), 0x2e, 0x2f)
	fillUse(t, 0x40, 0x4f, use(formRegRM, 0, readF, OpSelect))
	setUse(t, use(formMovReg, rmV, 0, OpFromVector), 0x50, 0xd7, 0xc5)
	t[0x51] = use(formMerge, vecs, 0, OpSqrt64)
	fillUse(t, 0x52, 0x53, use(formMerge, vecs, 0, OpFloatMul))
	fillUse(t, 0x54, 0x57, use(formRegRM, vecs, 0, OpVectorInt))
	fillUse(t, 0x58, 0x5f, use(formRegRM, vecs, 0, OpFloatAdd))
	t[0x59].op, t[0x5e].op = OpFloatMul, OpFloatDiv64
	t[0x5a], t[0x5b] = use(formMerge, vecs, 0, OpConvert), use(formMovReg, vecs, 0, OpConvert)
	fillUse(t, 0x60, 0x63, use(formRegRM, vecs, 0, OpShuffle))
	fillUse(t, 0x64, 0x66, use(formRegRM, vecs, 0, OpVectorInt))
	fillUse(t, 0x67, 0x6d, use(formRegRM, vecs, 0, OpShuffle))
	t[0x6e] = use(formMovReg, regV, 0, OpToVector)
	t[0x70] = use(formMovReg, vecs, 0, OpShuffle)
	fillUse(t, 0x71, 0x73, use(formRM, vecs, 0, OpVectorInt))
	fillUse(t, 0x74, 0x76, use(formRegRM, vecs, 0, OpVectorInt))
	fillUse(t, 0x7c, 0x7d, use(formRegRM, vecs, 0, OpFloatAdd))
	t[0x7e] = use(formMovRM, regV, 0, OpFromVector)
	fillUse(t, 0x80, 0x8f, use(formNone, 0, readF, OpBranch))
	fillUse(t, 0x90, 0x9f, use(formRM, 0, readF, OpSetCond))
	setUse(t, use(formReadAll, 0, writeF, OpALU), 0xa3)
	setUse(t, use(formRMReg, 0, writeF, OpALU), 0xab, 0xb3, 0xbb)
	setUse(t, use(formRMReg, 0, writeF, OpShiftVar), 0xa4, 0xa5, 0xac, 0xad)
	t[0xaf] = use(formRegRM, 0, writeF, OpMul)
	setUse(t, use(formRMReg, 0, writeF, OpALU), 0xb0, 0xb1, 0xc0, 0xc1)
	setUse(t, use(formMovReg, 0, 0, OpALU), 0xb6, 0xb7, 0xbe, 0xbf)
	setUse(t, use(formMovReg, 0, writeF, OpBits), 0xb8, 0xbc, 0xbd)
	t[0xba] = use(formRM, 0, writeF, OpALU)
	t[0xc2] = use(formRegRM, vecs, 0, OpFloatAdd)
	t[0xc3] = use(formMovRM, 0, 0, OpMove)
	t[0xc4] = use(formRegRM, regV, 0, OpToVector)
	fillUse(t, 0xc8, 0xcf, use(formNone, 0, 0, OpALU))
	fillUse(t, 0xd0, 0xd5, use(formRegRM, vecs, 0, OpVectorInt))
	fillUse(t, 0xd8, 0xfe, use(formRegRM, vecs, 0, OpVectorInt))
	setUse(t, use(formRegRM, vecs, 0, OpVectorMul), 0xd5, 0xe4, 0xe5, 0xf4, 0xf5, 0xf6)
	setUse(t, use(formMovReg, vecs, 0, OpConvert), 0xe6)
	setUse(t, use(formMovRM, vecs, 0, OpVectorMove), 0xe7)
	setUse(t, use(formMovReg, vecs, 0, OpVectorMove), 0xf0)
	t[0xd0] = use(formRegRM, vecs, 0, OpFloatAdd)
	setUse(t, use(formNone, 0, 0, OpNop), 0x0d, 0x18)
}

func initUses38() {
	t := &x86Uses[2]
	fillUse(t, 0, 255, use(formRegRM, vecs, 0, OpVectorInt))
	t[0x00].op = OpShuffle
	setUse(t, use(formRegRM, vecs, 0, OpVectorMul), 0x04, 0x0b, 0x28, 0x40)
	setUse(t, use(formReadAll, vecs, writeF, OpFloatCompare), 0x17, 0x0e, 0x0f)
	fillUse(t, 0x1c, 0x1e, use(formMovReg, vecs, 0, OpVectorInt))
	fillUse(t, 0x20, 0x25, use(formMovReg, vecs, 0, OpShuffle))
	fillUse(t, 0x30, 0x35, use(formMovReg, vecs, 0, OpShuffle))
	t[0x2a] = use(formMovReg, vecs, 0, OpVectorMove)
	fillUse(t, 0xc8, 0xcd, use(formRegRM, vecs, 0, OpCrypto))
	fillUse(t, 0xdb, 0xdf, use(formRegRM, vecs, 0, OpCrypto))
	t[0xdb].form = formMovReg
	fillUse(t, 0xf0, 0xf1, use(formRegRM, 0, 0, OpBits))
	t[0xf6] = use(formRegRM, 0, readF|writeF, OpCarry)
}

func initUses3A() {
	t := &x86Uses[3]
	fillUse(t, 0, 255, use(formRegRM, vecs, 0, OpVectorInt))
	fillUse(t, 0x08, 0x0b, use(formMerge, vecs, 0, OpConvert))
	t[0x0f].op, t[0x21].op = OpShuffle, OpShuffle
	fillUse(t, 0x14, 0x17, use(formMovRM, regV, 0, OpFromVector))
	setUse(t, use(formRegRM, regV, 0, OpToVector), 0x20, 0x22)
	fillUse(t, 0x40, 0x41, use(formRegRM, vecs, 0, OpFMA))
	setUse(t, use(formRegRM, vecs, 0, OpCrypto), 0x44, 0xcc, 0xdf)
	fillUse(t, 0x60, 0x63, use(formReadAll, vecs, writeF, OpCrypto))
}

// vexPrefix is what a VEX, EVEX or XOP prefix says of registers beyond x86.rex.
type vexPrefix struct {
	reg2    int  // the register that the prefix names
	regHigh int  // 16 where EVEX extends ModRM.reg
	rmHigh  int  // 16 where EVEX extends a vector register in ModRM.rm
	mask    int  // EVEX: mask register, 0 is none
	merge   bool // EVEX: masked-off elements keep their value
	evex    bool
}

// vexFields reads the prefix of an instruction that is known to have one.
func vexFields(code []byte) (v vexPrefix) {
	code = afterPrefixes(code)
	if len(code) < 4 {
		return v
	}
	switch code[0] {
	case 0xc5:
		v.reg2 = int(^code[1] >> 3 & 15)
	case 0x62:
		v.evex = true
		v.reg2 = int(^code[2]>>3&15) | int(^code[3]>>3&1)<<4
		v.regHigh = int(^code[1] >> 4 & 1 << 4)
		v.rmHigh = int(^code[1] >> 6 & 1 << 4)
		v.mask, v.merge = int(code[3]&7), code[3]&0x80 == 0
	default:
		v.reg2 = int(^code[2] >> 3 & 15)
	}
	return v
}

// uses returns the operands of a decoded instruction; code is its bytes.
func (d *x86) uses(code []byte) (o Operands) {
	d.addressUses(&o)
	switch {
	case d.class&(DirCall|IndCall) != 0:
		o.Op = OpCall
		d.readRM(&o, d.class&IndCall != 0)
		d.stackUses(&o)
	case d.class&Ret != 0:
		o.Op = OpReturn
		d.stackUses(&o)
	case d.class&IndJump != 0:
		o.Op = OpJumpIndirect
		d.readRM(&o, true)
	case d.class&Jump != 0:
		o.Op = OpJump
	case d.class&(System|Trap) != 0:
		o.Op = OpSystem
	case d.class&Nop != 0:
		o = Operands{Op: OpNop}
	case d.vex:
		d.vexUses(&o, code)
	default:
		d.legacyUses(&o)
	}
	return o
}

// addressUses enters the registers of the memory operand.
func (d *x86) addressUses(o *Operands) {
	if !d.mem {
		return
	}
	if d.base >= 0 && d.base < 16 {
		o.Address.general(int(d.base))
	}
	if d.index >= 0 {
		o.Address.general(int(d.index))
	}
}

// stackUses enters what push, pop, call and ret do to the stack pointer.
func (d *x86) stackUses(o *Operands) {
	o.Address.general(rsp)
	o.Update.general(rsp)
}

func (d *x86) readRM(o *Operands, yes bool) {
	if yes && d.hasRM && !d.mem {
		o.Reads.general(int(d.rmField()))
	}
}

// fields returns the registers of ModRM; rm is empty where it is memory.
func (d *x86) fields(banks uint8, v vexPrefix) (regs, rms RegSet) {
	if r := int(d.regField()); banks&regV != 0 {
		regs.Vector = 1 << uint(r|v.regHigh)
	} else {
		regs.general(d.byteReg(r))
	}
	if d.mem || !d.hasRM {
		return regs, rms
	}
	if r := int(d.rmField()); banks&rmV != 0 {
		rms.Vector = 1 << uint(r|v.rmHigh)
	} else if d.rex == 0 && r >= 4 && (d.op == map0F|0xb6 || d.op == map0F|0xbe) {
		rms.general(r - 4)
	} else {
		rms.general(d.byteReg(r))
	}
	return regs, rms
}

// byteReg returns the register that a byte operand is part of.
func (d *x86) byteReg(r int) int {
	if d.rex == 0 && r >= 4 && d.op < map0F && d.op&1 == 0 && (d.op < 0x40 || d.op >= 0x80) && d.op != 0x8e {
		return r - 4 // %ah and the like
	}
	return r
}

// narrow reports whether the destination is a general register of which the upper
// part stays as it was: the write then depends on the register.
func (d *x86) narrow() bool {
	switch {
	case d.op >= map38:
		return false
	case d.op >= map0F|0x90 && d.op <= map0F|0x9f:
		return true
	case d.op >= map0F:
		return d.pfx&pfx66 != 0 && d.rex&8 == 0
	case d.op >= 0xb8 && d.op <= 0xbf:
		return d.pfx&pfx66 != 0
	}
	return d.opSize() <= 2 && d.op != 0x63 && d.op != 0x6a && d.op != 0x98
}

// legacyUses returns the operands of instructions without VEX.
func (d *x86) legacyUses(o *Operands) {
	u := x86Uses[d.op>>8&3][d.op&0xff]
	if d.op>>8 == 1 {
		d.scalarUses(&u)
	}
	o.Op = u.op
	regs, rms := d.fields(u.banks, vexPrefix{})
	o.apply(u, regs, rms, regs, d)
	if u.banks == 0 && u.form != formNone && d.narrow() {
		o.Reads.add(o.Writes)
	}
	o.flags(u.flags)
	switch d.op >> 8 {
	case 0:
		d.oneByteUses(o)
	case 1:
		d.twoByteUses(o)
	case 2:
		if d.op == map38|0x10 || d.op == map38|0x14 || d.op == map38|0x15 {
			o.Reads.Vector |= 1 // blendv by xmm0
		}
		if d.op == map38|0xf6 && d.pfx&(pfx66|pfxF3) == 0 || (d.op == map38|0xf0 || d.op == map38|0xf1) && d.pfx&pfxF2 == 0 {
			d.movbeUses(o)
		}
	case 3:
		if d.op >= map3A|0x60 && d.op <= map3A|0x63 { // pcmpistr: index or mask
			o.Writes.general(rcx)
			o.Writes.Vector |= 1
		}
	}
	if d.idiom() {
		o.Op, o.Reads = OpZero, RegSet{}
	}
	d.finish(o)
}

// apply enters ModRM's registers by form; first is the first source.
func (o *Operands) apply(u x86Use, regs, rms, first RegSet, d *x86) {
	switch u.form {
	case formRegRM:
		o.Reads.add(first)
		o.Reads.add(rms)
		o.Writes.add(regs)
	case formMovReg:
		o.Reads.add(rms)
		o.Writes.add(regs)
	case formMerge:
		o.Reads.add(rms)
		o.Writes.add(regs)
		if d.merges() {
			o.Reads.add(first)
		}
	case formRMReg:
		o.Reads.add(regs)
		o.Reads.add(rms)
		o.Writes.add(rms)
	case formMovRM:
		o.Reads.add(regs)
		o.Writes.add(rms)
	case formReadAll:
		o.Reads.add(regs)
		o.Reads.add(rms)
	case formRM:
		o.Reads.add(rms)
		o.Writes.add(rms)
	case formSetRM:
		o.Writes.add(rms)
	case formReadRM:
		o.Reads.add(rms)
	}
	o.Vector = u.banks&vecs != 0 && (u.banks&regV != 0 || u.banks&rmV != 0)
}

func (o *Operands) flags(f uint8) {
	if f&readF != 0 {
		o.Reads.general(Flags)
	}
	if f&writeF != 0 {
		o.Writes.general(Flags)
	}
}

// merges reports whether a scalar operation leaves the rest of its destination.
func (d *x86) merges() bool {
	switch d.op {
	case map0F | 0x10:
		return d.pfx&(pfxF2|pfxF3) != 0 && !d.mem
	case map0F | 0x2a:
		return true
	case map3A | 0x0a, map3A | 0x0b:
		return true
	}
	return d.op>>8 == 1 && d.pfx&(pfxF2|pfxF3) != 0
}

// scalarUses refines opcodes of map 0F whose prefix picks the operation.
func (d *x86) scalarUses(u *x86Use) {
	single := d.pfx&(pfxF2|pfx66) == 0
	switch op := d.op & 0xff; {
	case op == 0x51 && single:
		u.op = OpSqrt32
	case op == 0x5e && single:
		u.op = OpFloatDiv32
	case op == 0x7e && d.pfx&pfxF3 != 0:
		*u = use(formMovReg, vecs, 0, OpVectorMove)
	case op == 0x12 && (d.pfx&(pfxF2|pfxF3) != 0), op == 0x16 && d.pfx&pfxF3 != 0:
		u.form = formMovReg
	case op == 0x70 && d.pfx&(pfx66|pfxF2|pfxF3) == 0, op == 0xd6 && d.pfx&pfx66 == 0:
		u.form = formMovReg
	}
}

// idiom tells of instructions that clear a register whatever it held.
func (d *x86) idiom() bool {
	if d.mem || !d.hasRM || d.vex {
		return false
	}
	switch d.op {
	case 0x31, 0x33, 0x29, 0x2b, map0F | 0x57, map0F | 0xef, map0F | 0xfa, map0F | 0xfb, map0F | 0xf8, map0F | 0xf9:
		return d.regField() == d.rmField() && (d.op >= map0F || d.pfx&pfx66 == 0)
	}
	return false
}

// oneByteUses enters operands that ModRM does not name.
func (d *x86) oneByteUses(o *Operands) {
	sub := d.modrm >> 3 & 7
	switch op := d.op; {
	case op < 0x40 && op&7 >= 4:
		o.Reads.general(rax)
		if op>>3 != 7 {
			o.Writes.general(rax)
		}
	case op >= 0x50 && op <= 0x57:
		o.Op = OpNone
		o.Reads.general(int(d.opReg()))
		d.stackUses(o)
	case op >= 0x58 && op <= 0x5f:
		o.Op = OpNone
		o.Writes.general(int(d.opReg()))
		d.stackUses(o)
	case op == 0x68, op == 0x6a, op == 0x9c, op == 0x9d, op == 0x8f:
		d.stackUses(o)
		if op == 0x8f {
			d.setRM(o)
		}
	case op >= 0x80 && op <= 0x83:
		d.aluUses(o, sub)
	case op == 0x86 || op == 0x87 || op > 0x90 && op <= 0x97:
		d.exchangeUses(o)
	case op == 0x8d:
		d.leaUses(o)
	case op == 0x98:
		o.Reads.general(rax)
		o.Writes.general(rax)
	case op == 0x99:
		o.Reads.general(rax)
		o.Writes.general(rdx)
	case op >= 0xa4 && op <= 0xaf && op != 0xa8 && op != 0xa9:
		d.stringUses(o)
	case op == 0xa8 || op == 0xa9:
		o.Reads.general(rax)
	case op >= 0xb0 && op <= 0xb7:
		r := int(d.opReg())
		if d.rex == 0 && r >= 4 {
			r -= 4
		}
		o.Reads.general(r)
		o.Writes.general(r)
	case op >= 0xb8 && op <= 0xbf:
		o.Writes.general(int(d.opReg()))
	case op == 0xd2 || op == 0xd3:
		o.Reads.general(rcx)
	case op == 0xc8 || op == 0xc9:
		o.Op = OpALU
		o.Address.general(rbp)
		o.Writes.general(rbp)
		o.Update.general(rsp)
	case op >= 0xd8 && op <= 0xdf:
		o.Reads.general(X87)
		o.Writes.general(X87)
		if op == 0xdf && d.modrm == 0xe0 {
			o.Writes.general(rax)
		}
	case op >= 0xe0 && op <= 0xe3:
		o.Reads.general(rcx)
		if op != 0xe3 {
			o.Writes.general(rcx)
		}
	case op == 0xf6 || op == 0xf7:
		d.unaryUses(o, sub)
	case op == 0xfe || op == 0xff:
		if sub == 6 {
			o.Op, o.Writes = OpNone, RegSet{}
			d.stackUses(o)
		}
	}
}

func (d *x86) setRM(o *Operands) {
	if !d.mem {
		o.Writes.general(int(d.rmField()))
	}
}

// aluUses is for the group of 80 to 83.
func (d *x86) aluUses(o *Operands, sub byte) {
	switch sub {
	case 2, 3:
		o.Op = OpCarry
		o.Reads.general(Flags)
	case 7:
		o.Writes = RegSet{General: 1 << Flags}
	}
}

func (d *x86) exchangeUses(o *Operands) {
	a, b := int(d.opReg()), rax
	if d.op < 0x90 {
		a = int(d.regField())
		if b = a; !d.mem {
			b = int(d.rmField())
		}
	}
	o.Op = OpMove
	m := RegSet{General: 1<<uint(a) | 1<<uint(b)}
	o.Reads.add(m)
	o.Writes.add(m)
}

// leaUses: the parts of the address are the operands.
func (d *x86) leaUses(o *Operands) {
	o.Reads, o.Address = o.Address, RegSet{}
	switch {
	case d.base >= 0 && d.index >= 0 && d.disp != 0:
		o.Op = OpLeaComplex
	case d.base == noReg && d.index == noReg || d.base == ripReg:
		o.Op = OpALU
	}
}

func (d *x86) stringUses(o *Operands) {
	m := RegSet{General: 1<<rsi | 1<<rdi}
	if d.op >= 0xaa {
		m.General |= 1 << rax
	}
	if d.class&Rep != 0 {
		m.General |= 1 << rcx
	}
	o.Op = OpString
	o.Address.add(m)
	o.Writes.add(m)
	if d.class&Compare != 0 {
		o.Writes.general(Flags)
	}
}

// unaryUses is for the group of F6 and F7: test, not, neg, mul, div.
func (d *x86) unaryUses(o *Operands, sub byte) {
	switch sub {
	case 0, 1:
		o.Writes = RegSet{General: 1 << Flags}
	case 2:
		o.Writes.General &^= 1 << Flags
	case 4, 5, 6, 7:
		_, rms := d.fields(0, vexPrefix{})
		o.Reads.add(rms)
		o.Reads.general(rax)
		o.Writes = RegSet{General: 1<<rax | 1<<rdx | 1<<Flags}
		switch wide := d.rex&8 != 0; {
		case sub < 6:
			o.Op = OpMulWide
			return
		case wide:
			o.Op = OpDiv64
		default:
			o.Op = OpDiv32
		}
		o.Reads.general(rdx)
	}
}

// twoByteUses is oneByteUses for the map 0F.
func (d *x86) twoByteUses(o *Operands) {
	sub := d.modrm >> 3 & 7
	switch op := d.op & 0xff; {
	case op == 0xa5 || op == 0xad:
		o.Reads.general(rcx)
	case op == 0xae && !d.mem:
		o.Op = OpFence
	case op == 0xb0 || op == 0xb1: // cmpxchg
		o.Reads.general(rax)
		o.Writes.general(rax)
	case op == 0xc0 || op == 0xc1: // xadd
		regs, _ := d.fields(0, vexPrefix{})
		o.Writes.add(regs)
	case op == 0xba && sub == 4:
		o.Writes = RegSet{General: 1 << Flags}
	case op == 0xc7:
		m := RegSet{General: 1<<rax | 1<<rdx}
		o.Op = OpALU
		o.Reads.add(m)
		o.Reads.add(RegSet{General: 1<<rbx | 1<<rcx})
		o.Writes.add(m)
		o.Writes.general(Flags)
	case op >= 0xc8 && op <= 0xcf:
		o.Reads.general(int(d.opReg()))
		o.Writes.general(int(d.opReg()))
	case op == 0xa0 || op == 0xa1 || op == 0xa8 || op == 0xa9:
		d.stackUses(o)
	case op == 0x77:
		o.Op = OpNop
	}
}

// movbeUses is for the opcodes that movbe shares with crc32, and for wrss.
func (d *x86) movbeUses(o *Operands) {
	regs, _ := d.fields(0, vexPrefix{})
	o.Op, o.Reads, o.Writes = OpALU, RegSet{}, RegSet{}
	if d.class&Store != 0 {
		o.Reads = regs
	} else {
		o.Writes = regs
	}
}

// finish settles what depends on the memory operand: moves to and from memory
// are no arithmetic, atomics are nothing else.
func (d *x86) finish(o *Operands) {
	switch {
	case d.class&Locked != 0 && d.class&(Load|Store) != 0:
		o.Op = OpAtomic
	case d.mem && (o.Op == OpMove || o.Op == OpVectorMove || o.Op == OpToVector && d.op == map0F|0x6e || o.Op == OpFromVector && d.op == map0F|0x7e):
		o.Op = OpNone
	case d.mem && o.Op == OpALU && (d.op == 0xc6 || d.op == 0xc7 || d.op == 0x63 || d.op >= map0F|0xb6 && d.op <= map0F|0xbf && d.op&^9 == map0F|0xb6):
		o.Op = OpNone // constants stored, loads that extend
	case !d.vex && d.mem && (d.op == map0F|0x12 || d.op == map0F|0x13 || d.op == map0F|0x17) && d.class&Store != 0:
		o.Op = OpNone
	}
}

// vexUses returns the operands of VEX, EVEX and XOP instructions.
func (d *x86) vexUses(o *Operands, code []byte) {
	v := vexFields(code)
	if d.op>>8 == 2 && d.op&0xff >= 0xf0 && d.bmiUses(o, v) {
		return
	}
	u := d.vexUse()
	o.Op = u.op
	regs, rms := d.fields(u.banks, v)
	first := RegSet{Vector: 1 << uint(v.reg2)}
	o.apply(u, regs, rms, first, d)
	o.flags(u.flags)
	switch op := d.op; {
	case op>>8 == 1 && op&0xff >= 0x71 && op&0xff <= 0x73: // shifts by a constant: the prefix names the destination
		o.Writes = first
	case d.fused():
		o.Reads.add(regs)
	case (d.fma4() || op>>8 == 3 && op&0xff >= 0x4a && op&0xff <= 0x4c) && !v.evex: // the immediate names a register
		o.Reads.Vector |= 1 << uint(byte(d.imm)>>4)
	case op>>8 == 2 && op&0xff >= 0x90 && op&0xff <= 0x93: // gathers: the index is a vector
		if d.index >= 0 {
			o.Address = RegSet{Vector: 1 << uint(d.index)}
			if d.base >= 0 && d.base < 16 {
				o.Address.general(int(d.base))
			}
		}
		o.Reads.add(regs)
	}
	if !d.mem && first == rms && d.vexIdiom() {
		o.Op, o.Reads = OpZero, RegSet{}
	}
	d.maskUses(o, v)
	d.finish(o)
}

// vexIdiom is idiom for VEX.
func (d *x86) vexIdiom() bool {
	switch d.op {
	case map0F | 0x57, map0F | 0xef, map0F | 0xfa, map0F | 0xfb, map0F | 0xf8, map0F | 0xf9:
		return true
	}
	return false
}

// fused tells of the opcodes of fused multiply-add, which accumulate.
func (d *x86) fused() bool {
	op := d.op & 0xff
	return d.op>>8 == 2 && op >= 0x96 && op <= 0xbf && op&15 >= 6
}

// fma4 tells of AMD's fused multiply-add with four operands.
func (d *x86) fma4() bool {
	op := d.op & 0xff
	return d.op>>8 == 3 && (op >= 0x5c && op <= 0x5f || op >= 0x68 && op <= 0x7f && op&8 != 0)
}

// maskUses enters AVX-512 masks.
func (d *x86) maskUses(o *Operands, v vexPrefix) {
	if !v.evex {
		return
	}
	op, compare := d.op&0xff, false
	switch d.op >> 8 {
	case 1:
		compare = op >= 0x74 && op <= 0x76 || op >= 0x64 && op <= 0x66 || op == 0xc2
	case 2:
		compare = op == 0x26 || op == 0x27 || op == 0x29 || op == 0x37
	case 3:
		compare = op == 0x1e || op == 0x1f || op == 0x3e || op == 0x3f || op == 0x66 || op == 0x67
	}
	if compare {
		o.Writes = RegSet{General: 1 << (FirstMask + uint(d.modrm>>3&7))}
	}
	if v.mask != 0 {
		o.Reads.general(FirstMask + v.mask)
		if v.merge {
			o.Reads.Vector |= o.Writes.Vector
		}
	}
}

// vexUse returns the table's entry, or another where VEX opcodes differ.
func (d *x86) vexUse() x86Use {
	m, op := d.op>>8, int(d.op&0xff)
	if m < 1 || m > 3 {
		return use(formRegRM, vecs, 0, OpVectorInt) // XOP and half precision
	}
	u := x86Uses[m][op]
	if m == 1 {
		d.scalarUses(&u)
	}
	switch {
	case m == 1 && op >= 0x41 && op <= 0x4b, m == 1 && op >= 0x90 && op <= 0x99:
		return use(formNone, 0, 0, OpMask)
	case m == 1 && op == 0x77:
		return use(formNone, 0, 0, OpNop)
	case m == 2 && (op >= 0x18 && op <= 0x1b || op >= 0x58 && op <= 0x5b || op == 0x78 || op == 0x79 || op == 0x16 || op == 0x36):
		u = use(formMovReg, vecs, 0, OpShuffle)
		if d.mem {
			u.op = OpVectorMove // broadcasts are done by the load
		}
	case m == 2 && op >= 0x7a && op <= 0x7c:
		u = use(formMovReg, regV, 0, OpToVector)
	case m == 2 && d.fused(), d.fma4():
		u = use(formRegRM, vecs, 0, OpFMA)
	case m == 2 && d.pfx&pfxF3 != 0 && op >= 0x10 && op <= 0x35 && op&15 <= 5:
		u = use(formMovRM, vecs, 0, OpShuffle)
	case m == 3 && op == 0xf0: // rorx
		u = use(formMovReg, 0, 0, OpShift)
	case m == 3 && (op <= 0x01 || op == 0x04 || op == 0x05 || op == 0x06):
		u = use(formMovReg, vecs, 0, OpShuffle)
		if op == 0x06 {
			u.form = formRegRM
		}
	case m == 3 && (op == 0x19 || op == 0x1b || op == 0x39 || op == 0x3b || op == 0x1d):
		u = use(formMovRM, vecs, 0, OpShuffle)
		if d.mem {
			u.op = OpVectorMove
		}
	case m == 3 && (op == 0x18 || op == 0x1a || op == 0x38 || op == 0x3a || op == 0x46):
		u.op = OpShuffle
	}
	return u
}

// bmiUses returns the operands of bit manipulation with VEX.
func (d *x86) bmiUses(o *Operands, v vexPrefix) bool {
	regs, rms := d.fields(0, v)
	second := RegSet{General: 1 << uint(v.reg2&15)}
	o.Reads.add(rms)
	o.Op = OpALU
	switch d.op & 0xff {
	case 0xf2: // andn
		o.Reads.add(second)
		o.Writes.add(regs)
		o.flags(writeF)
	case 0xf3: // blsr, blsi, blsmsk
		o.Writes.add(second)
		o.flags(writeF)
	case 0xf5: // bzhi, pdep, pext
		o.Reads.add(second)
		o.Writes.add(regs)
		if d.pfx&(pfxF2|pfxF3) != 0 {
			o.Op = OpBits
		} else {
			o.flags(writeF)
		}
	case 0xf6: // mulx
		o.Op = OpMulWide
		o.Reads.general(rdx)
		o.Writes.add(regs)
		o.Writes.add(second)
	case 0xf7: // bextr, shlx, sarx, shrx
		o.Op = OpShift
		o.Reads.add(second)
		o.Writes.add(regs)
		if d.pfx&(pfx66|pfxF2|pfxF3) == 0 {
			o.flags(writeF)
		}
	default:
		return false
	}
	return true
}

// armGeneral enters a register field where 31 is the zero register.
func (s *RegSet) armGeneral(r uint32) { s.General |= uint64(armMask(r)) }

// armSP enters a register field where 31 is the stack pointer.
func (s *RegSet) armSP(r uint32) { s.General |= 1 << r }

func (s *RegSet) vector(r uint32) { s.Vector |= 1 << r }

// armOperands returns the operands of the AArch64 instruction w.
func armOperands(w uint32, c Class) (o Operands) {
	switch w >> 25 & 15 {
	case 8, 9:
		armImmediateUses(&o, w)
	case 10, 11:
		armBranchUses(&o, w, c)
	case 4, 6, 12, 14:
		armMemoryUses(&o, w, c)
	case 5, 13:
		armRegisterUses(&o, w, c)
	case 7, 15:
		armFloatUses(&o, w, c)
	case 2:
		armSVEUses(&o, w, c)
	default:
		o.Op = OpSystem
	}
	return o
}

func armImmediateUses(o *Operands, w uint32) {
	rd, rn := w&31, w>>5&31
	o.Op = OpALU
	switch {
	case w&0x1f000000 == 0x10000000: // adr, adrp
		o.Writes.armGeneral(rd)
	case w&0x1f800000 == 0x12800000: // movz, movn, movk
		o.Writes.armGeneral(rd)
		if w>>29&3 == 3 {
			o.Reads.armGeneral(rd)
		}
	case w&0x1f000000 == 0x11000000: // add, sub
		o.Reads.armSP(rn)
		armResult(o, w, rd, w>>29&1 != 0)
	case w&0x1f800000 == 0x12000000: // logical
		o.Reads.armGeneral(rn)
		armResult(o, w, rd, w>>29&3 == 3)
	case w&0x1f800000 == 0x13000000: // bit fields
		o.Op = OpShift
		o.Reads.armGeneral(rn)
		if w>>29&3 == 1 { // bfm keeps the other bits
			o.Reads.armGeneral(rd)
		}
		o.Writes.armGeneral(rd)
	default: // extr
		o.Op = OpShift
		o.Reads.armGeneral(rn)
		o.Reads.armGeneral(w >> 16 & 31)
		o.Writes.armGeneral(rd)
	}
}

// armResult enters the destination of an addition or logical operation with an
// immediate: with flags, 31 is the zero register, without the stack pointer.
func armResult(o *Operands, w, rd uint32, flags bool) {
	if !flags {
		o.Writes.armSP(rd)
		return
	}
	o.Op = OpALUFlags
	o.Writes.armGeneral(rd)
	o.Writes.general(Flags)
}

func armBranchUses(o *Operands, w uint32, c Class) {
	rt := w & 31
	switch {
	case c&Nop != 0:
		o.Op = OpNop
	case c&Ret != 0:
		o.Op = OpReturn
		o.Reads.armGeneral(w >> 5 & 31)
	case c&IndJump != 0:
		o.Op = OpJumpIndirect
		o.Reads.armGeneral(w >> 5 & 31)
	case c&IndCall != 0:
		o.Op = OpCall
		o.Reads.armGeneral(w >> 5 & 31)
		o.Writes.armGeneral(30)
	case c&DirCall != 0:
		o.Op = OpCall
		o.Writes.armGeneral(30)
	case c&Jump != 0:
		o.Op = OpJump
	case c&CondJump != 0:
		o.Op = OpBranch
		if w>>24 == 0x54 {
			o.Reads.general(Flags)
		} else {
			o.Reads.armGeneral(rt)
		}
	case c&Locked != 0:
		o.Op = OpFence
	case w&0xfffff01f == 0xd503201f: // hints
		o.Op = OpNop
	case w&0xfff00000 == 0xd5300000: // mrs
		o.Op = OpSystem
		o.Writes.armGeneral(rt)
		if w&0xffffff00 == 0xd53bd000 { // of the thread pointer, which is read like a register
			o.Op = OpALU
		}
	default:
		o.Op = OpSystem
		o.Reads.armGeneral(rt)
	}
}

func armRegisterUses(o *Operands, w uint32, c Class) {
	rd, rn, rm, ra := w&31, w>>5&31, w>>16&31, w>>10&31
	o.Op = OpALU
	o.Reads.armGeneral(rn)
	o.Reads.armGeneral(rm)
	o.Writes.armGeneral(rd)
	switch {
	case w&0x1f000000 == 0x0a000000: // logical, shifted
		armShifted(o, w, w>>29&3 == 3)
		if w&0x7fe0ffe0 == 0x2a0003e0 {
			o.Op = OpMove
		}
	case w&0x1f200000 == 0x0b000000: // add, sub, shifted
		armShifted(o, w, w>>29&1 != 0)
	case w&0x1f200000 == 0x0b200000: // add, sub, extended
		o.Reads.armSP(rn)
		if o.Op = OpALUShifted; w>>29&1 != 0 {
			o.Writes.general(Flags)
		} else {
			o.Writes.armSP(rd)
		}
	case w&0x1fe00000 == 0x1a000000: // adc, sbc
		o.Op = OpCarry
		o.Reads.general(Flags)
		if w>>29&1 != 0 {
			o.Writes.general(Flags)
		}
	case w&0x1fe00000 == 0x1a400000: // ccmp, ccmn
		o.Op = OpSelect
		o.Reads.general(Flags)
		o.Writes = RegSet{General: 1 << Flags}
		if w>>11&1 != 0 { // the field is an immediate
			o.Reads = RegSet{General: 1<<Flags | uint64(armMask(rn))}
		}
	case w&0x1fe00000 == 0x1a800000: // csel
		o.Op = OpSelect
		o.Reads.general(Flags)
	case w&0x1f000000 == 0x1b000000: // multiply and add
		o.Op = OpMul
		o.Reads.armGeneral(ra)
		if w>>31 != 0 && w>>21&7 == 0 || w>>21&3 == 2 { // of 64 bits
			o.Op = OpMulWide
		}
	case w&0x5fe00000 == 0x1ac00000: // two sources
		armTwoSources(o, w, c)
	case w&0x5fe00000 == 0x5ac00000: // one source
		o.Reads = RegSet{General: uint64(armMask(rn))}
		o.Op = OpBits
	}
}

// armShifted settles the operation of additions and logic with a shifted operand.
func armShifted(o *Operands, w uint32, flags bool) {
	logic := w>>24&1 == 0
	switch amount := w >> 10 & 63; {
	case amount != 0 && (logic && !flags || !logic && amount <= 4 && w>>22&3 == 0):
		o.Op = OpALUScaled
	case amount != 0:
		o.Op = OpALUShifted
	case flags:
		o.Op = OpALUFlags
	}
	if flags {
		o.Writes.general(Flags)
	}
}

func armTwoSources(o *Operands, w uint32, c Class) {
	switch {
	case c&Div != 0 && w>>31 != 0:
		o.Op = OpDiv64
	case c&Div != 0:
		o.Op = OpDiv32
	case w>>10&63 < 0x10:
		o.Op = OpShiftVar
	default: // crc32
		o.Op = OpBits
	}
}

// armMemoryUses returns the operands of loads, stores and atomics.
func armMemoryUses(o *Operands, w uint32, c Class) {
	rt, rn, rt2, rm := w&31, w>>5&31, w>>10&31, w>>16&31
	o.Vector = w>>26&1 != 0
	literal := w&0x3b000000 == 0x18000000
	if !literal {
		o.Address.armSP(rn)
	}
	data := &o.Reads
	if c&Load != 0 {
		data = &o.Writes
	}
	enter := func(s *RegSet, r uint32) {
		if o.Vector {
			s.vector(r)
		} else {
			s.armGeneral(r)
		}
	}
	switch {
	case c&(Load|Store) == 0: // prefetch
	case c&Rep != 0:
		o.Op = OpString
		m := RegSet{General: 1<<rt | 1<<rn | 1<<rm}
		o.Reads.add(m)
		o.Writes.add(m)
	case w&0xbe000000 == 0x0c000000: // structures of vectors
		armStructure(o, w, data)
	case c&Locked != 0:
		o.Op = OpAtomic
		o.Reads.armGeneral(rm)
		o.Reads.armGeneral(rt)
		o.Writes.armGeneral(rt)
		if w&0x3f000000 == 0x08000000 { // exclusive: the status
			o.Writes.armGeneral(rm)
		}
	case w&0x3a000000 == 0x28000000: // pairs
		o.Pair = true
		enter(data, rt)
		enter(data, rt2)
		if w>>23&1 != 0 {
			o.Update.armSP(rn)
		}
	default:
		enter(data, rt)
		switch register := w&0x3b200c00 == 0x38200800; {
		case register:
			o.Address.armGeneral(rm)
		case w&0x3b200400 == 0x38000400:
			o.Update.armSP(rn)
		}
	}
}

// armStructure returns the registers of ld1 to st4: their number is in the opcode.
func armStructure(o *Operands, w uint32, data *RegSet) {
	n := uint32(1)
	if w>>24&1 != 0 { // one element of each register
		n = w>>21&1 + w>>13&1<<1 + 1
		o.Op = OpShuffle
		o.Reads.vector(w & 31)
	} else {
		switch w >> 12 & 15 {
		case 0, 2:
			n = 4
		case 4, 6:
			n = 3
		case 8, 10:
			n = 2
		}
	}
	for i := range n {
		data.vector((w + i) & 31)
	}
	o.Pair = n > 1
	if w>>23&1 != 0 {
		o.Update.armSP(w >> 5 & 31)
		if rm := w >> 16 & 31; rm != 31 {
			o.Address.armGeneral(rm)
		}
	}
}

// armFloatUses returns the operands of scalar floating point and Advanced SIMD.
func armFloatUses(o *Operands, w uint32, c Class) {
	rd, rn, rm, ra := w&31, w>>5&31, w>>16&31, w>>10&31
	scalar := w&0x5f000000 == 0x1e000000
	switch {
	case scalar && w&0x00200000 == 0, scalar && w&0x0020fc00 == 0x00200000: // to and from general registers
		armTransfer(o, w, rd, rn)
		return
	case w&0x5f000000 == 0x1f000000: // fused multiply-add
		o.Op = OpFMA
		o.Reads = RegSet{Vector: 1<<rn | 1<<rm | 1<<ra}
	case scalar:
		armScalar(o, w, c)
		return
	case w&0xff3e0c00 == 0x4e280800, w&0xff200000 == 0x5e000000 && w&0x8c00 == 0, w&0xff000000 == 0xce000000: // AES, SHA
		o.Op = OpCrypto
		o.Reads = RegSet{Vector: 1<<rn | 1<<rd}
		if w&0xff3e0c00 != 0x4e280800 {
			o.Reads.vector(rm)
		}
	default:
		armSIMD(o, w, c)
		return
	}
	o.Writes.vector(rd)
}

// armTransfer is for conversions and moves between general and vector registers.
func armTransfer(o *Operands, w, rd, rn uint32) {
	opcode := w >> 16 & 7
	to := opcode == 2 || opcode == 3 || opcode == 7 // scvtf, ucvtf, fmov
	if o.Op = OpConvert; opcode >= 6 && w>>19&3 <= 1 {
		if o.Op = OpFromVector; to {
			o.Op = OpToVector
		}
	}
	if to {
		o.Reads.armGeneral(rn)
		o.Writes.vector(rd)
		return
	}
	o.Reads.vector(rn)
	o.Writes.armGeneral(rd)
}

// armScalar is for arithmetic on scalars.
func armScalar(o *Operands, w uint32, c Class) {
	rd, rn, rm := w&31, w>>5&31, w>>16&31
	double := w>>22&3 == 1
	o.Reads, o.Writes = RegSet{Vector: 1<<rn | 1<<rm}, RegSet{Vector: 1 << rd}
	switch {
	case w&0xc00 == 0x800: // two sources
		switch w >> 12 & 15 {
		case 0, 8:
			o.Op = OpFloatMul
		case 1:
			o.Op = sized(double, OpFloatDiv64, OpFloatDiv32)
		default:
			o.Op = OpFloatAdd
		}
	case w&0xc00 == 0xc00: // fcsel
		o.Op = OpVectorInt
		o.Reads.general(Flags)
	case w&0xc00 == 0x400: // fccmp
		o.Op = OpFloatCompare
		o.Reads.general(Flags)
		o.Writes = RegSet{General: 1 << Flags}
	case w&0x1c00 == 0x1000: // fmov of a constant
		o.Op, o.Reads = OpVectorMove, RegSet{}
	case w&0x3c00 == 0x2000: // fcmp, of zero too
		o.Op = OpFloatCompare
		o.Writes = RegSet{General: 1 << Flags}
		if w>>3&1 != 0 {
			o.Reads = RegSet{Vector: 1 << rn}
		}
	default: // one source
		o.Reads = RegSet{Vector: 1 << rn}
		switch w >> 15 & 63 {
		case 0:
			o.Op = OpVectorMove
		case 1, 2: // fabs, fneg
			o.Op = OpVectorInt
		case 3:
			o.Op = sized(double, OpSqrt64, OpSqrt32)
		default:
			o.Op = OpConvert
		}
	}
}

func sized(double bool, d, s Op) Op {
	if double {
		return d
	}
	return s
}

// armSIMD is for Advanced SIMD, by the groups of the manual's index (C4.1.96).
func armSIMD(o *Operands, w uint32, c Class) {
	rd, rn, rm := w&31, w>>5&31, w>>16&31
	o.Op = OpVectorInt
	o.Reads, o.Writes = RegSet{Vector: 1 << rn}, RegSet{Vector: 1 << rd}
	double := w>>22&1 != 0
	switch {
	case c&Div != 0:
		sqrt := w>>17&0x1f == 0x10 && w>>10&3 == 2
		switch {
		case sqrt:
			o.Op = sized(double, OpSqrt64, OpSqrt32)
		default:
			o.Op = sized(double, OpFloatDiv64, OpFloatDiv32)
			o.Reads.vector(rm)
		}
	case w&0x9fe08400 == 0x0e000400: // copies
		armCopy(o, w, rd, rn)
	case w&0xbf208c00 == 0x0e000000: // tbl, tbx
		o.Op = OpShuffle
		for i := range w >> 13 & 3 { // a table of several registers
			o.Reads.vector((rn + i + 1) & 31)
		}
		o.Reads.vector(rm)
	case w&0xbf208c00 == 0x0e000800, w&0xbf208400 == 0x2e000000: // zip, trn, uzp; ext
		o.Op = OpShuffle
		o.Reads.vector(rm)
	case w&0x9ff80400 == 0x0f000400: // constants
		if o.Reads = (RegSet{}); w>>12&1 != 0 && w>>15&1 == 0 {
			o.Reads.vector(rd)
		}
	case w&0x9f200400 == 0x0e200400 || w&0xdf200400 == 0x5e200400: // three registers of one size
		o.Reads.vector(rm)
		armThreeSame(o, w, rd)
	case w&0x9f200c00 == 0x0e200000 || w&0xdf200c00 == 0x5e200000: // three registers of different sizes
		o.Reads.vector(rm)
		if op := w >> 12 & 15; op >= 8 {
			o.Op = OpVectorMul
			if op != 12 && op != 13 && op != 14 {
				o.Reads.vector(rd)
			}
		}
	case w&0x9f000400 == 0x0f000000 || w&0xdf000400 == 0x5f000000: // by an element
		o.Reads.vector(rm)
		armByElement(o, w, rd)
	case w&0x9f3e0c00 == 0x0e200800 || w&0xdf3e0c00 == 0x5e200800: // two registers
		if op := w >> 12 & 31; op >= 0x0c && op != 0x12 && op != 0x14 && w>>23&1 == 0 || op >= 0x16 {
			o.Op = OpConvert
		}
	}
}

// armCopy is for dup, ins, umov and smov.
func armCopy(o *Operands, w, rd, rn uint32) {
	switch general := w >> 11 & 15; {
	case w>>29&1 != 0: // ins of an element
		o.Op = OpShuffle
		o.Reads.vector(rd)
	case general == 1 || general == 3: // dup, ins from a general register
		o.Op, o.Reads = OpToVector, RegSet{General: uint64(armMask(rn))}
		if general == 3 {
			o.Reads.vector(rd)
		}
	case general == 5 || general == 7: // smov, umov
		o.Op, o.Writes = OpFromVector, RegSet{General: uint64(armMask(rd))}
	default:
		o.Op = OpShuffle
	}
}

// armThreeSame settles the operation of three vectors of one size.
func armThreeSame(o *Operands, w, rd uint32) {
	op, u := w>>11&31, w>>29&1
	switch {
	case op == 0x12: // mla, mls
		o.Op = OpVectorMul
		o.Reads.vector(rd)
	case op == 0x13 || op == 0x16: // mul, sqdmulh
		o.Op = OpVectorMul
	case op == 0x03 && w>>21&1 != 0: // logic: bsl, bit and bif read their destination; mov reads one register
		if u == 1 && w>>22&3 != 0 {
			o.Reads.vector(rd)
		}
		if u == 0 && w>>22&3 == 2 && w>>16&31 == w>>5&31 {
			o.Op = OpVectorMove
		}
	case op == 0x0f: // saba, uaba
		o.Reads.vector(rd)
	case op == 0x19 && u == 0: // fmla, fmls
		o.Op = OpFMA
		o.Reads.vector(rd)
	case op == 0x1b:
		o.Op = OpFloatMul
	case op >= 0x18:
		o.Op = OpFloatAdd
	}
}

// armByElement settles the operation of a vector and one element.
func armByElement(o *Operands, w, rd uint32) {
	switch op := w >> 12 & 15; {
	case op == 1 || op == 5: // fmla, fmls
		o.Op = OpFMA
		o.Reads.vector(rd)
	case op == 9:
		o.Op = OpFloatMul
	default:
		if o.Op = OpVectorMul; op != 8 && op < 10 {
			o.Reads.vector(rd)
		}
	}
}

// armSVEUses knows of SVE what predicates and registers the usual places of the
// encoding name. Destructive operations read their destination.
func armSVEUses(o *Operands, w uint32, c Class) {
	rd, rn, rm, pg := w&31, w>>5&31, w>>16&31, w>>10&7
	if c&(Load|Store) != 0 {
		o.Vector = true
		o.Address.armSP(rn)
		o.Reads.general(FirstMask + int(pg))
		if c&Load != 0 {
			o.Writes.vector(rd)
		} else {
			o.Reads.vector(rd)
		}
		return
	}
	switch {
	case w&0xff200000 == 0x25200000 || w&0xff208000 == 0x25008000: // whilelo, ptrue, counts
		o.Op = OpMask
		o.Reads = RegSet{General: uint64(armMask(rn) | armMask(rm))}
		o.Writes = RegSet{General: 1<<Flags | 1<<(FirstMask+rd&15)}
		return
	case w&0xff20e000 == 0x0420e000: // inc, cnt
		o.Op = OpALU
		o.Reads.armGeneral(rd)
		o.Writes.armGeneral(rd)
		return
	case w&0xff000000 == 0x65000000 && w>>21&1 != 0 && w>>15&1 == 0:
		o.Op = OpFMA
	case w&0xff000000 == 0x65000000:
		o.Op = OpFloatAdd
	default:
		o.Op = OpVectorInt
	}
	o.Reads = RegSet{Vector: 1<<rn | 1<<rm | 1<<rd, General: 1 << (FirstMask + pg)}
	o.Writes.vector(rd)
}
