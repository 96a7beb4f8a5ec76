// Executes A64 instructions one by one and holds the emulator of walks to what they did. Reads tests from
// the file that it is given: an instruction, its operation, and how often to try it, each time with other
// registers and memory. Prints what differs.
//
// It includes the emulator as the kernel runs it, with the kernel's helpers replaced.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define __TARGET_ARCH_arm64
static void *lookup(void *map, const void *key);
static long read_user(void *to, unsigned size, const void *from);
#include "../../../sample/collect/bpf/kernel.h"
#define map_lookup lookup
#define write write_line
#define access access_memory
#define probe_read_user read_user
#include "../../../sample/collect/bpf/walkarm.h"

static struct state the_state;
static struct op the_op;
static u32 found;

enum { ARENA = 1 << 13, CODE = 4096, OPERATIONS = 100 };

static u8 *code; // a page; the instruction is in the middle of it
static u8 arena[ARENA] __attribute__((aligned(4096)));
static u8 before[ARENA];

const volatile u32 longest = 1, guesses = 0;

static void *lookup(void *map, const void *key)
{
	static u32 one = 1;
	if (map == &states)
		return &the_state;
	if (map == &ops)
		return &the_op;
	if (map == &pages)
		return &one;
	if (map == &starts) {
		u32 b = *(u32 *)key & (PAGE - 1);
		found = b / 4 + OPERATIONS;
		return &found;
	}
	return 0;
}

static int mapped(u64 at, u64 n) { return at >= (u64)arena && at + n <= (u64)arena + ARENA; }
static int in_code(u64 at, u64 n) { return at >= (u64)code && at + n <= (u64)code + CODE; }

static long read_user(void *to, u32 size, const void *from)
{
	if (!mapped((u64)from, size) && !in_code((u64)from, size))
		return -1;
	memcpy(to, from, size);
	return 0;
}

// What the processor has before and after an instruction.
struct context {
	u64 x[31], sp, nzcv;
	u64 tls;     // at 264
	u64 v[64];   // at 272
	u64 fpcr, way; // at 784; way at 792: 1 after the instruction, 2 where it branched to
};

static struct context context_in, context_out;
static u64 host[2]; // its own stack and thread pointer; not in the page of the code, which would be translated anew

static u64 seed = 88172645463325252ull;
static u64 rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * 0x2545f4914f6cdd1dull;
}

// A number as programs have them: small ones, those of few bits, those near the ends of ranges.
static u64 number(void)
{
	static const u64 some[] = {0, 1, 2, 7, 8, 31, 32, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0x0101010101010101, 0x8080808080808080};
	u64 v = rnd();
	switch (rnd() % 8) {
	case 0: return some[v % (sizeof some / sizeof *some)];
	case 1: return -some[v % (sizeof some / sizeof *some)];
	case 2: return v & 0xff;
	case 3: return v >> (rnd() & 63);
	case 4: return (s64)v >> (rnd() & 63);
	case 5: return v & rnd() & rnd();
	case 6: return v | 0xffffffff00000000;
	}
	return v;
}

// The code around the instruction. All registers are loaded before it and stored after it; x0 is kept in
// tpidr_el0 meanwhile.
#define STR1(x) #x
#define STR(x) STR1(x)
#define PAIRS(op) \
	op " x2, x3, [x0, #16]\n" op " x4, x5, [x0, #32]\n" op " x6, x7, [x0, #48]\n" op " x8, x9, [x0, #64]\n" \
	op " x10, x11, [x0, #80]\n" op " x12, x13, [x0, #96]\n" op " x14, x15, [x0, #112]\n" op " x16, x17, [x0, #128]\n" \
	op " x18, x19, [x0, #144]\n" op " x20, x21, [x0, #160]\n" op " x22, x23, [x0, #176]\n" op " x24, x25, [x0, #192]\n" \
	op " x26, x27, [x0, #208]\n" op " x28, x29, [x0, #224]\n"
#define VECTORS(op) \
	"add x1, x0, #272\n" \
	op " q0, q1, [x1]\n" op " q2, q3, [x1, #32]\n" op " q4, q5, [x1, #64]\n" op " q6, q7, [x1, #96]\n" \
	op " q8, q9, [x1, #128]\n" op " q10, q11, [x1, #160]\n" op " q12, q13, [x1, #192]\n" op " q14, q15, [x1, #224]\n" \
	op " q16, q17, [x1, #256]\n" op " q18, q19, [x1, #288]\n" op " q20, q21, [x1, #320]\n" op " q22, q23, [x1, #352]\n" \
	op " q24, q25, [x1, #384]\n" op " q26, q27, [x1, #416]\n" op " q28, q29, [x1, #448]\n" op " q30, q31, [x1, #480]\n"

extern const u8 begin_code[], end_code[], where_code[], in_word[], out_word[], host_word[];
// void code(void): context_in, the instruction, context_out.
__asm__(
	".balign 8\n.globl begin_code\nbegin_code:\n"
	"stp x29, x30, [sp, #-160]!\nstp x19, x20, [sp, #16]\nstp x21, x22, [sp, #32]\nstp x23, x24, [sp, #48]\nstp x25, x26, [sp, #64]\n"
	"stp x27, x28, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
	"ldr x0, host_word\nmov x1, sp\nstr x1, [x0]\nmrs x1, tpidr_el0\nstr x1, [x0, #8]\n"
	"ldr x0, in_word\n"
	VECTORS("ldp")
	"ldr x1, [x0, #256]\nmsr nzcv, x1\nldr x1, [x0, #248]\nmov sp, x1\n"
	PAIRS("ldp")
	"ldr x30, [x0, #240]\nldr x1, [x0, #8]\nldr x0, [x0]\n"
	".globl where_code\nwhere_code:\n"
	"nop\n"
	"b 1f\n"
	"msr tpidr_el0, x0\nldr x0, out_word\nstr x1, [x0, #8]\nmov x1, #2\nb 2f\n" // where it branched to, 8 bytes on
	"1: msr tpidr_el0, x0\nldr x0, out_word\nstr x1, [x0, #8]\nmov x1, #1\n"
	"2: str x1, [x0, #792]\nmrs x1, nzcv\nstr x1, [x0, #256]\nmov x1, sp\nstr x1, [x0, #248]\n"
	PAIRS("stp")
	"str x30, [x0, #240]\nmrs x1, tpidr_el0\nstr x1, [x0]\n"
	VECTORS("stp")
	"ldr x0, host_word\nldr x1, [x0, #8]\nmsr tpidr_el0, x1\nldr x1, [x0]\nmov sp, x1\n"
	"ldp x19, x20, [sp, #16]\nldp x21, x22, [sp, #32]\nldp x23, x24, [sp, #48]\nldp x25, x26, [sp, #64]\n"
	"ldp x27, x28, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
	"ldp x29, x30, [sp], #160\nret\n"
	".balign 8\n.globl in_word\nin_word: .quad 0\n.globl out_word\nout_word: .quad 0\n.globl host_word\nhost_word: .quad 0\n"
	".globl end_code\nend_code:\n");

static sigjmp_buf faulted;
static void on_fault(int sig)
{
	siglongjmp(faulted, sig);
}

// A test as the file has it.
struct test {
	u32 word, times;
	u32 strict; // all that it gives is known if its operands are
	u32 pad;
	struct op op;
};

static struct test test;
static u8 *at; // of the instruction

static const char *what;
static u64 want, got;
static int where;
static int differs(const char *name, int i, u64 w, u64 g)
{
	what = name;
	where = i;
	want = w;
	got = g;
	return 1;
}

// prepare makes registers and memory.
static void prepare(int again)
{
	struct context *c = &context_in;
	struct op *op = &test.op;
	for (int i = 0; i < 31; i++)
		c->x[i] = number();
	for (int i = 0; i < 64; i++)
		c->v[i] = number();
	if (rnd() & 1) // so that elements are equal
		for (int i = 0; i < 64; i++)
			c->v[i] = rnd() & 1 ? c->v[rnd() % 64] : (c->v[i] & rnd()) | (c->v[rnd() % 64] & rnd());
	c->nzcv = rnd() & 0xf0000000;
	for (int i = 0; !again && i < ARENA; i += 8) {
		u64 v = number();
		memcpy(arena + i, &v, 8);
	}
	u64 middle = (u64)arena + ARENA / 2;
	c->sp = middle + (rnd() & 0x3f0);
	if (rnd() & 1) { // registers that are equal
		u64 v = c->x[test.word >> 5 & 15];
		c->x[test.word >> 16 & 15] = v;
	}
	if (op->kind == STRIP)
		for (int i = 0; i < 31; i++)
			c->x[i] &= USER_ADDRESS;
	if (op->flags & F_HAS_MEM) {
		u32 w = test.word; // of ordered, exclusive and atomic accesses
		u32 align = (w & 0x3f000000) == 0x08000000 || (w & 0x3f000000) == 0x19000000 || (w & 0x3f200c00) == 0x38200000 ? 15 : 0;
		if (op->index < 31)
			c->x[op->index] = rnd() % 4 ? rnd() & 0x3ff & ~(u64)align : -(u64)(rnd() & 0x3ff & ~align);
		if (op->index < 31 && op->ext >= UXTB && op->ext != UXTX && op->ext != SXTX)
			c->x[op->index] = (rnd() & 0x3ff) | (op->ext == UXTW ? rnd() << 32 : 0);
		u64 to = middle - 1024 + ((rnd() & 0x7ff) & ~align);
		if (!(op->flags & F_POST)) {
			to -= (s64)op->disp;
			if (op->index < 31)
				to -= shifted(c->x[op->index], op->ext, op->scale, 8);
		}
		if (op->base < 31)
			c->x[op->base] = to;
		if (op->base == 31)
			c->sp = to & ~15ull;
	}
	if (op->kind == JUMP_IND || op->kind == CALL_IND || op->kind == RET)
		if (op->src < 31)
			c->x[op->src] = (u64)at + 8;
	// Of an equal value, for what compares with memory.
	if (op->kind == CAS && op->base < 32 && rnd() & 1 && op->dst < 31 && op->dst != op->base) {
		u64 a = op->base == 31 ? c->sp : c->x[op->base];
		if (mapped(a, 8))
			memcpy(&c->x[op->dst], (void *)a, op->size);
	}
}

// emulate has the emulator take the instruction.
static int emulate(void)
{
	struct state *s = &the_state;
	u64 walk = s->walk + 1;
	s->walk = walk;
	memcpy(s->regs, context_in.x, sizeof context_in.x);
	s->regs[31] = context_in.sp;
	memcpy(s->v, context_in.v, sizeof s->v);
	s->known = 0xffffffff | FLAGS_KNOWN;
	s->vknown = ~0ull;
	s->fa = context_in.nzcv;
	s->fb = 0;
	s->tls = context_in.tls;
	s->bias = (u64)code - 0x10000;
	s->lo = (u64)code;
	s->hi = (u64)code + CODE;
	s->first = (u64)code - s->bias;
	s->pages = 0;
	s->many = 1;
	s->pc = 1;
	s->left = 1;
	s->end = END_LENGTH;
	s->guesses = 0;
	memset(&s->trail, 0, sizeof s->trail);
	the_op = test.op;
	return one();
}

static int compare(void)
{
	struct state *s = &the_state;
	struct context *o = &context_out;
	int known = 1;
	for (int i = 0; i < 32; i++) {
		u64 w = i < 31 ? o->x[i] : o->sp;
		if (!(s->known >> i & 1))
			known = 0;
		else if (s->regs[i] != w)
			return differs("x", i, w, s->regs[i]);
	}
	if (!(s->known & FLAGS_KNOWN))
		known = 0;
	else if (s->fa != o->nzcv)
		return differs("flags", 0, o->nzcv, s->fa);
	for (int i = 0; i < 64; i++) {
		if (!(s->vknown >> i & 1))
			known = 0;
		else if (s->v[i] != o->v[i])
			return differs("word of a vector", i, o->v[i], s->v[i]);
	}
	// What the emulator would have written, and what of it is known.
	for (int h = 0; h < LINES; h++) {
		struct line *l = &s->lines[h];
		if (l->walk != s->walk || !mapped(l->at * LINE, LINE))
			continue;
		u8 *line = before + (l->at * LINE - (u64)arena), *is = arena + (l->at * LINE - (u64)arena);
		for (int i = 0; i < LINE; i++) {
			if (l->known >> i & 1)
				line[i] = s->words[h * 8 + i / 8] >> (i % 8 * 8);
			else if (known = 0, 1)
				line[i] = is[i];
		}
	}
	for (int i = 0; memcmp(before, arena, ARENA) && i < ARENA; i++)
		if (before[i] != arena[i])
			return differs("memory", i, arena[i], before[i]);
	if (test.strict && !known)
		return differs("what is known", 0, 1, 0);
	u32 next = s->pc, branched = o->way == 2;
	if (test.op.kind == COND_JUMP) {
		if (s->trail.outcomes != 1 || s->trail.guessed[0])
			return differs("outcomes", 0, 1, s->trail.outcomes);
		if ((s->trail.taken[0] & 1) != branched)
			return differs("taken", 0, branched, s->trail.taken[0] & 1);
	}
	u32 there = test.op.kind == JUMP_IND || test.op.kind == CALL_IND || test.op.kind == RET ? (u64)(at + 8 - code) / 4 + OPERATIONS : test.op.to;
	if (next != (branched ? there : 2))
		return differs("next operation", 0, branched ? there : 2, next);
	return 0;
}

int main(int argc, char **argv)
{
	FILE *f = fopen(argv[1], "r");
	if (!f)
		return perror(argv[1]), 2;
	code = mmap(0, CODE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return perror("mmap"), 2;
	at = code + CODE / 2;
	u8 *start = at - (where_code - begin_code);
	memcpy(start, begin_code, end_code - begin_code);
	*(u64 *)(start + (in_word - begin_code)) = (u64)&context_in;
	*(u64 *)(start + (out_word - begin_code)) = (u64)&context_out;
	*(u64 *)(start + (host_word - begin_code)) = (u64)host;
	__asm__("mrs %0, tpidr_el0" : "=r"(context_in.tls));
	static u8 stack[1 << 16];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
	sigaltstack(&alt, 0);
	struct sigaction act = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
	sigaction(SIGSEGV, &act, 0);
	sigaction(SIGILL, &act, 0);
	sigaction(SIGBUS, &act, 0);
	sigaction(SIGTRAP, &act, 0);
	int bad = 0;
	u64 tried = 0, faults = 0, stopped = 0;
	while (fread(&test, sizeof test, 1, f) == 1) {
		*(u32 *)at = test.word;
		__builtin___clear_cache((char *)start, (char *)start + (end_code - begin_code));
		u32 failed = 0, undefined = 0, ended = 0, ill = 0;
		for (u32 i = 0; i < test.times; i++) {
			prepare(i % 16);
			memcpy(before, arena, ARENA);
			int stop = emulate();
			context_out.way = 0;
			int sig = sigsetjmp(faulted, 0);
			if (!sig) {
				((void (*)(void))start)();
			} else {
				memcpy(arena, before, ARENA);
				undefined++;
				ill += sig == SIGILL;
				if (ill)
					break; // there is no such instruction
				continue;
			}
			if (stop) {
				memcpy(arena, before, ARENA);
				ended++;
				continue;
			}
			tried++;
			if (compare() && !failed++)
				printf("%08x %s %d: %llx, emulated %llx\n", test.word, what, where, want, got);
		}
		if (failed)
			bad = 1;
		faults += undefined != 0;
		stopped += ended != 0;
		// Of one register twice, or the stack pointer with an odd displacement, addresses are anywhere.
		int anywhere = test.op.flags & F_HAS_MEM && (test.op.index == test.op.base || test.op.base == 31);
		if (test.strict && (ended || (undefined == test.times && !anywhere) || ill)) {
			bad = 1;
			printf("%08x was not tried: %u faults, %u ends\n", test.word, undefined, ended);
		}
	}
	printf("done: %llu executions, %llu faulted, %llu ended\n", tried, faults, stopped);
	return bad;
}
