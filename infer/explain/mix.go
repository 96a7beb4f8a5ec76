package explain

import (
	"backfeed/infer"
	"backfeed/infer/image"
)

// A Kind is what an instruction does, of the mix of instructions: each is of one kind.
type Kind uint8

// Kinds of instructions.
const (
	KindLoad Kind = iota // and nothing else
	KindStore
	KindPush // or pop
	KindMove
	KindInteger // all other arithmetic of general registers, on memory too
	KindMultiply
	KindDivide
	KindBranch // conditional
	KindJump
	KindIndirectJump
	KindCall
	KindIndirectCall
	KindReturn
	KindVector // of integers; moves and permutations of any
	KindFloat
	KindFloatDivide // or square root
	KindCrypto
	KindAtomic // or a fence
	KindString
	KindSystem
	KindNop
	NumKinds // how many there are
)

var kindNames = [NumKinds]string{"load", "store", "push, pop", "move", "integer", "multiply", "divide", "branch", "jump", "indirect jump", "call", "indirect call",
	"return", "vector", "floating point", "floating-point divide", "crypto", "atomic", "string", "system", "nop"}

func (k Kind) String() string { return kindNames[k] }

var kindOfOp = [image.NumOps]Kind{
	image.OpALU: KindInteger, image.OpALUFlags: KindInteger, image.OpALUScaled: KindInteger, image.OpALUShifted: KindInteger,
	image.OpMove: KindMove, image.OpZero: KindInteger, image.OpNop: KindNop, image.OpLea: KindInteger, image.OpLeaComplex: KindInteger,
	image.OpShift: KindInteger, image.OpShiftVar: KindInteger, image.OpCarry: KindInteger, image.OpSelect: KindInteger, image.OpSetCond: KindInteger,
	image.OpBits: KindInteger, image.OpMul: KindMultiply, image.OpMulWide: KindMultiply, image.OpDiv32: KindDivide, image.OpDiv64: KindDivide,
	image.OpBranch: KindBranch, image.OpJump: KindJump, image.OpJumpIndirect: KindIndirectJump, image.OpCall: KindCall, image.OpReturn: KindReturn,
	image.OpVectorMove: KindVector, image.OpVectorInt: KindVector, image.OpVectorMul: KindVector, image.OpShuffle: KindVector,
	image.OpFloatAdd: KindFloat, image.OpFloatMul: KindFloat, image.OpFMA: KindFloat, image.OpFloatDiv32: KindFloatDivide, image.OpFloatDiv64: KindFloatDivide,
	image.OpSqrt32: KindFloatDivide, image.OpSqrt64: KindFloatDivide, image.OpFloatCompare: KindFloat, image.OpConvert: KindFloat,
	image.OpToVector: KindVector, image.OpFromVector: KindVector, image.OpCrypto: KindCrypto, image.OpX87: KindFloat, image.OpMask: KindVector,
	image.OpAtomic: KindAtomic, image.OpFence: KindAtomic, image.OpString: KindString, image.OpSystem: KindSystem,
}

// kindOf returns the kind of an instruction.
func kindOf(in image.Inst, op image.Op) Kind {
	switch {
	case in.Class&image.IndCall != 0:
		return KindIndirectCall
	case in.Class&image.Push != 0 && op == image.OpNone:
		return KindPush
	case op == image.OpNone && in.Class&image.Store != 0:
		return KindStore
	}
	return kindOfOp[op]
}

// A Mix is what executed instructions did, inferred: executions.
type Mix struct {
	Kinds        [NumKinds]float64
	Reads        float64 // instructions that read memory, of any kind; without the stack's push, pop, call and return
	Writes       float64
	Taken        float64 // conditional branches that were taken, as far as both ways are known
	Decided      float64 // of which that is known: all but conditional tail calls
	Instructions float64 // sum of Kinds
}

// Transfers are executions after which control did not go on to the next instruction, as far as that is known.
func (m *Mix) Transfers() float64 {
	k := &m.Kinds
	return m.Taken + k[KindJump] + k[KindIndirectJump] + k[KindCall] + k[KindIndirectCall] + k[KindReturn]
}

// Add adds what r executed.
func (m *Mix) Add(im *image.Image, r *infer.Result) {
	var insts []image.Inst
	var ops []image.Operands
	for b := range r.Proc.Blocks {
		n, block := r.Block[b].N, &r.Proc.Blocks[b]
		if !(n > 0) {
			continue
		}
		insts, ops = im.AppendOperands(insts[:0], ops[:0], block)
		for i, in := range insts {
			m.add(in, ops[i].Op, n)
		}
		if len(insts) == 0 || kindOf(insts[len(insts)-1], ops[len(ops)-1].Op) != KindBranch {
			continue
		}
		for _, e := range block.Out {
			m.Decided += r.Edge[e].N
			if r.Proc.Edges[e].Kind == image.Taken {
				m.Taken += r.Edge[e].N
			}
		}
	}
}

func (m *Mix) add(in image.Inst, op image.Op, n float64) {
	m.Kinds[kindOf(in, op)] += n
	m.Instructions += n
	if in.Class&image.Load != 0 {
		m.Reads += n
	}
	if in.Class&image.Store != 0 {
		m.Writes += n
	}
}
