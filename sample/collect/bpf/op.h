// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// Made of sample/trace/op.go and end.go by `go test ./sample/collect -run TestOpHeaders -update`; edit that instead.

// An Op is what one instruction does with registers, memory and flags, as the emulator of
// walks takes it. Of what is not understood in detail it only says what is no longer known
// after it.
struct op {
	u8 kind;
	u8 size; // of the operands, in bytes
	u8 dst; // register, or what else the kind says
	u8 src;
	u8 base; // of the memory operand
	u8 index;
	u8 scale;
	u8 flags;
	u8 cond; // condition, or what else the kind says
	u8 ext; // of AArch64: how the register index is shifted or extended; of a branch, what it tests
	u8 quick; // of a Machine; 0 until NewCode
	u8 pad0;
	s32 disp;
	u32 to; // of a direct branch: index of an operation; 0 is outside, and until NewCode
	u32 needs; // what must be known for quick: bit by register, and the flags
	s64 imm;
};

// Kinds of operations that every processor has.
enum {
	STOP = 0, // not emulated, nor is what comes after it
	CALL = 48, // imm: the address to come back to
	CALL_IND = 49, // likewise
	RET = 50, // of x86-64, cond: bytes that it pops beside the address
	JUMP = 51,
	JUMP_IND = 52,
	COND_JUMP = 53,
};

// What one trail has room for.
enum {
	MOST_OUTCOMES = 512,
	MOST_TARGETS = 256,
};

// A trail is what the emulator writes of a walk: the code tells the rest of the path. Targets
// that it has no use for are cut off.
struct trail {
	u32 start; // operation
	u32 steps;
	u32 end;
	u32 outcomes; // conditional branches
	u32 targets; // indirect branches and returns
	u32 pages; // of the image that left is in
	u64 left; // with END_OUTSIDE, by an indirect branch: the address, as linked, that it went to; 0 is in no image
	u64 taken[8]; // bit by conditional branch
	u64 guessed[8]; // likewise: it is not known whether it is taken
	u32 target[256]; // operations that indirect branches and returns went to
};

// How walks ended.
enum {
	END_LENGTH = 0, // at its full length
	END_OP = 1, // an instruction that is not emulated
	END_BRANCH = 2, // it is not known where a branch goes, and too much was guessed
	END_OUTSIDE = 3, // left the code that is known
	END_ADDRESS = 4, // it is not known where something is stored
	END_ROOM = 5,
	END_START = 6, // nothing is known of the code where it begins
	ENDS = 7,
};
