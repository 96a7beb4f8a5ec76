package trace

// What operands are if no register; 31 is the stack pointer.
const (
	ArmZero      = 32 // the zero register
	ArmNone      = 33
	ArmBaseImage = 34 // for Base: the address is Imm, as linked
)

// What operations do with their operands.
const (
	ArmHasMem Flags = 1 << iota // has a memory operand: base, index and disp; with BASE_IMAGE, imm
	ArmImm                      // the second operand is imm, else register index as ext and scale say
	ArmNot                      // it is inverted
	ArmInc                      // one is added
	ArmFlags                    // sets the flags
	ArmPre                      // the address is written to its base
	ArmPost                     // it is afterwards; the access is at the base
	ArmSign                     // of signed numbers
)

// Kinds of operations, beside those that every processor has. Unless said otherwise, the operands
// are register src and the second one, and register dst is the result.
const (
	ArmLea Kind = Stop + 1 + iota // dst = address imm of the image
	ArmAdd
	ArmAdc
	ArmAnd
	ArmOrr
	ArmEor
	ArmMovk  // 16 bits of dst from bit scale on = imm
	ArmUbf   // bits of src from cond on, imm of them, go to bit scale on; the others become 0,
	ArmSbf   // or copies of the highest one and 0,
	ArmBfi   // or stay
	ArmExtr  // from bit imm on
	ArmCsel  // if cond src, else the second
	ArmCcmp  // if cond, flags as of an addition; else they are base
	ArmMadd  // register base + src * index; F_NOT: less the product; cond: 4 is of lower halves, F_SIGN of signed ones
	ArmMulh  // upper half of a product
	ArmDiv   // F_SIGN
	ArmShift // src by the second operand; cond as ext
	ArmRbit
	ArmRev // of cond bytes each
	ArmClz
	ArmCls
	ArmStrip // takes signatures off an address
	ArmTls   // thread pointer
	ArmGetf  // flags to register
	ArmSetf
	ArmLoad   // size bytes; F_SIGN: as signed ones of cond bytes
	ArmLoadp  // into dst and cond; F_SIGN: as signed ones of 8 bytes
	ArmLoadx  // and it begins an exclusive access; cond is NONE for one register
	ArmStore  // of src
	ArmStorep // of src and cond
	ArmStorex // the same, dst says whether it failed; cond is NONE for one register
	ArmClrex
	ArmAtomic // dst = memory, which becomes a function of src, ATOMIC_*
	ArmCas    // if memory is dst, it becomes src; dst = memory
	ArmNop
	ArmClobber // imm: registers that are not known afterwards, vectors from bit 32 on; F_FLAGS; with F_HAS_MEM, size bytes of memory
)

const (
	ArmVload  Kind = CondJump + 1 + iota // vector register dst
	ArmVloadp                            // and cond
	ArmVloadn                            // cond of them
	ArmVloadr                            // all elements of dst, in cond bytes
	ArmVstore                            // of src
	ArmVstorep
	ArmVstoren
	ArmVfrom   // all elements of size bytes in cond bytes of dst = general register src
	ArmVto     // general register dst = element at byte imm of src; F_SIGN: to cond bytes
	ArmVput    // element at byte imm of dst = general register src
	ArmVdup    // all elements in cond bytes of dst = element at byte imm of src
	ArmVins    // element at byte imm of dst = that at byte cond of src
	ArmVimm    // cond bytes of dst = imm
	ArmVext    // bytes from imm on of src and index
	ArmVnarrow // elements of size bytes of dst = those of twice the size of src, shifted by imm; F_INC: in the upper half of it
	ArmVaddv   // dst = sum of the elements of src, of which there are cond bytes
	ArmVmaxv
	ArmVminv
	ArmVcnt
	ArmVaddp // pairs of src, then of index, of elements of size bytes in cond bytes
	ArmVumaxp
	ArmVuminp
	ArmVand // from here on word by word: dst = f(src, index), of elements of size bytes in cond bytes; F_IMM: of src and imm
	ArmVorr
	ArmVeor
	ArmVbsl // by the bits of dst
	ArmVbit // of index
	ArmVbif
	ArmVadd
	ArmVsub
	ArmVcmeq
	ArmVcmtst
	ArmVcmhi // F_SIGN: of signed numbers
	ArmVcmhs
	ArmVmax
	ArmVmin
	ArmVshl // by imm
	ArmVshr
)

// How a second operand is shifted, or extended and then shifted to the left: from UXTB on as the
// manual's field option.
const (
	ArmLSL = iota
	ArmLSR
	ArmASR
	ArmROR
	ArmUXTB
	ArmUXTH
	ArmUXTW
	ArmUXTX
	ArmSXTB
	ArmSXTH
	ArmSXTW
	ArmSXTX
)

// How a conditional branch tests.
const (
	ArmIfFlags   = iota // by cond
	ArmIfZero           // all bits of src are 0
	ArmIfNotZero        // any is not
	ArmIfClear          // the one at scale is 0
	ArmIfSet            // it is not
)

// Functions of ATOMIC: but for the last, as the manual's field opc.
const (
	ArmAtomicAdd = iota
	ArmAtomicClr
	ArmAtomicEor
	ArmAtomicSet
	ArmAtomicSmax
	ArmAtomicSmin
	ArmAtomicUmax
	ArmAtomicUmin
	ArmAtomicSwap
)
