// Two threads that answer each other through pipes: as many switches as there can be. It prints the microseconds of
// a round trip, which is two waits of either thread.
//
//	switches ROUNDS PROCESSORS
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int to[2], from[2];
static int processors;

static void on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		perror("affinity");
}

static void *answer(void *arg)
{
	char c;
	on(processors - 1);
	while (read(to[0], &c, 1) == 1 && write(from[1], &c, 1) == 1)
		;
	return arg;
}

int main(int argc, char **argv)
{
	int rounds = atoi(argv[1]);
	char c = 0;
	struct timespec a, b;
	pthread_t t;
	processors = atoi(argv[2]);
	on(0);
	if (pipe(to) || pipe(from) || pthread_create(&t, 0, answer, 0))
		abort();
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < rounds; i++)
		if (write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1)
			abort();
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.3f\n", ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / 1e3 / rounds);
	return 0;
}
