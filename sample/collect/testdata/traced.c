// traced SECONDS: does for that long what a tracer may disturb, and checks that nothing of it is. Two threads
// spin in functions of their own, one three times as long as the other; the rest waits, signals, forks and
// executes. It is sent SIGCHLD and SIGWINCH, which it ignores. It prints what went wrong, then of the two threads the processor
// time and how long they waited for a processor, in ns, and exits with 42 if nothing did.
//
// traced make: one thread spins for a second of processor time, and makes another every third of a millisecond or so.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char *self;
static atomic_int done, failures;

static void wrong(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (atomic_fetch_add(&failures, 1) < 20) {
		vprintf(format, args);
		printf(": %s\n", strerror(errno));
	}
	va_end(args);
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

#define SPIN(name, odd) \
	__attribute__((noipa)) static uint32_t name(uint32_t x, int n) \
	{ \
		for (int i = 0; i < n; i++) { \
			x = x * 1103515245 + odd; \
			__asm__ volatile("" : "+r"(x)); \
		} \
		return x; \
	}
SPIN(spin_long, 12345)
SPIN(spin_short, 12347)
SPIN(spin_else, 12349)

static volatile uint32_t sink;
static uint64_t used[2], waited[2];

// delay is how long this thread has waited for a processor, 0 where the kernel does not say.
static uint64_t delay(void)
{
	unsigned long long run = 0, wait = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");
	if (f) {
		if (fscanf(f, "%llu %llu", &run, &wait) != 2)
			wait = 0;
		fclose(f);
	}
	return wait;
}

// Both threads sleep between bursts.
static void *spinner(void *arg)
{
	int which = (intptr_t)arg;
	while (!done) {
		sink = which ? spin_short(1, 500000) : spin_long(1, 1500000);
		struct timespec pause = {0, 300000};
		if (nanosleep(&pause, NULL))
			wrong("nanosleep");
	}
	used[which] = now(CLOCK_THREAD_CPUTIME_ID);
	waited[which] = delay();
	return NULL;
}

// Two threads wake each other all the time: calls that return EINTR where they are interrupted.
static int ball[2];

static void *epoller(void *arg)
{
	int me = (intptr_t)arg, ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN};
	epoll_ctl(ep, EPOLL_CTL_ADD, ball[me], &e);
	while (!done) {
		int n = epoll_wait(ep, &e, 1, 1000);
		if (n < 0)
			wrong("epoll_wait");
		uint64_t one = 1;
		if (n == 1 && (read(ball[me], &one, 8) != 8 || write(ball[!me], &one, 8) != 8))
			wrong("eventfd");
	}
	return NULL;
}

static int sems;

static void *semaphores(void *arg)
{
	int me = (intptr_t)arg;
	while (!done) {
		struct sembuf take = {me, -1, 0}, give = {!me, 1, 0};
		struct timespec limit = {1, 0};
		if (semtimedop(sems, &take, 1, &limit) && errno != EAGAIN)
			wrong("semtimedop");
		sink = spin_else(1, 1000);
		if (semop(sems, &give, 1))
			wrong("semop");
	}
	return NULL;
}

// Signals arrive once each, as they were sent, and end a wait.
static atomic_int came, last, ready, limit = 1 << 30;

static void handle(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (sig == SIGTRAP || info->si_code != SI_QUEUE) {
		came += sig == SIGTRAP;
		return;
	}
	if (info->si_value.sival_int != last + 1)
		wrong("signal %d after %d", info->si_value.sival_int, last);
	last = info->si_value.sival_int;
}

static void *signalled(void *arg)
{
	(void)arg;
	int ep = epoll_create1(0);
	struct epoll_event e;
	ready = 1;
	while (last < limit) {
		// The signal comes only while it waits.
		int n = epoll_pwait(ep, &e, 1, 20000, &(sigset_t){0});
		if (n != -1 || errno != EINTR)
			wrong("epoll_pwait that a signal should end: %d", n);
		sink = spin_else(1, 2000);
	}
	return &failures;
}

static void children(int round)
{
	pid_t pid;
	int status;
	char *args[] = {self, "child", NULL};
	switch (round % 3) {
	case 0:
		if ((pid = fork()) == 0)
			execv(self, args);
		break;
	case 1:
		if (posix_spawn(&pid, self, NULL, NULL, args, environ))
			wrong("posix_spawn");
		break;
	case 2: // not the first thread of the child executes
		if ((pid = fork()) == 0) {
			args[1] = "thread";
			execv(self, args);
		}
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		wrong("child: status %#x", status);

	// Its parent sees it stop, continue and die.
	if ((pid = fork()) == 0)
		for (;;)
			sink = spin_else(1, 1000);
	kill(pid, SIGSTOP);
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
		wrong("stopped child: status %#x", status);
	kill(pid, SIGCONT);
	if (waitpid(pid, &status, WCONTINUED) != pid || !WIFCONTINUED(status))
		wrong("continued child: status %#x", status);
	kill(pid, SIGTERM);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
		wrong("killed child: status %#x", status);
}

static void *execute(void *arg)
{
	execv(self, arg);
	return NULL;
}

static void *nothing(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "make")) {
		for (uint64_t end = now(CLOCK_THREAD_CPUTIME_ID) + 1000000000; now(CLOCK_THREAD_CPUTIME_ID) < end;) {
			pthread_t t;
			pthread_create(&t, NULL, nothing, NULL);
			sink = spin_else(1, 300000);
			pthread_join(t, NULL);
		}
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "child")) {
		for (uint64_t end = now(CLOCK_PROCESS_CPUTIME_ID) + 5000000; now(CLOCK_PROCESS_CPUTIME_ID) < end;)
			sink = spin_else(1, 100000);
		return 7;
	}
	if (argc > 1 && !strcmp(argv[1], "thread")) {
		char *args[] = {self, "child", NULL};
		pthread_t t;
		pthread_create(&t, NULL, execute, args);
		pthread_join(t, NULL);
		return 1;
	}
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	ball[0] = eventfd(1, 0), ball[1] = eventfd(0, 0);
	sems = semget(IPC_PRIVATE, 2, 0600);
	semctl(sems, 0, SETVAL, 1);
	struct sigaction act = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
	sigaction(SIGRTMIN + 3, &act, NULL);
	sigaction(SIGTRAP, &act, NULL);
	sigset_t block;
	sigemptyset(&block);
	sigaddset(&block, SIGRTMIN + 3);
	// Whoever traces a program has it woken by signals that it ignores. Of those to a process, one thread may be
	// woken and another take it, and the first is not seen again: here, they have one thread to go to.
	sigaddset(&block, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &block, NULL);

	pthread_t threads[7];
	void *(*roles[7])(void *) = {spinner, spinner, epoller, epoller, semaphores, semaphores, signalled};
	for (int i = 0; i < 7; i++)
		pthread_create(&threads[i], NULL, roles[i], (void *)(intptr_t)(i % 2));
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	pthread_sigmask(SIG_UNBLOCK, &block, NULL);
	while (!ready)
		usleep(1000);
	int sent = 0, traps = 0;
	uint64_t end = now(CLOCK_MONOTONIC) + seconds * 1e9;
	for (int round = 0; now(CLOCK_MONOTONIC) < end; round++) {
		for (int i = 0; i < 20; i++) {
			union sigval v = {.sival_int = ++sent};
			while (pthread_sigqueue(threads[6], SIGRTMIN + 3, v) == EAGAIN)
				usleep(1000);
			usleep(1000);
		}
		raise(SIGTRAP);
		for (int i = 2; i < 6; i++)
			pthread_kill(threads[i], SIGWINCH);
		traps++;
		children(round);
	}
	done = 1;
	limit = sent + 1;
	pthread_sigqueue(threads[6], SIGRTMIN + 3, (union sigval){.sival_int = limit});
	for (int i = 0; i < 7; i++)
		pthread_join(threads[i], NULL);
	if (last != limit || came != traps)
		wrong("%d of %d signals and %d of %d traps arrived", last, limit, came, traps);
	semctl(sems, 0, IPC_RMID);
	printf("%llu %llu %llu %llu\n", (unsigned long long)used[0], (unsigned long long)used[1], (unsigned long long)waited[0], (unsigned long long)waited[1]);
	return failures ? 1 : 42;
}
