// gap CPU MS: reads the clock in a loop and prints the gaps between two readings,
// in ns: what interrupts took. Shorter ones than 0.3 us are the loop itself,
// longer ones than 200 us other programs.
#define _GNU_SOURCE
#include "ticks.h"

static double gaps[1 << 20];

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	pin(atoi(argv[1]));
	double per_ns = ticks_per_ns();
	uint64_t shortest = 300 * per_ns, longest = 200000 * per_ns;
	uint64_t last = ticks(), end = last + 1e6 * atof(argv[2]) * per_ns;
	int n = 0;
	while (last < end && n < 1 << 20) {
		uint64_t now = ticks(), gap = now - last;
		if (gap > shortest && gap < longest)
			gaps[n++] = gap / per_ns;
		last = now;
	}
	for (int i = 0; i < n; i++)
		printf("%.0f\n", gaps[i]);
	return 0;
}
