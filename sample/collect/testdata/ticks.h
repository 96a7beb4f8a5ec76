// ticks.h: the processor's own clock, read without a call to the kernel.
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t t;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#endif
}

static inline uint64_t ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// ticks_per_ns compares both clocks for 50 ms.
static inline double ticks_per_ns(void)
{
	uint64_t n = ns(CLOCK_MONOTONIC), t = ticks(), now;
	while ((now = ns(CLOCK_MONOTONIC)) < n + 50000000)
		;
	return (double)(ticks() - t) / (now - n);
}

static inline void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}
