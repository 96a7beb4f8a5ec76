// Spends its time in spin until SIGTERM, called in three ways: from a recursion of 40 frames, from a function
// that the C library's qsort calls, and from a handler of signals; and in code of the kernel's that reads a clock. None
// keeps a frame pointer.
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define APART __attribute__((noipa))

static volatile unsigned sink;

APART static void spin(void)
{
	unsigned x = sink;
	for (int i = 0; i < 20000; i++)
		x = x * 1664525 + 1013904223;
	sink = x;
}

APART static unsigned odd(unsigned n);

APART static unsigned even(unsigned n)
{
	if (n == 0) {
		spin();
		return 1;
	}
	return odd(n - 1) + n;
}

APART static unsigned odd(unsigned n)
{
	volatile unsigned room[64]; // a frame of another size
	room[n & 63] = n;
	return even(n - 1) + room[n & 63];
}

APART static int compare(const void *a, const void *b)
{
	spin();
	return *(const int *)a - *(const int *)b;
}

APART static void sorted(void)
{
	int v[8];
	for (int i = 0; i < 8; i++)
		v[i] = i * 5 % 8;
	qsort(v, 8, sizeof *v, compare);
	sink += v[3];
}

APART static void handle(int number)
{
	for (int i = 0; i < 8; i++)
		spin();
	sink += number;
}

APART static void signalled(void)
{
	raise(SIGUSR1);
	sink++;
}

APART static void timed(void)
{
	struct timespec now;
	for (int i = 0; i < 40000; i++) {
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now); // which needs no system call, whatever the machine's clock
		sink += now.tv_nsec;
	}
}

int main(void)
{
	signal(SIGUSR1, handle);
	for (;;) {
		for (int i = 0; i < 8; i++)
			sink += even(40);
		sorted();
		signalled();
		timed();
	}
}
