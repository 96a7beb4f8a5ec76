// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// Made of sample/trace/arm.go by `go test ./sample/collect -run TestOpHeaders -update`; edit that instead.

// What operands are if no register; 31 is the stack pointer.
enum {
	ZERO = 32, // the zero register
	NONE = 33,
	BASE_IMAGE = 34, // for Base: the address is Imm, as linked
};

// What operations do with their operands.
enum {
	F_HAS_MEM = 1, // has a memory operand: base, index and disp; with BASE_IMAGE, imm
	F_IMM = 2, // the second operand is imm, else register index as ext and scale say
	F_NOT = 4, // it is inverted
	F_INC = 8, // one is added
	F_FLAGS = 16, // sets the flags
	F_PRE = 32, // the address is written to its base
	F_POST = 64, // it is afterwards; the access is at the base
	F_SIGN = 128, // of signed numbers
};

// Kinds of operations, beside those that every processor has. Unless said otherwise, the operands
// are register src and the second one, and register dst is the result.
enum {
	LEA = 1, // dst = address imm of the image
	ADD = 2,
	ADC = 3,
	AND = 4,
	ORR = 5,
	EOR = 6,
	MOVK = 7, // 16 bits of dst from bit scale on = imm
	UBF = 8, // bits of src from cond on, imm of them, go to bit scale on; the others become 0,
	SBF = 9, // or copies of the highest one and 0,
	BFI = 10, // or stay
	EXTR = 11, // from bit imm on
	CSEL = 12, // if cond src, else the second
	CCMP = 13, // if cond, flags as of an addition; else they are base
	MADD = 14, // register base + src * index; F_NOT: less the product; cond: 4 is of lower halves, F_SIGN of signed ones
	MULH = 15, // upper half of a product
	DIV = 16, // F_SIGN
	SHIFT = 17, // src by the second operand; cond as ext
	RBIT = 18,
	REV = 19, // of cond bytes each
	CLZ = 20,
	CLS = 21,
	STRIP = 22, // takes signatures off an address
	TLS = 23, // thread pointer
	GETF = 24, // flags to register
	SETF = 25,
	LOAD = 26, // size bytes; F_SIGN: as signed ones of cond bytes
	LOADP = 27, // into dst and cond; F_SIGN: as signed ones of 8 bytes
	LOADX = 28, // and it begins an exclusive access; cond is NONE for one register
	STORE = 29, // of src
	STOREP = 30, // of src and cond
	STOREX = 31, // the same, dst says whether it failed; cond is NONE for one register
	CLREX = 32,
	ATOMIC = 33, // dst = memory, which becomes a function of src, ATOMIC_*
	CAS = 34, // if memory is dst, it becomes src; dst = memory
	NOP = 35,
	CLOBBER = 36, // imm: registers that are not known afterwards, vectors from bit 32 on; F_FLAGS; with F_HAS_MEM, size bytes of memory
};

enum {
	VLOAD = 54, // vector register dst
	VLOADP = 55, // and cond
	VLOADN = 56, // cond of them
	VLOADR = 57, // all elements of dst, in cond bytes
	VSTORE = 58, // of src
	VSTOREP = 59,
	VSTOREN = 60,
	VFROM = 61, // all elements of size bytes in cond bytes of dst = general register src
	VTO = 62, // general register dst = element at byte imm of src; F_SIGN: to cond bytes
	VPUT = 63, // element at byte imm of dst = general register src
	VDUP = 64, // all elements in cond bytes of dst = element at byte imm of src
	VINS = 65, // element at byte imm of dst = that at byte cond of src
	VIMM = 66, // cond bytes of dst = imm
	VEXT = 67, // bytes from imm on of src and index
	VNARROW = 68, // elements of size bytes of dst = those of twice the size of src, shifted by imm; F_INC: in the upper half of it
	VADDV = 69, // dst = sum of the elements of src, of which there are cond bytes
	VMAXV = 70,
	VMINV = 71,
	VCNT = 72,
	VADDP = 73, // pairs of src, then of index, of elements of size bytes in cond bytes
	VUMAXP = 74,
	VUMINP = 75,
	VAND = 76, // from here on word by word: dst = f(src, index), of elements of size bytes in cond bytes; F_IMM: of src and imm
	VORR = 77,
	VEOR = 78,
	VBSL = 79, // by the bits of dst
	VBIT = 80, // of index
	VBIF = 81,
	VADD = 82,
	VSUB = 83,
	VCMEQ = 84,
	VCMTST = 85,
	VCMHI = 86, // F_SIGN: of signed numbers
	VCMHS = 87,
	VMAX = 88,
	VMIN = 89,
	VSHL = 90, // by imm
	VSHR = 91,
};

// How a second operand is shifted, or extended and then shifted to the left: from UXTB on as the
// manual's field option.
enum {
	LSL = 0,
	LSR = 1,
	ASR = 2,
	ROR = 3,
	UXTB = 4,
	UXTH = 5,
	UXTW = 6,
	UXTX = 7,
	SXTB = 8,
	SXTH = 9,
	SXTW = 10,
	SXTX = 11,
};

// How a conditional branch tests.
enum {
	IF_FLAGS = 0, // by cond
	IF_ZERO = 1, // all bits of src are 0
	IF_NOT_ZERO = 2, // any is not
	IF_CLEAR = 3, // the one at scale is 0
	IF_SET = 4, // it is not
};

// Functions of ATOMIC: but for the last, as the manual's field opc.
enum {
	ATOMIC_ADD = 0,
	ATOMIC_CLR = 1,
	ATOMIC_EOR = 2,
	ATOMIC_SET = 3,
	ATOMIC_SMAX = 4,
	ATOMIC_SMIN = 5,
	ATOMIC_UMAX = 6,
	ATOMIC_UMIN = 7,
	ATOMIC_SWAP = 8,
};
