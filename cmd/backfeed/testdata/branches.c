// Runs for some seconds, or until SIGTERM, and prints of each branch how often it ran
// and how often it went. Where the branches are is told in the section ".branches".
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct { uint64_t ran, taken; } count[4];
static volatile sig_atomic_t stop;

static void end(int sig) { (void)sig; stop = 1; }

static uint32_t state = 1;

static inline uint32_t draw(void)
{
	state = state * 1664525 + 1013904223;
	return state >> 16; // the lower bits have short periods
}

#ifdef __aarch64__
#define BELOW "cmp %w0, %w1\n1: b.lo %l2\n"
#else
#define BELOW "cmp %1, %0\n1: jb %l2\n"
#endif

// Goes if x, below 65536, is below a share of that.
#define BRANCH(i, x, share) do {                                              \
		__label__ yes, done;                                          \
		count[i].ran++;                                               \
		__asm__ goto(BELOW                                            \
			".pushsection .branches, \"a\"\n.quad " #i ", 1b\n.popsection" \
			: : "r"(x), "r"((uint32_t)(65536 * (share))) : "cc" : yes); \
		goto done;                                                    \
	yes:    count[i].taken++;                                             \
	done:;                                                                \
	} while (0)

__attribute__((noinline, noclone)) static void first(int n)
{
	while (n-- > 0) {
		BRANCH(0, draw(), 0.3);
		BRANCH(1, draw(), 0.75);
	}
}

__attribute__((noinline, noclone)) static void second(int n)
{
	while (n-- > 0) {
		BRANCH(2, draw(), 0.05);
		BRANCH(3, draw(), 0.5);
	}
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double until = now() + (argc > 1 ? atof(argv[1]) : 0);
	signal(SIGTERM, end);
	while (!stop && now() < until) {
		first(2000);
		second(1000);
	}
	for (int i = 0; i < 4; i++)
		printf("%llu %llu\n", (unsigned long long)count[i].ran, (unsigned long long)count[i].taken);
	return argc > 2 ? atoi(argv[2]) : 0;
}
