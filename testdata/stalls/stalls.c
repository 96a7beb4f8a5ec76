// stalls KIND N: a loop that waits for one known reason, N million times.
//
//   chase     a pointer chase over 64 MB: every load misses the caches
//   pages     the same, one line of each 4 KB page: every load misses the TLB, too
//   branch    a branch that follows random bits
//   divide    a chain of 64-bit divisions
//   multiply  a chain of multiplications
//   forward   loads wider than the two stores before them: store forwarding fails
//   alias     loads 4096 bytes behind a store
//   code      2048 procedures in turn: more code than the first instruction cache
//   stores    bursts of stores over 256 MB
//   atomic    atomic additions
//   touch     first touch of fresh pages
//
// make.sh builds it and records each kind.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline, noclone))

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void) {
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

// ring makes one cycle through n places that are step words apart.
static void **ring(size_t n, size_t step) {
	void **p = mmap(0, n * step * sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t *order = malloc(n * sizeof *order);
	if (p == MAP_FAILED || !order)
		abort();
	madvise(p, n * step * sizeof *p, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = rnd() % i;
		uint32_t t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	for (size_t i = 0; i < n; i++)
		p[order[i] * step] = &p[order[(i + 1) % n] * step];
	free(order);
	return p;
}

NOINLINE void **chase(void **p, uint64_t n) {
	while (n--)
		p = *p;
	return p;
}

NOINLINE uint64_t branch(const uint8_t *bits, uint64_t n) {
	uint64_t a = 0, b = 1;
	for (uint64_t i = 0; i < n; i++) {
		if (bits[i & 0xffff]) {
			a += b ^ i;
			__asm__ volatile("" : "+r"(a));
		} else {
			b += i;
			__asm__ volatile("" : "+r"(b));
		}
	}
	return a + b;
}

NOINLINE uint64_t divide(uint64_t x, uint64_t d, uint64_t n) {
	while (n--)
		x = (x / d) | 0x8000000000000000u;
	return x;
}

NOINLINE uint64_t multiply(uint64_t x, uint64_t m, uint64_t n) {
	while (n--)
		x = x * m * m * m * m;
	return x;
}

NOINLINE uint64_t forward(volatile uint32_t *two, uint64_t n) {
	uint64_t sum = 0;
	while (n--) {
		two[0] = sum;
		two[1] = n;
		sum += *(volatile uint64_t *)two;
	}
	return sum;
}

NOINLINE uint64_t alias(volatile uint64_t *p, uint64_t n) {
	uint64_t sum = 0;
	while (n--) {
		p[512] = sum;
		sum += p[0];
	}
	return sum;
}

// Procedures of 64 bytes, one after the other.
#define F1(n) \
	NOINLINE __attribute__((aligned(64))) static uint64_t f##n(uint64_t x) { \
		__asm__ volatile(".skip 40, 0x90" : "+r"(x)); \
		return x + n; \
	}
#define F4(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3)
#define F16(n) F4(n##0) F4(n##1) F4(n##2) F4(n##3)
#define F64(n) F16(n##0) F16(n##1) F16(n##2) F16(n##3)
#define F256(n) F64(n##0) F64(n##1) F64(n##2) F64(n##3)
#define F1024(n) F256(n##0) F256(n##1) F256(n##2) F256(n##3)
F1024(1) F1024(2)
#define C1(n) x = f##n(x);
#define C4(n) C1(n##0) C1(n##1) C1(n##2) C1(n##3)
#define C16(n) C4(n##0) C4(n##1) C4(n##2) C4(n##3)
#define C64(n) C16(n##0) C16(n##1) C16(n##2) C16(n##3)
#define C256(n) C64(n##0) C64(n##1) C64(n##2) C64(n##3)
#define C1024(n) C256(n##0) C256(n##1) C256(n##2) C256(n##3)

NOINLINE uint64_t code(uint64_t n) {
	uint64_t x = 0;
	while (n--) {
		C1024(1) C1024(2)
	}
	return x;
}

NOINLINE void stores(uint64_t *p, uint64_t words, uint64_t n) {
	for (uint64_t i = 0; i < n; i++)
		p[i * 9 & (words - 1)] = i;
}

NOINLINE uint64_t atomic(uint64_t *p, uint64_t n) {
	uint64_t sum = 0;
	while (n--)
		sum ^= __atomic_add_fetch(p, sum + n, __ATOMIC_SEQ_CST);
	return sum;
}

NOINLINE uint64_t touch(uint64_t n) {
	const size_t size = 64 << 20;
	uint64_t done = 0;
	while (done < n) {
		char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			abort();
		madvise(p, size, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < size; i += 4096, done++)
			p[i] = 1;
		munmap(p, size);
	}
	return done;
}

int main(int argc, char **argv) {
	if (argc != 3)
		return 2;
	uint64_t n = (uint64_t)(atof(argv[2]) * 1e6), sum = 0;
	const char *kind = argv[1];
	if (!strcmp(kind, "chase"))
		sum = (uintptr_t)chase(ring(1 << 20, 8), n);
	else if (!strcmp(kind, "pages"))
		sum = (uintptr_t)chase(ring(1 << 14, 520), n);
	else if (!strcmp(kind, "branch")) {
		static uint8_t bits[1 << 16];
		for (size_t i = 0; i < sizeof bits; i++)
			bits[i] = rnd() >> 40 & 1;
		sum = branch(bits, n);
	} else if (!strcmp(kind, "divide"))
		sum = divide(rnd(), 3, n);
	else if (!strcmp(kind, "multiply"))
		sum = multiply(rnd(), rnd() | 1, n);
	else if (!strcmp(kind, "forward")) {
		uint64_t two;
		sum = forward((uint32_t *)&two, n);
	} else if (!strcmp(kind, "alias"))
		sum = alias(aligned_alloc(4096, 3 * 4096), n);
	else if (!strcmp(kind, "code"))
		sum = code(n / 2048);
	else if (!strcmp(kind, "stores")) {
		uint64_t words = 1 << 25;
		uint64_t *p = malloc(words * sizeof *p);
		memset(p, 1, words * sizeof *p);
		stores(p, words, n);
		sum = p[5];
	} else if (!strcmp(kind, "atomic")) {
		uint64_t x = 1;
		sum = atomic(&x, n);
	} else if (!strcmp(kind, "touch"))
		sum = touch(n);
	else
		return 2;
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
