// stretch WHAT N: for each number of rounds on standard input runs the code of sites.c
// that often in each of N threads, children or programs that children turn into. Prints
// when that began and ended (CLOCK_MONOTONIC, in ns), and how often each site was
// passed and taken.
//
//	threads N   N threads
//	forks N     N children
//	execs N     N children, of each of which a second thread calls exec
//	children N  no input: N children, one after another, sort and check themselves;
//	            prints how many were right, wrong and crashed
//	units N     no input: N threads run until SIGTERM; prints of each 8 rounds of the
//	            first when they began and ended and their CPU time, in ns
#define _GNU_SOURCE
#include "sites.h"
#include "ticks.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, UNITS = 1 << 20 };

static struct counts *counts; // by thread or child
static uint64_t rounds;
static volatile sig_atomic_t done;
static struct { uint64_t begin, end, cpu; } *units;

static void stop(int sig) { done = sig; }

static void fail(const char *what)
{
	perror(what);
	_exit(2);
}

#ifdef __aarch64__
// taken is what branch i of sites.c does in round k.
static int taken(int i, int k)
{
	int n = k >> 3 & 1, z = k >> 2 & 1, c = k >> 1 & 1, v = k & 1;
	int is[] = {z, c, n, v, c & !z, n == v, n == v && !z};
	int by[] = {!(k & 1), k & 1, !(k & 2), (k & 15) != 0, !(k & 1), k >> 3 & 1, !(k >> 4 & 1), k >> 2 & 1};
	return i < 14 ? is[i >> 1] ^ (i & 1) : by[i - 14];
}
#else
// taken is what the processor does with the low four bits of a branch's opcode, those of i.
static int taken(int i, int k)
{
	int cond = i % 16;
	int cf = k & 1, pf = k >> 1 & 1, zf = k >> 2 & 1, sf = k >> 3 & 1, of = k >> 4 & 1;
	int is[] = {of, cf, zf, cf | zf, sf, pf, sf ^ of, zf | (sf ^ of)};
	return is[cond >> 1] ^ (cond & 1);
}
#endif

// check tells whether c is what n rounds, a multiple of FLAGS, have to count.
static int check(const struct counts *c, uint64_t n)
{
	for (int i = 0; i < SITES; i++) {
		uint64_t want = 0;
		for (int k = 0; k < FLAGS && i < BRANCHES; k++)
			want += taken(i, k);
		want *= n / FLAGS;
		if (c->taken[i] != want || c->passed[i] != n - want)
			return 0;
	}
	return 1;
}

static void *thread(void *c)
{
	if (run(rounds, c) || !check(c, rounds))
		abort();
	return 0;
}

static void *become(void *i)
{
	char number[24], index[24];
	snprintf(number, sizeof number, "%llu", (unsigned long long)rounds);
	snprintf(index, sizeof index, "%d", (int)(intptr_t)i);
	execl("/proc/self/exe", "stretch", "once", number, index, (char *)0);
	fail("exec");
	return 0;
}

static void stretch(const char *what, int n)
{
	pthread_t t[MOST];
	memset(counts, 0, n * sizeof *counts);
	uint64_t begin = ns(CLOCK_MONOTONIC);
	for (int i = 0; i < n; i++) {
		if (!strcmp(what, "threads")) {
			if (pthread_create(&t[i], 0, thread, &counts[i]))
				fail("pthread_create");
		} else if (!fork()) {
			if (!strcmp(what, "execs")) {
				pthread_create(&t[0], 0, become, (void *)(intptr_t)i);
				pthread_join(t[0], 0);
			}
			thread(&counts[i]);
			_exit(0);
		}
	}
	for (int i = 0; i < n; i++) {
		int status = 0;
		if (!strcmp(what, "threads"))
			pthread_join(t[i], 0);
		else if (wait(&status) < 0 || status)
			fail("a child");
	}
	uint64_t end = ns(CLOCK_MONOTONIC);
	struct counts sum = {0};
	for (int i = 0; i < n; i++)
		for (int k = 0; k < SITES; k++) {
			sum.passed[k] += counts[i].passed[k];
			sum.taken[k] += counts[i].taken[k];
		}
	printf("%llu %llu", (unsigned long long)begin, (unsigned long long)end);
	for (int k = 0; k < SITES; k++)
		printf(" %llu %llu", (unsigned long long)sum.passed[k], (unsigned long long)sum.taken[k]);
	printf("\n");
	fflush(stdout);
}

enum { ITEMS = 64 };

// sort is a leaf function that keeps what it can below its stack pointer.
__attribute__((noinline)) void sort(uint32_t *v, int n)
{
	for (int i = 1; i < n; i++) {
		uint32_t x = v[i];
		int k = i;
		for (; k > 0 && v[k - 1] > x; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
}

// hash is another one: its array is all in the red zone.
__attribute__((noinline)) uint64_t hash(const uint32_t *v, int n)
{
	volatile uint64_t s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	for (int i = 0; i < n; i++)
		if (v[i] & 1)
			s[i & 7] = s[(i + 3) & 7] * 0x100000001b3 ^ v[i];
		else
			s[(i + 5) & 7] += s[i & 7] ^ v[i];
	return s[0] ^ s[1] << 1 ^ s[2] << 2 ^ s[3] << 3 ^ s[4] << 4 ^ s[5] << 5 ^ s[6] << 6 ^ s[7] << 7;
}

static uint64_t sum(uint32_t seed)
{
	uint32_t v[ITEMS];
	for (int i = 0; i < ITEMS; i++)
		v[i] = seed = seed * 1103515245 + 12345;
	uint64_t before = hash(v, ITEMS);
	sort(v, ITEMS);
	for (int i = 1; i < ITEMS; i++)
		if (v[i - 1] > v[i])
			return 0;
	return before * 31 + hash(v, ITEMS);
}

static int child(uint32_t seed, uint64_t want)
{
	struct counts c = {0};
	return sum(seed) == want && !run(FLAGS, &c) && check(&c, FLAGS);
}

static void children(int n)
{
	int right = 0, wrong = 0, crashed = 0, status;
	uint64_t want[16];
	for (int i = 0; i < 16; i++)
		want[i] = sum(i);
	for (int i = 0; i < n && !done; i++) {
		if (!fork())
			_exit(!child(i & 15, want[i & 15]));
		if (wait(&status) < 0)
			fail("wait");
		right += status == 0;
		wrong += WIFEXITED(status) && status;
		crashed += !WIFEXITED(status);
	}
	printf("%d %d %d\n", right, wrong, crashed);
}

static void *forever(void *first)
{
	static __thread struct counts c;
	for (int n = 0; !done; n++) {
		uint64_t begin = ns(CLOCK_MONOTONIC), cpu = ns(CLOCK_THREAD_CPUTIME_ID);
		if (run(8, &c))
			abort();
		if (first) {
			units[n % UNITS].cpu = ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
			units[n % UNITS].begin = begin;
			units[n % UNITS].end = ns(CLOCK_MONOTONIC);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *what = argv[1];
	int n = atoi(argv[2]);
	signal(SIGTERM, stop);
	// Programs that children turn into find the counters under the same number.
	enum { MEMORY = 100 };
	if (!strcmp(what, "once")) {
		rounds = n;
		counts = mmap(0, MOST * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0);
		if (counts == MAP_FAILED)
			fail("mmap");
		thread(&counts[atoi(argv[3])]);
		return 0;
	}
	if (!strcmp(what, "children")) {
		children(n);
		return 0;
	}
	if (n > MOST)
		return 2;
	if (!strcmp(what, "units")) {
		pthread_t t[MOST];
		units = calloc(UNITS, sizeof *units);
		for (int i = 0; i < n; i++)
			pthread_create(&t[i], 0, forever, (void *)(intptr_t)(i == 0));
		for (int i = 0; i < n; i++)
			pthread_join(t[i], 0);
		for (int i = 0; i < UNITS && units[i].begin; i++)
			printf("%llu %llu %llu\n", (unsigned long long)units[i].begin,
				(unsigned long long)units[i].end, (unsigned long long)units[i].cpu);
		return 0;
	}
	int fd = memfd_create("counts", 0);
	if (fd < 0 || dup2(fd, MEMORY) < 0 || ftruncate(fd, MOST * sizeof *counts))
		fail("memfd_create");
	counts = mmap(0, MOST * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		fail("mmap");
	unsigned long long line;
	while (scanf("%llu", &line) == 1) {
		rounds = line;
		stretch(what, n);
	}
	return 0;
}
