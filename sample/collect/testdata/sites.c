// See sites.h.
#include "sites.h"

#define LABEL(i) ".globl site_" #i "\nsite_" #i ": "

// The stack is used below what a leaf function may keep there. Only lea leaves the
// flags alone.
#define DOWN "lea -128(%%rsp), %%rsp\n"
#define UP "lea 128(%%rsp), %%rsp\n"

#define BRANCH(i, jcc)                                                        \
	__asm__ volatile(DOWN "push %[flags]\npopfq\n" UP                     \
		LABEL(i) jcc " 1f\n"                                          \
		"incq %[passed]\njmp 2f\n1: incq %[taken]\n2:"                \
		: [passed] "+m"(c->passed[i]), [taken] "+m"(c->taken[i])      \
		: [flags] "r"(flags) : "cc")

#define CONDITION(i, near, cc) BRANCH(i, "%{disp8%} j" cc); BRANCH(near, "%{disp32%} j" cc)

#define JUMP(i, jmp) \
	__asm__ volatile(LABEL(i) jmp " 1f\nud2\n1: incq %0" : "+m"(c->passed[i]) : : "cc")

#define PUSH(i, reg) do {                                                     \
		uint64_t got;                                                 \
		__asm__ volatile("mov %[value], %%" reg "\n" DOWN             \
			LABEL(i) "push %%" reg "\npop %[got]\n" UP "incq %[n]" \
			: [n] "+m"(c->passed[i]), [got] "=&r"(got)            \
			: [value] "r"(value) : reg, "cc");                    \
		wrong |= got != value;                                        \
	} while (0)

#define NOP(i, bytes) \
	__asm__ volatile(LABEL(i) ".byte " bytes "\nincq %0" : "+m"(c->passed[i]) : : "cc")

__attribute__((noinline, noclone)) int run(uint64_t n, struct counts *c)
{
	int wrong = 0;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t value = 0x0123456789abcdef * (k + 1);
		// OF is bit 11, SF 7, ZF 6, PF 2, CF 0; IF and bit 1 are always set.
		uint64_t flags = 0x202 | (k & 1) | (k >> 1 & 1) << 2 | (k >> 2 & 1) << 6 | (k >> 3 & 1) << 7 | (k >> 4 & 1) << 11;
		CONDITION(0, 16, "o");
		CONDITION(1, 17, "no");
		CONDITION(2, 18, "b");
		CONDITION(3, 19, "ae");
		CONDITION(4, 20, "e");
		CONDITION(5, 21, "ne");
		CONDITION(6, 22, "be");
		CONDITION(7, 23, "a");
		CONDITION(8, 24, "s");
		CONDITION(9, 25, "ns");
		CONDITION(10, 26, "p");
		CONDITION(11, 27, "np");
		CONDITION(12, 28, "l");
		CONDITION(13, 29, "ge");
		CONDITION(14, 30, "le");
		CONDITION(15, 31, "g");
		JUMP(32, "%{disp8%} jmp");
		JUMP(33, "%{disp32%} jmp");
		__asm__ volatile(DOWN LABEL(34) "call 1f\njmp 2f\n1: incq %0\nret\n2: " UP : "+m"(c->passed[34]) : : "cc");
		PUSH(35, "rbx");
		PUSH(36, "r9");
		NOP(37, "0x90");
		NOP(38, "0x66, 0x90");
		NOP(39, "0x0f, 0x1f, 0x00");
		NOP(40, "0x0f, 0x1f, 0x40, 0x00");
		NOP(41, "0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00");
		NOP(42, "0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00");
		NOP(43, "0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00");
	}
	// Not to be probed: a nop of 5 bytes, and an instruction that is stepped.
	__asm__ volatile(".globl nop5\nnop5: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n.globl stepped\nstepped: mov %%eax, %%eax" : : : "rax");
	return wrong;
}
