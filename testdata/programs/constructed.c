// constructed KIND N: loops whose executions are known by construction, N million times around.
//
//   copy     McCalpin's copy loop, as in figures 2 and 7 of the DCPI paper: four words a turn
//   random   a branch that goes either way at random, with an arm of one instruction on each side
//   two      two loops in one procedure: the second follows indices through 64 MB
//   twice    a loop in a procedure that is called twice
//   rare     a branch that is taken once in 1024 times
//   nested   a procedure that is called once, with loops in loops
//   divide   a chain of 64-bit divisions
//   costs    three procedures, one loop each, of equal executions and unequal time
//   switch   a switch of 16 cases with unequal odds
//   fib      recursion: N is the number, not millions
//   arms     random, with arms of ten instructions that depend on one another
//   chase    a pointer chase over 64 MB, each step in another line of the cache
//   small    a pointer chase over 64 MB, in nodes of 16 bytes
//   indirect an interpreter: every operation ends in an indirect jump
//   stores   stores to one word of each line of 64 MB, sixteen at a time
//   hot      a procedure that is called from one place, in a loop
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))
#define KEEP(x) __asm__ volatile("" : "+r"(x))

static uint64_t seed = 88172645463325252u;

static inline uint64_t rnd(void) {
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

NOINLINE void copy(long *c, const long *a, long n) {
	for (long i = 0; i < n; i += 4) {
		c[i] = a[i];
		c[i + 1] = a[i + 1];
		c[i + 2] = a[i + 2];
		c[i + 3] = a[i + 3];
		__asm__ volatile("" ::: "memory");
	}
}

NOINLINE long random_branch(long n) {
	long x = 0, y = 1;
	while (n--) {
		if (rnd() & 1) {
			x += y;
			KEEP(x);
		} else {
			y ^= x;
			KEEP(y);
		}
	}
	return x + y;
}

NOINLINE long two(const uint32_t *next, long n) {
	long s = 0;
	for (long i = 0; i < n; i++) {
		s += i ^ s;
		KEEP(s);
	}
	uint32_t at = 0;
	for (long i = 0; i < n / 20; i++)
		at = next[at];
	return s + at;
}

NOINLINE long turns(long n) {
	long s = 0;
	for (long i = 0; i < n; i++) {
		s += s >> 3 ^ i;
		KEEP(s);
	}
	return s;
}

NOINLINE long rare(long n) {
	long s = 0;
	for (long i = 0; i < n; i++) {
		if ((rnd() & 1023) == 0) {
			s += i;
			KEEP(s);
		}
		s ^= i;
	}
	return s;
}

NOINLINE long nested(long n) {
	long s = 0;
	for (long i = 0; i < n / 1000; i++)
		for (long j = 0; j < 10; j++) {
			for (long k = 0; k < 100; k++) {
				s += k ^ s;
				KEEP(s);
			}
			s += j;
			KEEP(s);
		}
	return s;
}

NOINLINE uint64_t divide(long n) {
	uint64_t s = 1;
	while (n--) {
		s = 0xfedcba9876543210u / (s | 3) + n;
		KEEP(s);
	}
	return s;
}

NOINLINE uint64_t cheap(long n) {
	uint64_t s = 1;
	while (n--) {
		s ^= n;
		KEEP(s);
	}
	return s;
}

NOINLINE uint64_t multiply(long n) {
	uint64_t s = 1;
	while (n--) {
		s *= s * s * s + n;
		KEEP(s);
	}
	return s;
}

NOINLINE long cases(long n) {
	long s = 0;
	while (n--) {
		uint64_t r = rnd();
		switch (__builtin_ctzll(r | 0x8000)) { // case k is met once in 2^(k+1) times
		case 0: s += 1; KEEP(s); break;
		case 1: s ^= 3; KEEP(s); break;
		case 2: s -= r; KEEP(s); break;
		case 3: s += s >> 2; KEEP(s); break;
		case 4: s *= 3; KEEP(s); break;
		case 5: s ^= r; KEEP(s); break;
		case 6: s += 7; KEEP(s); break;
		case 7: s -= 9; KEEP(s); break;
		case 8: s ^= s >> 5; KEEP(s); break;
		case 9: s += n; KEEP(s); break;
		case 10: s ^= n; KEEP(s); break;
		case 11: s -= n; KEEP(s); break;
		case 12: s += 2 * n; KEEP(s); break;
		case 13: s ^= 2 * n; KEEP(s); break;
		case 14: s -= 2 * n; KEEP(s); break;
		default: s = ~s; KEEP(s); break;
		}
	}
	return s;
}

// mix is part of a long arm.
static inline long mix(long x, long y, int k) {
	x += y;
	KEEP(x);
	x ^= x >> k;
	KEEP(x);
	return x;
}

NOINLINE long random_arms(long n) {
	long x = 0, y = 1;
	while (n--) {
		if (rnd() & 1) {
			x = mix(x, y, 1);
			x = mix(x, y, 2);
			x = mix(x, y, 3);
		} else {
			y = mix(y, x, 4);
			y = mix(y, x, 5);
			y = mix(y, x, 6);
		}
	}
	return x + y;
}

NOINLINE void **chase(void **p, long n) {
	while (n--)
		p = *p;
	return p;
}

// interpret runs a program of four kinds of operations, the last of which jumps back.
NOINLINE long interpret(const unsigned char *op, const unsigned char *first, long n) {
	static void *const labels[] = {&&add, &&shift, &&flip, &&again};
	long s = 1;
#define NEXT goto *labels[*op++]
	NEXT;
add:
	s += n;
	KEEP(s);
	NEXT;
shift:
	s ^= s >> 3;
	KEEP(s);
	NEXT;
flip:
	s = ~s;
	KEEP(s);
	NEXT;
again:
	if (--n == 0)
		return s;
	op = first;
	NEXT;
}

NOINLINE void stores(long *to, long words, long n) {
	for (long i = 0; n > 0; n -= 16) {
		for (long k = 0; k < 16; k++) {
			to[i] = n;
			__asm__ volatile("" ::: "memory");
			i += 8;
		}
		if (i >= words)
			i = 0;
	}
}

NOINLINE long called(long s, long i) {
	s += i;
	KEEP(s);
	return s ^ s >> 7;
}

NOINLINE long hot(long n) {
	long s = 0;
	while (n--)
		s = called(s, n);
	return s;
}

NOINLINE long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

// ring returns n indices, each of which leads to another, all in one cycle.
static uint32_t *ring(uint32_t n) {
	uint32_t *next = malloc(n * sizeof *next);
	if (!next)
		abort();
	for (uint32_t i = 0; i < n; i++)
		next[i] = i;
	for (uint32_t i = n - 1; i > 0; i--) { // Sattolo's shuffle
		uint32_t j = rnd() % i, t = next[i];
		next[i] = next[j];
		next[j] = t;
	}
	return next;
}

// links returns n places that are step words apart, in the order of ring.
static void **links(uint32_t n, long step) {
	uint32_t *next = ring(n);
	void **p = malloc(n * step * sizeof *p);
	if (!p)
		abort();
	for (uint32_t i = 0; i < n; i++)
		p[i * step] = &p[next[i] * step];
	free(next);
	return p;
}

int main(int argc, char **argv) {
	if (argc != 3)
		return 2;
	const char *kind = argv[1];
	long n = atol(argv[2]) * 1000000, words = 4 << 20, s = 0;
	if (!strcmp(kind, "copy")) {
		long *a = calloc(words, sizeof *a), *c = calloc(words, sizeof *c);
		for (long i = 0; i < n; i += words)
			copy(c, a, words);
		s = c[5];
	} else if (!strcmp(kind, "random")) {
		s = random_branch(n);
	} else if (!strcmp(kind, "two")) {
		s = two(ring(16 << 20), n);
	} else if (!strcmp(kind, "twice")) {
		s = turns(n);
		s += turns(n / 2);
	} else if (!strcmp(kind, "rare")) {
		s = rare(n);
	} else if (!strcmp(kind, "nested")) {
		s = nested(n);
	} else if (!strcmp(kind, "divide")) {
		s = divide(n);
	} else if (!strcmp(kind, "costs")) {
		s = cheap(n) + multiply(n) + divide(n);
	} else if (!strcmp(kind, "switch")) {
		s = cases(n);
	} else if (!strcmp(kind, "fib")) {
		s = fib(n / 1000000);
	} else if (!strcmp(kind, "arms")) {
		s = random_arms(n);
	} else if (!strcmp(kind, "chase")) {
		s = *chase(links(1 << 20, 8), n) != NULL;
	} else if (!strcmp(kind, "small")) {
		s = *chase(links(4 << 20, 2), n) != NULL;
	} else if (!strcmp(kind, "indirect")) {
		unsigned char ops[1001];
		for (int i = 0; i < 1000; i++)
			ops[i] = rnd() % 3;
		ops[1000] = 3;
		s = interpret(ops, ops, n / 1000);
	} else if (!strcmp(kind, "stores")) {
		words = 8 << 20;
		long *to = malloc(words * sizeof *to);
		if (!to)
			abort();
		stores(to, words, n);
		s = to[0];
	} else if (!strcmp(kind, "hot")) {
		s = hot(n);
	} else {
		return 2;
	}
	printf("%ld\n", s);
}
