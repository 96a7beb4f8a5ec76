package image

import "backfeed/sample/trace"

// A walkForm is what walks take an opcode for: its kind, what it does with its operands, how
// long these are, and which.
type walkForm struct {
	kind  trace.Kind
	flags trace.Flags
	size  uint8 // in bytes, or as below
	args  walkArgs
}

// walkArgs fill in the operands, and the kind where it depends on more than the opcode. They
// return false for what is not emulated; of what they filled in, walkUnknown uses nothing but
// the size and the condition.
type walkArgs func(d *x86, o *x86Op, in Inst) bool

// Sizes that depend on prefixes.
const (
	usualSize  = 0    // of opcodes of one byte as opSize says, of others as wordSize
	opcodeSize = 0xfe // as opSize says
	alwaysWord = 0xff // as wordSize says
)

// What operations do with their operands.
const (
	walkMove   = trace.X86WritesDst | trace.X86ReadsSrc
	walkModify = trace.X86ReadsDst | trace.X86WritesDst
	walkLook   = trace.X86ReadsDst | trace.X86ReadsSrc
	walkBoth   = walkLook | trace.X86WritesDst
)

// walkOneByte and walkTwoByte are by opcode, of one byte and after 0F: those that have to do
// with general registers.
var walkOneByte, walkTwoByte [256]walkForm

func init() {
	initWalkOneByte()
	initWalkTwoByte()
}

// walkALU are the operations of the first opcodes and of the group of 80.
var walkALU = [8]trace.Kind{trace.X86Add, trace.X86Or, trace.X86Adc, trace.X86Sbb, trace.X86And, trace.X86Sub, trace.X86Xor, trace.X86Cmp}

// aluFlags returns what an operation on both operands does with them.
func aluFlags(k trace.Kind) trace.Flags {
	if k == trace.X86Cmp || k == trace.X86Test || k == trace.X86Bt {
		return walkLook
	}
	return walkBoth
}

// alu makes o an operation on both operands.
func (o *x86Op) alu(k trace.Kind) {
	o.Kind = k
	o.Flags |= aluFlags(k)
}

func walkForms(t *[256]walkForm, lo, hi int, f walkForm) {
	for i := lo; i <= hi; i++ {
		t[i] = f
	}
}

func initWalkOneByte() {
	t := &walkOneByte
	alu := func(k trace.Kind, args walkArgs) walkForm { return walkForm{k, aluFlags(k), usualSize, args} }
	for i, k := range walkALU {
		o := i << 3
		walkForms(t, o, o+1, alu(k, rmReg))
		walkForms(t, o+2, o+3, alu(k, regRM))
		walkForms(t, o+4, o+5, alu(k, accImm))
	}
	walkForms(t, 0x50, 0x57, walkForm{trace.X86Push, trace.X86ReadsSrc, 8, pushReg})
	walkForms(t, 0x58, 0x5f, walkForm{trace.X86Pop, walkMove | trace.X86HasMem, 8, popReg})
	t[0x63] = walkForm{trace.X86Movsx, walkMove, 4, movsxd}
	t[0x68] = walkForm{trace.X86Push, trace.X86ReadsSrc, 8, pushImm}
	t[0x6a] = t[0x68]
	t[0x69] = walkForm{trace.X86Imul3, walkMove, alwaysWord, imul3}
	t[0x6b] = t[0x69]
	walkForms(t, 0x70, 0x7f, walkForm{trace.CondJump, 0, usualSize, onCondition})
	walkForms(t, 0x80, 0x83, walkForm{args: groupALU}) // 82 is none
	walkForms(t, 0x84, 0x85, alu(trace.X86Test, rmReg))
	walkForms(t, 0x86, 0x87, alu(trace.X86Xchg, rmReg))
	walkForms(t, 0x88, 0x89, walkForm{trace.X86Mov, walkMove, usualSize, rmReg})
	walkForms(t, 0x8a, 0x8b, walkForm{trace.X86Mov, walkMove, usualSize, regRM})
	t[0x8d] = walkForm{trace.X86Lea, trace.X86WritesDst, usualSize, lea}
	t[0x90] = walkForm{trace.X86Nop, 0, usualSize, nopOrXchg}
	walkForms(t, 0x91, 0x97, alu(trace.X86Xchg, xchgAcc))
	t[0x98] = walkForm{trace.X86Cbw, trace.X86WritesDst, alwaysWord, into(rax)}
	t[0x99] = walkForm{trace.X86Cwd, trace.X86WritesDst, alwaysWord, into(rdx)}
	walkForms(t, 0xa8, 0xa9, alu(trace.X86Test, accImm))
	walkForms(t, 0xb0, 0xb7, walkForm{trace.X86Mov, walkMove, 1, opRegImm})
	walkForms(t, 0xb8, 0xbf, walkForm{trace.X86Mov, walkMove, alwaysWord, opRegImm})
	walkForms(t, 0xc0, 0xc1, walkForm{args: shiftByImm})
	walkForms(t, 0xc2, 0xc3, walkForm{trace.Ret, trace.X86ReadsSrc | trace.X86HasMem, 8, ret})
	walkForms(t, 0xc6, 0xc7, walkForm{trace.X86Mov, walkMove, usualSize, movImm})
	t[0xc9] = walkForm{trace.X86Leave, walkMove | trace.X86HasMem, 8, leave}
	walkForms(t, 0xd0, 0xd1, walkForm{args: shiftByOne})
	walkForms(t, 0xd2, 0xd3, walkForm{args: shiftByCL})
	t[0xe8] = walkForm{trace.Call, 0, usualSize, call}
	t[0xe9] = walkForm{trace.Jump, 0, usualSize, noArgs}
	t[0xeb] = t[0xe9]
	walkForms(t, 0xf6, 0xf7, walkForm{args: groupF6})
	walkForms(t, 0xfe, 0xff, walkForm{args: groupFE})
}

func initWalkTwoByte() {
	t := &walkTwoByte
	alu := func(k trace.Kind, size uint8, args walkArgs) walkForm { return walkForm{k, aluFlags(k), size, args} }
	extends := func(k trace.Kind, from uint8) walkForm { return walkForm{k, walkMove, usualSize, extend(from)} }
	hint := walkForm{trace.X86Nop, 0, usualSize, nop}
	t[0x0d] = hint
	walkForms(t, 0x18, 0x1f, hint)
	t[0x1e].args = nopIfClassed
	walkForms(t, 0x40, 0x4f, alu(trace.X86Cmov, usualSize, regRMOnCondition))
	walkForms(t, 0x80, 0x8f, walkForm{trace.CondJump, 0, usualSize, onCondition})
	walkForms(t, 0x90, 0x9f, walkForm{trace.X86Setcc, trace.X86WritesDst, 1, setcc})
	for i, k := range []trace.Kind{trace.X86Bt, trace.X86Bts, trace.X86Btr, trace.X86Btc} {
		t[0xa3|i<<3] = alu(k, usualSize, bitReg)
	}
	t[0xba] = walkForm{args: groupBA}
	t[0xa4], t[0xa5] = alu(trace.X86Shld, usualSize, shiftDouble), alu(trace.X86Shld, usualSize, shiftDouble)
	t[0xac], t[0xad] = alu(trace.X86Shrd, usualSize, shiftDouble), alu(trace.X86Shrd, usualSize, shiftDouble)
	t[0xae] = walkForm{trace.X86Nop, 0, usualSize, fence}
	t[0xaf] = alu(trace.X86Imul, usualSize, regRM)
	walkForms(t, 0xb0, 0xb1, alu(trace.X86Cmpxchg, opcodeSize, memReg))
	t[0xb6], t[0xb7] = extends(trace.X86Movzx, 1), extends(trace.X86Movzx, 2)
	t[0xb8] = walkForm{trace.X86Popcnt, walkMove, usualSize, popcnt}
	t[0xbc] = walkForm{args: bitScan(trace.X86Bsf, trace.X86Tzcnt)}
	t[0xbd] = walkForm{args: bitScan(trace.X86Bsr, trace.X86Lzcnt)}
	t[0xbe], t[0xbf] = extends(trace.X86Movsx, 1), extends(trace.X86Movsx, 2)
	walkForms(t, 0xc0, 0xc1, alu(trace.X86Xadd, opcodeSize, rmReg))
	walkForms(t, 0xc8, 0xcf, walkForm{trace.X86Bswap, walkModify, usualSize, bswap})
}

// walkGeneral is for the opcodes of one byte and those after 0F that have to do with general
// registers.
func (d *x86) walkGeneral(o *x86Op, in Inst) bool {
	f := &walkOneByte[byte(d.op)]
	if d.op >= map0F {
		f, o.Size = &walkTwoByte[byte(d.op)], d.wordSize()
	}
	if f.args == nil {
		return false
	}
	o.Kind, o.Flags = f.kind, o.Flags|f.flags
	switch f.size {
	case usualSize:
	case opcodeSize:
		o.Size = d.opSize()
	case alwaysWord:
		o.Size = d.wordSize()
	default:
		o.Size = f.size
	}
	return f.args(d, o, in)
}

func noArgs(*x86, *x86Op, Inst) bool { return true }

func rmReg(d *x86, o *x86Op, _ Inst) bool {
	return d.walkRM(&o.Dst, o.Size) && d.walkReg(&o.Src, o.Size)
}
func regRM(d *x86, o *x86Op, _ Inst) bool {
	return d.walkReg(&o.Dst, o.Size) && d.walkRM(&o.Src, o.Size)
}
func rmImm8(d *x86, o *x86Op) bool { return d.walkRM(&o.Dst, o.Size) && o.imms(d.imm&0xff) }

// memReg: of a register, the upper half may stay.
func memReg(d *x86, o *x86Op, in Inst) bool { return d.mem && rmReg(d, o, in) }

// bitReg: in memory, a bit string is of any length.
func bitReg(d *x86, o *x86Op, in Inst) bool { return !d.mem && rmReg(d, o, in) }

func accImm(d *x86, o *x86Op, _ Inst) bool {
	o.Dst = rax
	return o.imms(d.imm)
}

func opRegImm(d *x86, o *x86Op, _ Inst) bool {
	if o.Size == 1 && d.high(d.opReg()) {
		return false
	}
	o.Dst = uint8(d.opReg())
	return o.imms(d.imm)
}

// into has one register that the opcode implies.
func into(r uint8) walkArgs {
	return func(_ *x86, o *x86Op, _ Inst) bool {
		o.Dst = r
		return true
	}
}

func pushReg(d *x86, o *x86Op, _ Inst) bool {
	o.Src = uint8(d.opReg())
	return d.pfx&pfx66 == 0
}

func pushImm(d *x86, o *x86Op, _ Inst) bool { return d.pfx&pfx66 == 0 && o.imms(d.imm) }

func popReg(d *x86, o *x86Op, _ Inst) bool {
	o.Dst, o.Src, o.Base = uint8(d.opReg()), trace.X86Mem, rsp
	return d.pfx&pfx66 == 0
}

func leave(_ *x86, o *x86Op, _ Inst) bool {
	o.Dst, o.Src, o.Base = rbp, trace.X86Mem, rbp
	return true
}

func ret(d *x86, o *x86Op, _ Inst) bool {
	o.Src, o.Base = trace.X86Mem, rsp
	if d.op == 0xc2 {
		o.Cond = uint8(d.imm)
	}
	return uint16(d.imm) < 256
}

func call(_ *x86, o *x86Op, in Inst) bool {
	o.Imm = int64(in.Addr) + int64(in.Len)
	return true
}

func onCondition(d *x86, o *x86Op, _ Inst) bool {
	o.Cond = byte(d.op) & 15
	return true
}

func regRMOnCondition(d *x86, o *x86Op, in Inst) bool {
	return onCondition(d, o, in) && regRM(d, o, in)
}

func setcc(d *x86, o *x86Op, in Inst) bool { return onCondition(d, o, in) && d.walkRM(&o.Dst, 1) }

func movsxd(d *x86, o *x86Op, _ Inst) bool {
	o.Cond = 8
	return d.rex&8 != 0 && d.walkReg(&o.Dst, 8) && d.walkRM(&o.Src, 4)
}

// extend is for movzx and movsx, of so many bytes.
func extend(from uint8) walkArgs {
	return func(d *x86, o *x86Op, in Inst) bool {
		o.Cond, o.Size = o.Size, from
		return wholeRegRM(d, o, in)
	}
}

// wholeRegRM: the destination is a register of any size, never %ah or the like.
func wholeRegRM(d *x86, o *x86Op, _ Inst) bool {
	return d.walkReg(&o.Dst, 8) && d.walkRM(&o.Src, o.Size)
}

func imul3(d *x86, o *x86Op, in Inst) bool {
	o.Imm = d.imm
	return regRM(d, o, in)
}

func lea(d *x86, o *x86Op, _ Inst) bool { return d.pfx&pfxSeg == 0 && d.walkReg(&o.Dst, o.Size) }

func movImm(d *x86, o *x86Op, _ Inst) bool {
	return d.regBits() == 0 && d.walkRM(&o.Dst, o.Size) && o.imms(d.imm)
}

func xchgAcc(d *x86, o *x86Op, _ Inst) bool {
	o.Size = d.wordSize()
	o.Dst, o.Src = uint8(d.opReg()), rax
	return true
}

func nopOrXchg(d *x86, o *x86Op, in Inst) bool {
	if in.Class&Nop != 0 || d.pfx&pfxF3 != 0 {
		return true
	}
	o.alu(trace.X86Xchg)
	return xchgAcc(d, o, in)
}

// nop: what looks like a memory operand is none.
func nop(d *x86, _ *x86Op, _ Inst) bool {
	d.mem = false
	return true
}

func nopIfClassed(d *x86, o *x86Op, in Inst) bool { return in.Class&Nop != 0 && nop(d, o, in) }

func fence(d *x86, _ *x86Op, _ Inst) bool {
	return !d.mem && d.regBits() >= 5 && d.pfx&(pfx66|pfxF2|pfxF3) == 0
}

func groupALU(d *x86, o *x86Op, _ Inst) bool {
	o.alu(walkALU[d.regBits()])
	return d.walkRM(&o.Dst, o.Size) && o.imms(d.imm)
}

func groupBA(d *x86, o *x86Op, _ Inst) bool {
	o.alu([8]trace.Kind{4: trace.X86Bt, trace.X86Bts, trace.X86Btr, trace.X86Btc}[d.regBits()])
	return d.regBits() >= 4 && rmImm8(d, o)
}

// walkShifts are by the bits of ModRM; Stop goes through the carry.
var walkShifts = [8]trace.Kind{trace.X86Rol, trace.X86Ror, trace.Stop, trace.Stop, trace.X86Shl, trace.X86Shr, trace.X86Shl, trace.X86Sar}

func (d *x86) walkShift(o *x86Op) bool {
	k := walkShifts[d.regBits()]
	if k == trace.Stop || !d.walkRM(&o.Dst, o.Size) {
		return false
	}
	o.alu(k)
	return true
}

func shiftByImm(d *x86, o *x86Op, _ Inst) bool { return d.walkShift(o) && o.imms(d.imm&0xff) }
func shiftByOne(d *x86, o *x86Op, _ Inst) bool { return d.walkShift(o) && o.imms(1) }

func shiftByCL(d *x86, o *x86Op, _ Inst) bool {
	o.Src = rcx
	return d.walkShift(o)
}

func shiftDouble(d *x86, o *x86Op, _ Inst) bool {
	o.Cond, o.Src = uint8(d.regField()), rcx
	if d.op&1 == 0 {
		o.imms(d.imm & 0xff)
	}
	return d.walkRM(&o.Dst, o.Size)
}

func groupF6(d *x86, o *x86Op, _ Inst) bool {
	switch d.regBits() {
	case 0, 1:
		o.alu(trace.X86Test)
		return d.walkRM(&o.Dst, o.Size) && o.imms(d.imm)
	case 2, 3:
		o.Kind, o.Flags = [2]trace.Kind{trace.X86Not, trace.X86Neg}[d.regBits()&1], o.Flags|walkModify
		return d.walkRM(&o.Dst, o.Size)
	}
	o.Kind, o.Flags = [4]trace.Kind{trace.X86MulWide, trace.X86ImulWide, trace.X86Div, trace.X86Idiv}[d.regBits()&3], o.Flags|trace.X86ReadsSrc
	return o.Size > 1 && d.walkRM(&o.Src, o.Size)
}

func groupFE(d *x86, o *x86Op, in Inst) bool {
	switch d.regBits() {
	case 0, 1:
		o.Kind, o.Flags = [2]trace.Kind{trace.X86Inc, trace.X86Dec}[d.regBits()], o.Flags|walkModify
		return d.walkRM(&o.Dst, o.Size)
	case 2:
		o.Kind = trace.CallInd
		call(d, o, in)
	case 4:
		o.Kind = trace.JumpInd
	case 6:
		o.Kind = trace.X86Push
		if d.pfx&pfx66 != 0 {
			return false
		}
	default:
		return false
	}
	o.Size, o.Flags = 8, o.Flags|trace.X86ReadsSrc
	return d.walkRM(&o.Src, 8)
}

// repeated returns 1 with the prefix F3.
func (d *x86) repeated() int { return int(d.pfx & pfxF3 / pfxF3) }

func popcnt(d *x86, o *x86Op, in Inst) bool { return d.pfx&pfxF3 != 0 && wholeRegRM(d, o, in) }

// bitScan is for opcodes that are another operation with the prefix F3.
func bitScan(plain, repeated trace.Kind) walkArgs {
	return func(d *x86, o *x86Op, in Inst) bool {
		o.Kind, o.Flags = [2]trace.Kind{plain, repeated}[d.repeated()], o.Flags|walkMove
		return wholeRegRM(d, o, in)
	}
}

func bswap(d *x86, o *x86Op, _ Inst) bool {
	o.Dst = uint8(d.opReg())
	return o.Size >= 4
}
