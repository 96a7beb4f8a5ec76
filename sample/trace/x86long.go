package trace

// X86Long is below the kinds of operations that only a Machine emulates; for the emulator in the kernel,
// Short makes of them what it takes them for.
const X86Long Kind = 127

// Kinds of operations that only a Machine emulates. What more they do, Imm says as an X86Detail; what of memory
// they read is Ext bytes long. Vector registers are 0 to 31.
const (
	X86Vwords   Kind = X86Long + 1 + iota // dst = what(cond, src), word by word of size bytes
	X86Vshifts                            // the same, by the lowest word of src, or by imm if there is none
	X86Vscalar                            // the lowest size bytes of dst = what(cond, src), the rest is that of cond
	X86Vlanes                             // dst = what(cond, src), by 16 bytes of size
	X86Vwide                              // dst = what(cond, src), of size bytes as one
	X86Vblend                             // elements of cond or src, by the top bits of those of register imm
	X86Vfused                             // dst = products of dst, cond and src and a sum
	X86Vcompare                           // flags, of numbers of size bytes of dst and src
	X86Vfloat                             // the lowest size bytes of dst = integer of cond or ext bytes, the rest is that of cond
	X86Vinteger                           // general register dst of cond bytes = number of size bytes of src
	X86Vsigns                             // general register dst = top bits of the elements of src
	X86Vextract                           // size bytes of dst = element imm of src
	X86Vinsert                            // dst = cond with element imm of size bytes from src
	X86Vmove                              // dst = size bytes of src
	X86Vmerge                             // lowest size bytes of dst are those of src, the rest is that of cond
	X86Vhalf                              // one half of the lowest 16 bytes of dst is 8 bytes of src, the other that of cond; imm: which of dst, bit 1: which of src
	X86Vput                               // size bytes of memory = src
	X86Vtomask                            // mask register dst = what(cond, src), by element
	X86Mask                               // mask register dst = what(cond, src) of size bytes
	X86MaskTo                             // general register dst = mask register src
	X86MaskFrom                           // mask register dst = general register src, or memory
	X86MaskPut                            // memory = mask register src
	X86MaskTest                           // flags by mask registers dst and src
	X86Vrepeat                            // elements of size bytes of dst = general register src

	X86Highs    // what cond, a kind, says of bytes, of which dst or src or both are %ah, %ch, %dh, %bh: imm 1, 2; else imm 4
	X86Unknown  // imm: what is not known afterwards, as of X86Clobber
	X86Moves    // rep movs of size bytes; cond: 0 is without rep
	X86Stores   // rep stos
	X86Scans    // repe scas if cond is 1, repne scas if it is 2
	X86Compares // cmps
	X86Loads    // lods
	X86MulByte  // ax = al * src; cond: signed
	X86DivByte
	X86CmpxchgReg // cmpxchg of registers
	X86CmpxchgTwo // cmpxchg8b, cmpxchg16b: of twice size bytes
	X86Mulx       // dst:cond = rdx * src
	X86Pdep       // dst = cond by mask src
	X86Pext
	X86Bextr // dst = src from bit as register cond says
	X86Adx   // dst += src and the carry, or the overflow flag: cond 11
	X86Crc32 // dst of src, size bytes
	X86Direction
	X86Carry  // cmc, clc, stc by imm
	X86BitMem // bt and the like of memory with register src
	X86Mxcsr  // cond 2: from memory, 3: to it
	X86Fcw    // control word of x87; cond 5: from memory, 7: to it
)

// An X86Detail is what an operation of a kind above X86Long does besides.
type X86Detail struct {
	Imm       uint8
	What      X86What
	VEX       bool  // what is beyond size bytes becomes 0
	Broadcast bool  // of memory, one element is read for all
	Zero      bool  // elements that the mask leaves out become 0
	Mask      uint8 // mask register; 0 is none
	Elem      uint8 // size of elements, in bytes: 1, 2, 4 or 8
	Unary     bool  // reads src alone
}

// Pack returns d as Op.Imm has it.
func (d X86Detail) Pack() int64 {
	bit := func(b bool, n int) int64 {
		if b {
			return 1 << n
		}
		return 0
	}
	return int64(d.Imm) | int64(d.What)<<8 | bit(d.VEX, 16) | bit(d.Broadcast, 17) | bit(d.Zero, 18) | bit(d.Unary, 19) | int64(d.Mask)<<20 | int64(d.Elem)<<24
}

// detail returns what op has.
func (o *Op) detail() X86Detail {
	v := uint64(o.Imm)
	return X86Detail{uint8(v), X86What(v >> 8), v>>16&1 != 0, v>>17&1 != 0, v>>18&1 != 0, uint8(v >> 20 & 7), uint8(v >> 24 & 15), v>>19&1 != 0}
}

// Short returns what the emulator in the kernel takes o for: of what it does not emulate, it is told what is not
// known afterwards.
func (o Op) Short() Op {
	if o.Kind <= X86Long {
		return o
	}
	s := Op{Kind: X86Clobber, Size: o.Size, Dst: X86None, Src: X86None, Base: o.Base, Index: o.Index, Scale: o.Scale, Disp: o.Disp, Flags: o.Flags & X86FS}
	switch o.Kind {
	case X86Unknown, X86Moves, X86Stores, X86Mxcsr:
		s.Kind = Stop
		return s
	case X86Scans, X86Compares, X86Loads:
		if s.Imm = 1<<16 | 1 | 1<<6 | 1<<7; o.Ext != 0 { // repeated
			s.Kind = Stop
		}
		return s
	case X86BitMem:
		if s.Imm = 1 << 16; o.detail().Imm != 0 { // anywhere near
			s.Kind = Stop
		}
	case X86Highs:
		if k := Kind(o.Cond); k != X86Mov && k != X86Movzx {
			s.Imm = 1 << 16
		}
	case X86Vcompare, X86MaskTest, X86Carry, X86Direction:
		s.Imm = 1 << 16
	case X86MulByte, X86DivByte:
		s.Imm = 1<<16 | 1 | 1<<2
	case X86CmpxchgReg:
		s.Imm = 1<<16 | 1
	case X86CmpxchgTwo:
		s.Imm = 1<<16 | 1 | 1<<2
		s.Size *= 2
	case X86Mulx:
		s.Imm = 1 << (o.Cond & 15)
	case X86Bextr, X86Adx:
		s.Imm = 1 << 16
	case X86Fcw:
	case X86Mask, X86MaskFrom, X86Vtomask, X86MaskTo, X86MaskPut, X86Vinteger, X86Vsigns, X86Vextract, X86Vput, X86Pdep, X86Pext, X86Crc32:
	default:
		s.Imm = 1 << (32 + o.Dst&31)
	}
	if o.Flags&X86WritesDst != 0 {
		if o.Dst < 16 {
			s.Imm |= 1 << o.Dst
		} else {
			s.Dst, s.Flags = X86Mem, s.Flags|X86HasMem|X86WritesDst
		}
	}
	return s
}

// An X86What is what an operation on vectors does with each element.
type X86What uint8

// What operations on vectors do. Those of X86Vwords first.
const (
	X86Nothing X86What = iota
	X86LaneXor
	X86LaneAnd
	X86LaneOr
	X86LaneAndn
	X86Ternary // by the bits of imm, of dst, cond and src
	X86AddB
	X86AddW
	X86AddD
	X86AddQ
	X86SubB
	X86SubW
	X86SubD
	X86SubQ
	X86AddSB
	X86AddSW
	X86AddUSB
	X86AddUSW
	X86SubSB
	X86SubSW
	X86SubUSB
	X86SubUSW
	X86AvgB
	X86AvgW
	X86MinSB
	X86MinSW
	X86MinSD
	X86MinSQ
	X86MinUB
	X86MinUW
	X86MinUD
	X86MinUQ
	X86MaxSB
	X86MaxSW
	X86MaxSD
	X86MaxSQ
	X86MaxUB
	X86MaxUW
	X86MaxUD
	X86MaxUQ
	X86EqualB
	X86EqualW
	X86EqualD
	X86EqualQ
	X86MoreB
	X86MoreW
	X86MoreD
	X86MoreQ
	X86MulLowW
	X86MulHighW
	X86MulHighUW
	X86MulRoundW
	X86MulLowD
	X86MulLowQ
	X86MulUD
	X86MulSD
	X86MulAddW
	X86MulAddB
	X86SumB
	X86SignB
	X86SignW
	X86SignD
	X86AbsB
	X86AbsW
	X86AbsD
	X86AbsQ
	X86LeftW
	X86LeftD
	X86LeftQ
	X86RightW
	X86RightD
	X86RightQ
	X86RightSW
	X86RightSD
	X86RightSQ
	X86LeftVD
	X86LeftVQ
	X86RightVD
	X86RightVQ
	X86RightSVD
	X86RotateLD
	X86RotateLQ
	X86RotateRD
	X86RotateRQ

	X86FAdd // of numbers, by the size of elements; of X86Vscalar, too
	X86FSub
	X86FMul
	X86FDiv
	X86FMin
	X86FMax
	X86FSqrt
	X86FCompare   // imm: how
	X86FRound     // imm: how
	X86FFromInt   // of 4 bytes
	X86FToInt     // rounded
	X86FToIntCut  // cut off
	X86FToOther   // of X86Vscalar: a number of 4 bytes from one of 8 or the reverse
	X86ScalarLast // none

	X86UnpackLow // of X86Vlanes: elements in turn
	X86UnpackHigh
	X86PackSW // to elements of half their size
	X86PackUW
	X86PackSD
	X86PackUD
	X86ShuffleB
	X86ShuffleD
	X86ShuffleLW
	X86ShuffleHW
	X86ShuffleF  // imm, by the size of elements
	X86PermuteF  // of one source
	X86PermuteFV // by the second source
	X86Align
	X86BytesLeft
	X86BytesRight
	X86BlendW
	X86BlendD
	X86BlendQ
	X86DupLow  // movsldup, movddup
	X86DupHigh // movshdup
	X86HAddF
	X86HSubF
	X86HAddW
	X86HAddD
	X86HSubW
	X86HSubD
	X86InsertF
	X86Multiply // without carries
	X86AESEnc
	X86AESEncLast
	X86AESDec
	X86AESDecLast

	X86PermuteQ // of X86Vwide, imm
	X86Permute2 // of halves, imm
	X86PermuteD // by the first source
	X86SpreadAll
	X86InsertLane
	X86ExtractLane
	X86ExtendBW // of elements to longer ones
	X86ExtendBD
	X86ExtendBQ
	X86ExtendWD
	X86ExtendWQ
	X86ExtendDQ
	X86ZeroBW
	X86ZeroBD
	X86ZeroBQ
	X86ZeroWD
	X86ZeroWQ
	X86ZeroDQ
	X86IntToDouble // of half as many bytes
	X86FloatToDouble
	X86DoubleToFloat
	X86DoubleToInt
	X86DoubleToIntCut

	X86MaskAnd // of X86Mask
	X86MaskAndn
	X86MaskOr
	X86MaskXor
	X86MaskXnor
	X86MaskNot
	X86MaskUnpack
	X86MaskCopy
	X86MaskLeft
	X86MaskRight
	X86MaskAdd

	X86IsLess // of X86Vtomask: imm says how: 0 to 7 as of vpcmp
	X86IsLessU
	X86TestAny
	X86TestNone
)
