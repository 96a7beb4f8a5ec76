// speeds LOOP MS: runs one loop for that much processor time, then prints how many instructions that were, and the
// time in ns. Loops are adds, which wait for one another; divs, of divisions that do; and chase, of loads that miss all caches.
//
// Each has four levels of 1,000 to 200,000 instructions. From LOOP_in on are the instructions of the innermost one, and
// LOOP_1 to LOOP_4 are where one round of each level has ended. Rounds that are to come are in r8 to r11, or x9 to x12.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#define FOUR(x) x x x x
#define LEVELS(name, rounds, body) __asm__ volatile( \
	"	mov $4, %%r11\n" \
	"4:	mov $5, %%r10\n" \
	"3:	mov $10, %%r9\n" \
	"2:	mov $" #rounds ", %%r8\n" \
	"	.globl " #name "_in, " #name "_1, " #name "_2, " #name "_3, " #name "_4\n" \
	#name "_in:\n" body \
	"	dec %%r8\n	jnz " #name "_in\n" \
	#name "_1:	dec %%r9\n	jnz 2b\n" \
	#name "_2:	dec %%r10\n	jnz 3b\n" \
	#name "_3:	dec %%r11\n	jnz 4b\n" \
	#name "_4:	nop\n" \
	: "+r"(p) : "r"((uint64_t)3) : "rax", "rdx", "r8", "r9", "r10", "r11", "cc", "memory")
#define ADDS "lea 1(%%rax), %%rax\n"
#define DIVS "add $0x1234567, %%rax\n xor %%edx, %%edx\n div %1\n nop\n"
#define CHASE "mov (%0), %0\n"
#elif defined(__aarch64__)
#define FOUR(x) x x x x
#define LEVELS(name, rounds, body) __asm__ volatile( \
	"	mov x12, #4\n" \
	"4:	mov x11, #5\n" \
	"3:	mov x10, #10\n" \
	"2:	mov x9, #" #rounds "\n" \
	"	.globl " #name "_in, " #name "_1, " #name "_2, " #name "_3, " #name "_4\n" \
	#name "_in:\n" body \
	"	subs x9, x9, #1\n	b.ne " #name "_in\n" \
	#name "_1:	subs x10, x10, #1\n	b.ne 2b\n" \
	#name "_2:	subs x11, x11, #1\n	b.ne 3b\n" \
	#name "_3:	subs x12, x12, #1\n	b.ne 4b\n" \
	#name "_4:	nop\n" \
	: "+r"(p) : "r"((uint64_t)3) : "x0", "x9", "x10", "x11", "x12", "cc", "memory")
#define ADDS "add x0, x0, #1\n"
#define DIVS "add x0, x0, #4095\n udiv x0, x0, %1\n nop\n nop\n"
#define CHASE "ldr %0, [%0]\n"
#endif

// Of a round of the innermost level, and all that LEVELS runs.
enum { IN_ADDS = 10, ROUNDS_ADDS = 100, IN_DIVS = 10, ROUNDS_DIVS = 100, IN_CHASE = 3, ROUNDS_CHASE = 333 };
#define ALL(in, rounds) (2 + 4 * (3 + 5 * (3 + 10 * (3 + (uint64_t)(in) * (rounds)))))

// Pointers are 64 bytes apart, and each leads to another at random: all are in one circle (Sattolo's algorithm).
static void **circle(size_t n)
{
	void **at = malloc(64 * n);
	uint32_t *next = malloc(4 * n);
	uint64_t state = 1;
	if (!at || !next)
		exit(1);
	for (size_t i = 0; i < n; i++)
		next[i] = i;
	for (size_t i = n - 1; i > 0; i--) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		size_t j = (state >> 33) % i;
		uint32_t x = next[i];
		next[i] = next[j];
		next[j] = x;
	}
	for (size_t i = 0; i < n; i++)
		at[8 * i] = &at[8 * (size_t)next[i]];
	return at;
}

static uint64_t used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int chase = !strcmp(argv[1], "chase"), divs = !strcmp(argv[1], "divs");
	void *p = chase ? circle(1 << 20) : 0;
	uint64_t most = strtoull(argv[2], 0, 0) * 1000000, began = used(), now = began, n = 0;
	for (; now - began < most; now = used()) {
		if (chase) {
			LEVELS(chase, 333, CHASE);
			n += ALL(IN_CHASE, ROUNDS_CHASE);
		} else if (divs) {
			LEVELS(divs, 100, DIVS DIVS);
			n += ALL(IN_DIVS, ROUNDS_DIVS);
		} else {
			LEVELS(adds, 100, FOUR(ADDS) FOUR(ADDS));
			n += ALL(IN_ADDS, ROUNDS_ADDS);
		}
	}
	printf("%llu %llu\n", (unsigned long long)n, (unsigned long long)(now - began));
	return 0;
}
