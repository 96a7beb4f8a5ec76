package trace

// The emulator's headers are made of these files: sample/collect/bpf/op.h of this one and
// end.go, opx86.h of x86.go and oparm.h of arm.go, which say what fields hold. TestOpHeaders
// of package collect writes them, and compares.

// An Op is what one instruction does with registers, memory and flags, as the emulator of
// walks takes it. Of what is not understood in detail it only says what is no longer known
// after it.
type Op struct {
	Kind  Kind
	Size  uint8 // of the operands, in bytes
	Dst   uint8 // register, or what else the kind says
	Src   uint8
	Base  uint8 // of the memory operand
	Index uint8
	Scale uint8
	Flags Flags
	Cond  uint8 // condition, or what else the kind says
	Ext   uint8 // of AArch64: how the register index is shifted or extended; of a branch, what it tests
	quick quick // of a Machine; 0 until NewCode
	_     uint8
	Disp  int32
	To    uint32 // of a direct branch: index of an operation; 0 is outside, and until NewCode
	needs uint32 // what must be known for quick: bit by register, and the flags
	Imm   int64
}

// A Kind is what an operation does. Most depend on the processor.
type Kind uint8

// A quick is a form of operation that a Machine emulates with less ado; 0 is none.
type quick uint8

// Flags say what an operation does with its operands.
type Flags uint8

// Kinds of operations that every processor has.
const (
	Stop Kind = 0 // not emulated, nor is what comes after it

	Call    Kind = 47 + iota // imm: the address to come back to
	CallInd                  // likewise
	Ret                      // of x86-64, cond: bytes that it pops beside the address
	Jump
	JumpInd
	CondJump
)

// Branch reports whether an operation is a branch. All of them are counted.
func (k Kind) Branch() bool { return k >= Call && k <= CondJump }
