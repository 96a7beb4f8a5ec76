package trace

// What operands are if no register.
const (
	X86Mem  = 16 // for Dst and Src
	X86Imm  = 17
	X86None = 18

	X86NoReg     = 16 // for Base and Index
	X86BaseImage = 17 // for Base: the address is Disp, as linked
)

// What operations do with their operands.
const (
	X86HasMem    Flags = 1 << iota // has a memory operand
	X86ReadsDst                    // reads its destination
	X86WritesDst                   // writes it
	X86ReadsSrc                    // reads its source
	X86FS                          // the memory operand is relative to %fs
)

// Kinds of operations, beside those that every processor has.
const (
	X86Mov   Kind = Stop + 1 + iota
	X86Movzx      // cond: bytes of the destination
	X86Movsx
	X86Lea
	X86Add
	X86Or
	X86Adc
	X86Sbb
	X86And
	X86Sub
	X86Xor
	X86Cmp
	X86Test
	X86Inc
	X86Dec
	X86Neg
	X86Not
	X86Shl
	X86Shr
	X86Sar
	X86Rol
	X86Ror
	X86Shld // dst, register cond; imm < 0: by cl
	X86Shrd
	X86Imul    // dst = dst * src
	X86Imul3   // dst = src * imm
	X86MulWide // rdx:rax = rax * src
	X86ImulWide
	X86Div
	X86Idiv
	X86Setcc
	X86Cmov
	X86Bt
	X86Bts
	X86Btr
	X86Btc
	X86Bsf
	X86Bsr
	X86Tzcnt
	X86Lzcnt
	X86Popcnt
	X86Bswap
	X86Cbw // cbw, cwde, cdqe, by size
	X86Cwd // cwd, cdq, cqo
	X86Push
	X86Pop
	X86Leave
)

const (
	X86Xchg Kind = CondJump + 1 + iota
	X86Xadd
	X86Cmpxchg
	X86Nop
	X86Clobber // imm: registers that are not known afterwards, FLAGS, vectors from bit 32 on; size: bytes of dst
	X86Shlx    // dst = src shifted by register cond, without flags
	X86Shrx
	X86Sarx
	X86Rorx   // by imm
	X86Andn   // dst = src and not register cond
	X86Bzhi   // dst = src without bits from register cond on
	X86Blsr   // dst = src without its lowest bit
	X86Blsi   // no more than it
	X86Blsmsk // up to it
	X86Movbe
	X86Vload      // vector register dst = size bytes of memory, the rest of cond bytes 0
	X86VloadLow   // the same, rest kept
	X86Vhigh      // second word of dst = 8 bytes of memory
	X86Vstore     // size bytes of vector register src
	X86VstoreHigh // second word of it
	X86Vmov       // size bytes of dst = src, the rest of cond bytes 0
	X86VmovLow    // the same, rest kept
	X86Vfrom      // vector register dst = general register src
	X86Vto        // general register dst = vector register src
	X86Vmaskb     // general register dst = top bits of the bytes of src
	X86Vzeroupper
	X86Vtest   // flags by dst and src
	X86Vunpack // dst = elements of cond and src in turn; imm: their size, from bit 8 on the word
	X86Vshufd  // by imm: double words; words of the first or the second half with bit 8 or 9
	X86Vshift  // by imm bytes to the right
	X86Vbcast  // element of size bytes of src in cond bytes
	X86Vxor    // from here on word by word: dst = f(cond, src)
	X86Vand
	X86Vor
	X86Vandn
	X86Vcmpb
	X86Vcmpw
	X86Vcmpd
	X86Vcmpq
	X86Vminb
	X86Vaddd
	X86Vsubd
	X86Vaddq
)
