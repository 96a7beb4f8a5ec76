// unit [CPU]: does equal units of work of about 1.5 ms until SIGTERM, then prints
// of each when it began and ended (CLOCK_MONOTONIC) and its CPU time, in ns. A
// unit sorts, which mispredicts branches, and looks words up, which misses caches.
#define _GNU_SOURCE
#include "ticks.h"
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

enum { WORDS = 1 << 18, ITEMS = 3000, UNITS = 1 << 18 };

static struct { uint64_t begin, end, cpu; } units[UNITS];
static uint32_t table[WORDS], items[ITEMS];
static volatile sig_atomic_t done;

static void stop(int sig) { done = sig; }

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static uint32_t work(void)
{
	uint32_t x = 12345, sum = 0;
	for (int i = 0; i < ITEMS; i++)
		items[i] = x = x * 1103515245 + 12345;
	qsort(items, ITEMS, sizeof *items, compare);
	for (int i = 0; i < 35 * ITEMS; i++) {
		x = x * 1103515245 + 12345 + (sum & 1);
		uint32_t at = x >> 14;
		while (table[at] > x)
			at = (at + 1) % WORDS;
		sum += table[at];
	}
	return sum;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		pin(atoi(argv[1]));
	setpriority(PRIO_PROCESS, 0, -20); // other programs, where allowed, give way
	signal(SIGTERM, stop);
	for (uint32_t i = 0, x = 1; i < WORDS; i++)
		table[i] = (x = x * 1664525 + 1013904223) >> 1;
	memset(units, 1, sizeof units); // no page faults later
	uint32_t sum = 0;
	int n = 0;
	while (!done) {
		uint64_t begin = ns(CLOCK_MONOTONIC), cpu = ns(CLOCK_THREAD_CPUTIME_ID);
		sum += work();
		units[n % UNITS].cpu = ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		units[n % UNITS].begin = begin;
		units[n++ % UNITS].end = ns(CLOCK_MONOTONIC);
	}
	for (int i = n > UNITS ? n - UNITS : 0; i < n; i++)
		printf("%llu %llu %llu\n", (unsigned long long)units[i % UNITS].begin,
			(unsigned long long)units[i % UNITS].end, (unsigned long long)units[i % UNITS].cpu);
	return sum == 42;
}
