// Runs instructions on many inputs for a minute at most, or until SIGTERM, and holds what
// they give to what they gave the first time: a processor never differs from itself, so
// that a walk that sees a check fail emulates wrongly. Prints the names of the checks, then
// "ready". Where the branches of the checks are is told in the section ".checks".
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u64;

struct in {
	u64 a, b, c, pad; // in registers; another one points here
	u64 v[4], w[4];   // at 32 and 64: share about half of their bytes
} __attribute__((aligned(64)));

struct out {
	u64 m[6]; // another register points here; starts as v[0] to v[3], v[0], 0; the flags go to the last word
	u64 a, b, c;
} __attribute__((aligned(32)));

struct check {
	const char *name;
	void (*fill)(const struct in *, struct out *);
	int (*check)(const struct in *, const struct out *);
	int (*has)(void);
};

enum { INPUTS = 128, MOST = 1500 };

static struct in in[INPUTS];
static struct out expected[MOST][INPUTS];

// An entry of .checks: the branch relative to here, what it is, the name.
#define PLACE(kind, name) \
	".pushsection .checks, \"a\"\n.balign 64\n2: .long 1b - 2b, " #kind "\n.asciz \"" #name "\"\n.balign 64\n.popsection"

// What a branch is: that which a check begins with, and that which is taken if it failed,
// of instructions that are to be emulated, or need not be.
#define ENTRY 0
#define STRICT 1
#define LOOSE 2
#define PLACED(kind, name) PLACE(kind, name)

#define MAKE(name, kind, feature, code)                                                      \
	static inline __attribute__((always_inline)) void do_##name(const struct in *p, struct out *o) \
	{                                                                                    \
		u64 a = p->a, b = p->b, c = p->c, *m = o->m;                                 \
		m[0] = p->v[0], m[1] = p->v[1], m[2] = p->v[2], m[3] = p->v[3], m[4] = p->v[0]; \
		m[5] = 0;                                                                    \
		code;                                                                        \
		o->a = a;                                                                    \
		o->b = b;                                                                    \
		o->c = c;                                                                    \
	}                                                                                    \
	static __attribute__((noinline, noclone)) void fill_##name(const struct in *p, struct out *o) { do_##name(p, o); } \
	static __attribute__((noinline, noclone)) int check_##name(const struct in *p, const struct out *e) \
	{                                                                                    \
		struct out o;                                                                \
		__asm__ goto(IF_ZERO PLACED(ENTRY, name) : : "r"(p) : "cc" : bad); \
		do_##name(p, &o);                                                            \
		u64 x = (o.a ^ e->a) | (o.b ^ e->b) | (o.c ^ e->c) | (o.m[0] ^ e->m[0]) | (o.m[1] ^ e->m[1]) | \
			(o.m[2] ^ e->m[2]) | (o.m[3] ^ e->m[3]) | (o.m[4] ^ e->m[4]) | (o.m[5] ^ e->m[5]); \
		__asm__ goto(IF_NOT_ZERO PLACED(kind, name) : : "r"(x) : "cc" : bad); \
		return 0;                                                                    \
	bad:                                                                                 \
		return 1;                                                                    \
	}                                                                                    \
	static const struct check entry_##name = {#name, fill_##name, check_##name, has_##feature}; \
	static const struct check *const place_##name __attribute__((used, section("table"))) = &entry_##name;

#define CHECK(name, text) MAKE(name, STRICT, any, TEXT(text))
#define HAVING(feature, name, text) MAKE(name, STRICT, feature, TEXT(text))
// An instruction that need not be emulated: a walk may end there, but not go wrong.
#define MAYBE(name, text) MAKE(name, LOOSE, any, TEXT(text))
#define MAYBE_HAVING(feature, name, text) MAKE(name, LOOSE, feature, TEXT(text))

static int has_any(void) { return 1; }

#ifdef __aarch64__
#include "walkopsarm.h"
#else
#include "walkopsx86.h"
#endif

static uint32_t state = 1;

static u64 draw(void)
{
	u64 x = 0;
	for (int i = 0; i < 4; i++) {
		state = state * 1664525 + 1013904223;
		x = x << 16 | state >> 16; // the lower bits have short periods
	}
	return x;
}

// number gives one of those where something changes, or any.
static u64 number(void)
{
	static const u64 odd[] = {
		0, 1, -1, 2, -2, 0x7f, 0x80, 0x81, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xffffffff80000000,
		0xffffffffffffff80, 0xffffffffffff8000, 31, 32, 33, 63, 64,
	};
	u64 x = draw();
	switch (draw() % 4) {
	case 0: case 1: return odd[x % (sizeof odd / sizeof *odd)];
	case 2: return x >> (draw() % 64);
	}
	return x;
}

static volatile sig_atomic_t stop;

static void end(int sig) { (void)sig; stop = 1; }

extern const struct check *const __start_table[], *const __stop_table[];
static const struct check *checks[MOST];
static uint32_t order[MOST * INPUTS]; // of checks and inputs

int main(void)
{
	int n = 0;
	init();
	for (const struct check *const *c = __start_table; c < __stop_table; c++)
		if ((*c)->has()) {
			if (n == MOST)
				return 2;
			checks[n++] = *c;
			puts((*c)->name);
		}
	for (int i = 0; i < INPUTS; i++) {
		in[i].a = number();
		in[i].b = draw() % 4 ? number() : in[i].a;
		in[i].c = draw() % 2 ? number() : draw() % 70;
		for (int j = 0; j < 4; j++) {
			u64 same = draw() & draw() & 1 ? -1 : draw();
			in[i].v[j] = number();
			in[i].w[j] = (in[i].v[j] & same) | (number() & ~same);
		}
		if (i % 8 == 0)
			memcpy(in[i].w, in[i].v, 16 + i % 32);
	}
	for (int k = 0; k < n; k++)
		for (int i = 0; i < INPUTS; i++)
			checks[k]->fill(&in[i], &expected[k][i]);
	// Walks end in some checks: all others have to come after any.
	for (int i = 0; i < n * INPUTS; i++) {
		int j = draw() % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
	signal(SIGTERM, end);
	signal(SIGALRM, end);
	alarm(60);
	puts("ready");
	fflush(stdout);
	while (!stop)
		for (int i = 0; i < n * INPUTS; i++) {
			int k = order[i] / INPUTS, j = order[i] % INPUTS;
			if (checks[k]->check(&in[j], &expected[k][j])) {
				printf("%s fails\n", checks[k]->name);
				return 1;
			}
		}
	return 0;
}
