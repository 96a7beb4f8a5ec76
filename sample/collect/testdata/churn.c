// churn RATE SECONDS: starts RATE processes a second, each of which executes this
// file again and works for 0.3 ms, and prints how many it started.
#define _GNU_SOURCE
#include "ticks.h"
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc == 1) {
		for (uint64_t end = ns(CLOCK_THREAD_CPUTIME_ID) + 300000; ns(CLOCK_THREAD_CPUTIME_ID) < end;)
			for (volatile int i = 0; i < 1000; i++)
				;
		return 0;
	}
	if (argc != 3)
		return 2;
	double rate = atof(argv[1]);
	int n = 0, total = rate * atof(argv[2]);
	char *child[] = {argv[0], 0};
	for (uint64_t start = ns(CLOCK_MONOTONIC); n < total; n++) {
		while (ns(CLOCK_MONOTONIC) < start + (uint64_t)(n * 1e9 / rate))
			usleep(200);
		pid_t pid;
		if (posix_spawn(&pid, "/proc/self/exe", 0, 0, child, environ)) {
			perror("posix_spawn");
			return 1;
		}
		while (waitpid(-1, 0, WNOHANG) > 0)
			;
	}
	while (wait(0) > 0)
		;
	printf("%d\n", n);
	return 0;
}
