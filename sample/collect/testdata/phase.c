// phase CPU PERIOD_US SECONDS: is in function first for the first quarter of each
// period and in function rest for the rest of it, and prints the share of first in
// the time of both, as it saw it itself.
#define _GNU_SOURCE
#include "ticks.h"

static uint64_t longest; // of a gap that is not an interruption

// spin gives the ticks it ran, without those in which something else did.
#define SPIN(name)                                           \
	__attribute__((noinline)) uint64_t name(uint64_t end)    \
	{                                                        \
		uint64_t ran = 0, last = ticks();                    \
		while (last < end) {                                 \
			uint64_t now = ticks();                          \
			if (now - last < longest)                        \
				ran += now - last;                           \
			last = now;                                      \
		}                                                    \
		return ran;                                          \
	}

SPIN(first)
SPIN(rest)

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	pin(atoi(argv[1]));
	double per_ns = ticks_per_ns(), in_first = 0, in_rest = 0;
	uint64_t period = 1e3 * atof(argv[2]) * per_ns;
	longest = 200000 * per_ns;
	for (uint64_t t = ticks(), end = t + 1e9 * atof(argv[3]) * per_ns; t < end; t += period) {
		in_first += first(t + period / 4);
		in_rest += rest(t + period);
	}
	printf("%.4f\n", in_first / (in_first + in_rest));
	return 0;
}
