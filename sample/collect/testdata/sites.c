// See sites.h.
#include "sites.h"

#define LABEL(i) ".globl site_" #i "\nsite_" #i ": "

#ifdef __aarch64__

#define BRANCH(i, test, value) \
	__asm__ volatile("msr nzcv, %[flags]\n" LABEL(i) test " 1f\n"        \
		"add %[passed], %[passed], #1\nb 2f\n1: add %[taken], %[taken], #1\n2:" \
		: [passed] "+r"(c->passed[i]), [taken] "+r"(c->taken[i])      \
		: [flags] "r"(k << 28 & 0xf0000000), [v] "r"(value) : "cc")
#define CONDITION(i, cc) BRANCH(i, "b." cc, 0)

__attribute__((noinline, noclone)) int run(uint64_t n, struct counts *c)
{
	int wrong = 0;
	for (uint64_t k = 0; k < n; k++) {
		CONDITION(0, "eq");
		CONDITION(1, "ne");
		CONDITION(2, "cs");
		CONDITION(3, "cc");
		CONDITION(4, "mi");
		CONDITION(5, "pl");
		CONDITION(6, "vs");
		CONDITION(7, "vc");
		CONDITION(8, "hi");
		CONDITION(9, "ls");
		CONDITION(10, "ge");
		CONDITION(11, "lt");
		CONDITION(12, "gt");
		CONDITION(13, "le");
		BRANCH(14, "cbz %[v],", k & 1);
		BRANCH(15, "cbnz %w[v],", k & 1);
		BRANCH(16, "cbz %w[v],", (k & 2) | 1ull << 32); // the upper half does not count
		BRANCH(17, "cbnz %[v],", k << 60);
		BRANCH(18, "tbz %w[v], #0,", k);
		BRANCH(19, "tbnz %w[v], #3,", k);
		BRANCH(20, "tbz %[v], #63,", k << 59);
		BRANCH(21, "tbnz %[v], #31,", k << 29);
		uint64_t got, want;
		__asm__ volatile(LABEL(22) "b 1f\nbrk #1\n1: add %0, %0, #1" : "+r"(c->passed[22]));
		__asm__ volatile(LABEL(23) "bl 1f\nb 2f\n1: add %0, %0, #1\nret\n2:" : "+r"(c->passed[23]) : : "x30");
		__asm__ volatile("bl 1f\n1: add %[want], x30, #8\n" LABEL(24) "adr %[got], 1f\nadd %[n], %[n], #1\n1:" // two instructions behind
			: [n] "+r"(c->passed[24]), [got] "=&r"(got), [want] "=&r"(want) : : "x30");
		wrong |= got != want + 4;
		__asm__ volatile("adr %[want], 1f\n" LABEL(25) "adrp %[got], 1f\nadd %[n], %[n], #1\n1:" : [n] "+r"(c->passed[25]), [got] "=&r"(got), [want] "=&r"(want));
		wrong |= got != (want & ~0xfffull);
	}
	// Not to be probed: a branch to a register, and an instruction that is stepped.
	__asm__ volatile("adr x9, 1f\n.globl register\nregister: br x9\n1:\n.globl stepped\nstepped: mov x9, x9" : : : "x9");
	return wrong;
}

#else

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

#endif
