// many SLEEPING PER_SECOND SECONDS: so many processes that sleep, each a program of its own, then so many a second that run
// /bin/true for so long. It prints how many it ran, and ends with its children.
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static pid_t run(char **argv) {
	pid_t pid;
	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0) {
		perror(argv[0]);
		kill(0, SIGTERM);
		exit(1);
	}
	return pid;
}

int main(int argc, char **argv) {
	if (argc != 4)
		return 2;
	int sleeping = atoi(argv[1]), rate = atoi(argv[2]);
	double seconds = atof(argv[3]);
	setpgid(0, 0); // so that all end together
	for (int i = 0; i < sleeping; i++)
		run((char *[]){"/bin/sleep", "600", NULL});
	printf("sleeping\n");
	fflush(stdout);
	if (fork() > 0) { // who waits looks through all children: those that sleep are not its own
		wait(NULL);
		while (1)
			pause();
	}
	long n = 0;
	for (double start = now(); now() - start < seconds;) {
		if (n < (now() - start) * rate) {
			run((char *[]){"/bin/true", NULL});
			n++;
		} else {
			usleep(500);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	printf("%ld ran, %.0f a second\n", n, n / seconds);
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	return 0;
}
