// Threads that wait in known ways, and say how long: a line for each way, with its name and the least and the most ns
// that threads were off the processor in it, by their own clocks. The least is all time less that of the processor, to which
// the kernel also adds some us before a thread that was woken begins to run; the most is all time in system calls
// that wait. Then there is a line for all threads, from their begin to their end, and one with all time of theirs. There
// the most is that of those beside the first, from when it asks for them until it knows of their end, less the
// processor time of all: what starts this program knows how long the first one lived.
//
//	waits ways      all ways, one after the other
//	waits pipes     two ways that differ in how long an answer takes, as often as there is time for
//	waits asleep    threads that sleep until they are killed
//	waits thirds    two threads, "early" and "late", which work in the first and in the last third of the time, and
//	                wait in the others. The first line is "thirds", then come the ns since 1970 at which thirds began and ended
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define own_frame __attribute__((noinline, noclone))
#define not_last __asm__ volatile("" ::: "memory")

typedef long long ns;

static ns now(clockid_t c)
{
	struct timespec t;
	clock_gettime(c, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static ns off(void) { return now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID); }

static void pause_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&t, &t))
		;
}

static void spin(ns until)
{
	while (now(CLOCK_MONOTONIC) < until)
		for (volatile int i = 0; i < 2000; i++) // of the vdso, which the clock is in, there are no rows to unwind by
			;
}

static ns in_all, wall; // of threads and children
static ns beside, ran; // how long those beside the first lived at most; the processor time of all

// begin returns what done is told when a thread ends.
static ns begin(void)
{
	__atomic_sub_fetch(&wall, now(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	return off();
}

static void done(ns since)
{
	__atomic_add_fetch(&in_all, off() - since, __ATOMIC_RELAXED);
	__atomic_add_fetch(&wall, now(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	__atomic_add_fetch(&ran, now(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
}

// A new thread may wait for a processor before it begins, and one that is done before it ends.
static void start(pthread_t *t, void *(*f)(void *), void *arg)
{
	__atomic_sub_fetch(&beside, now(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	if (pthread_create(t, 0, f, arg))
		abort();
}

static void join(pthread_t t)
{
	pthread_join(t, 0);
	__atomic_add_fetch(&beside, now(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
}

static void say(const char *way, ns least, ns most) { printf("%s %lld %lld\n", way, least, most); }

own_frame static void way_sleep(void)
{
	for (int i = 0; i < 5; i++)
		pause_ms(100);
	not_last;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *holder(void *arg)
{
	ns began = begin();
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&both);
		pause_ms(80);
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&both);
	}
	done(began);
	return arg;
}

own_frame static void take_lock(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	not_last;
}

own_frame static ns way_lock(void)
{
	pthread_t t;
	ns sum = 0;
	pthread_barrier_init(&both, 0, 2);
	start(&t, holder, 0);
	for (int i = 0; i < 5; i++) {
		pthread_barrier_wait(&both);
		ns from = off();
		take_lock();
		sum += off() - from;
		pthread_barrier_wait(&both);
	}
	join(t);
	return sum;
}

static int to[2], from[2];

// answer waits for bytes, and answers after as many times 5 us.
static void *answer(void *arg)
{
	ns began = begin();
	unsigned char n;
	while (read(to[0], &n, 1) == 1) {
		if (n == 255)
			pause_ms(80);
		else
			spin(now(CLOCK_MONOTONIC) + n * 5000ll);
		if (write(from[1], &n, 1) != 1)
			break;
	}
	done(began);
	return arg;
}

static ns asked; // ns in read

// ask has a frame of its own: of read, which may have none, frame pointers miss the caller.
own_frame static void ask(unsigned char n)
{
	if (write(to[1], &n, 1) != 1)
		abort();
	ns at = now(CLOCK_MONOTONIC);
	if (read(from[0], &n, 1) != 1)
		abort();
	asked += now(CLOCK_MONOTONIC) - at;
}

own_frame static void way_pipe(void)
{
	for (int i = 0; i < 5; i++)
		ask(255);
	not_last;
}

own_frame static void way_short(void)
{
	ask(10);
	not_last;
}

own_frame static void way_long(void)
{
	ask(50);
	not_last;
}

// A parent waits for a child of vfork, and no signal ends that. What the child does, it does in the memory of the parent.
static void way_vfork(void)
{
	ns parent = off(), child = 0;
	for (int i = 0; i < 4; i++) {
		beside -= now(CLOCK_MONOTONIC);
		pid_t pid = vfork();
		if (pid == 0) {
			ns at = begin();
			pause_ms(100);
			child += off() - at;
			done(at);
			_exit(0);
		}
		waitpid(pid, 0, 0);
		beside += now(CLOCK_MONOTONIC);
	}
	say("uninterruptible", child, off() - parent);
}

own_frame static ns way_run(ns until)
{
	ns at = off();
	spin(until);
	return off() - at;
}

static void on_one(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void *runner(void *arg)
{
	ns before = begin();
	*(ns *)arg = way_run(*(ns *)arg);
	done(before);
	return arg;
}

static void ways(void)
{
	ns at = off();
	way_sleep();
	at = off() - at;
	say("way_sleep", at, at);
	at = way_lock();
	say("take_lock", at, at);
	at = off();
	way_pipe();
	at = off() - at;
	say("way_pipe", at, at);
	way_vfork();
	// Two threads on one processor: each has it for half of the time.
	cpu_set_t all;
	sched_getaffinity(0, sizeof all, &all);
	on_one();
	ns until = now(CLOCK_MONOTONIC) + 800000000, theirs = until;
	pthread_t t;
	start(&t, runner, &theirs);
	at = way_run(until);
	sched_setaffinity(0, sizeof all, &all);
	join(t);
	say("way_run", at + theirs, at + theirs);
}

static void pipes(void)
{
	ns of_short = 0, of_long = 0, in_short = 0, in_long = 0, until = now(CLOCK_MONOTONIC) + 3000000000ll;
	while (now(CLOCK_MONOTONIC) < until) {
		ns at = off();
		way_short();
		of_short += off() - at;
		in_short += asked;
		asked = 0;
		at = off();
		way_long();
		of_long += off() - at;
		in_long += asked;
		asked = 0;
	}
	say("way_short", of_short, in_short);
	say("way_long", of_long, in_long);
}

static void *sleeper(void *arg)
{
	pause_ms(1000000);
	return arg;
}

static ns third[4]; // when they begin, and the last ends

static void *early(void *arg)
{
	pthread_setname_np(pthread_self(), "early");
	spin(third[1]);
	pause_ms((third[3] - third[1]) / 1000000);
	return arg;
}

static void *late(void *arg)
{
	pthread_setname_np(pthread_self(), "late");
	pause_ms((third[2] - third[0]) / 1000000);
	spin(third[3]);
	return arg;
}

static void thirds(void)
{
	pthread_t a, b;
	ns at = now(CLOCK_MONOTONIC), since_1970 = now(CLOCK_REALTIME) - at;
	printf("thirds");
	for (int i = 0; i < 4; i++) {
		third[i] = at + i * 750000000ll;
		printf(" %lld", third[i] + since_1970);
	}
	printf("\n");
	pthread_create(&a, 0, early, 0);
	pthread_create(&b, 0, late, 0);
	pthread_join(a, 0);
	pthread_join(b, 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	setvbuf(stdout, 0, _IOLBF, 0);
	pthread_t t;
	if (!strcmp(what, "asleep")) {
		for (int i = 0; i < 3; i++)
			pthread_create(&t, 0, sleeper, 0);
		puts("ready");
		sleeper(0);
	}
	if (!strcmp(what, "thirds")) {
		thirds();
		return 0;
	}
	ns began = begin();
	// By then it is known by what stacks are unwound, on a loaded machine too.
	for (int i = 0; i < 15; i++)
		pause_ms(100);
	if (pipe(to) || pipe(from))
		abort();
	start(&t, answer, 0);
	if (!strcmp(what, "pipes"))
		pipes();
	else
		ways();
	close(to[1]);
	join(t);
	done(began);
	say("all", in_all, beside - ran);
	say("wall", wall, beside);
	return 0;
}
