// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// Made of sample/trace/x86.go by `go test ./sample/collect -run TestOpHeaders -update`; edit that instead.

// What operands are if no register.
enum {
	MEM = 16, // for Dst and Src
	IMM = 17,
	NONE = 18,
	NO_REG = 16, // for Base and Index
	BASE_IMAGE = 17, // for Base: the address is Disp, as linked
};

// What operations do with their operands.
enum {
	F_HAS_MEM = 1, // has a memory operand
	F_READS_DST = 2, // reads its destination
	F_WRITES_DST = 4, // writes it
	F_READS_SRC = 8, // reads its source
	F_FS = 16, // the memory operand is relative to %fs
};

// Kinds of operations, beside those that every processor has.
enum {
	MOV = 1,
	MOVZX = 2, // cond: bytes of the destination
	MOVSX = 3,
	LEA = 4,
	ADD = 5,
	OR = 6,
	ADC = 7,
	SBB = 8,
	AND = 9,
	SUB = 10,
	XOR = 11,
	CMP = 12,
	TEST = 13,
	INC = 14,
	DEC = 15,
	NEG = 16,
	NOT = 17,
	SHL = 18,
	SHR = 19,
	SAR = 20,
	ROL = 21,
	ROR = 22,
	SHLD = 23, // dst, register cond; imm < 0: by cl
	SHRD = 24,
	IMUL = 25, // dst = dst * src
	IMUL3 = 26, // dst = src * imm
	MUL_WIDE = 27, // rdx:rax = rax * src
	IMUL_WIDE = 28,
	DIV = 29,
	IDIV = 30,
	SETCC = 31,
	CMOV = 32,
	BT = 33,
	BTS = 34,
	BTR = 35,
	BTC = 36,
	BSF = 37,
	BSR = 38,
	TZCNT = 39,
	LZCNT = 40,
	POPCNT = 41,
	BSWAP = 42,
	CBW = 43, // cbw, cwde, cdqe, by size
	CWD = 44, // cwd, cdq, cqo
	PUSH = 45,
	POP = 46,
	LEAVE = 47,
};

enum {
	XCHG = 54,
	XADD = 55,
	CMPXCHG = 56,
	NOP = 57,
	CLOBBER = 58, // imm: registers that are not known afterwards, FLAGS, vectors from bit 32 on; size: bytes of dst
	SHLX = 59, // dst = src shifted by register cond, without flags
	SHRX = 60,
	SARX = 61,
	RORX = 62, // by imm
	ANDN = 63, // dst = src and not register cond
	BZHI = 64, // dst = src without bits from register cond on
	BLSR = 65, // dst = src without its lowest bit
	BLSI = 66, // no more than it
	BLSMSK = 67, // up to it
	MOVBE = 68,
	VLOAD = 69, // vector register dst = size bytes of memory, the rest of cond bytes 0
	VLOAD_LOW = 70, // the same, rest kept
	VHIGH = 71, // second word of dst = 8 bytes of memory
	VSTORE = 72, // size bytes of vector register src
	VSTORE_HIGH = 73, // second word of it
	VMOV = 74, // size bytes of dst = src, the rest of cond bytes 0
	VMOV_LOW = 75, // the same, rest kept
	VFROM = 76, // vector register dst = general register src
	VTO = 77, // general register dst = vector register src
	VMASKB = 78, // general register dst = top bits of the bytes of src
	VZEROUPPER = 79,
	VTEST = 80, // flags by dst and src
	VUNPACK = 81, // dst = elements of cond and src in turn; imm: their size, from bit 8 on the word
	VSHUFD = 82, // by imm: double words; words of the first or the second half with bit 8 or 9
	VSHIFT = 83, // by imm bytes to the right
	VBCAST = 84, // element of size bytes of src in cond bytes
	VXOR = 85, // from here on word by word: dst = f(cond, src)
	VAND = 86,
	VOR = 87,
	VANDN = 88,
	VCMPB = 89,
	VCMPW = 90,
	VCMPD = 91,
	VCMPQ = 92,
	VMINB = 93,
	VADDD = 94,
	VSUBD = 95,
	VADDQ = 96,
};
