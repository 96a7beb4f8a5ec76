// What gcc makes of functions under other names: step.constprop.0, scale.isra.0,
// report.part.0 and the cold part of work; and static functions that twins.c has too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct point {
	int x, y, z;
};

int other(int);
int total;

static __attribute__((noinline)) int step(int x, const char *s)
{
	total += x;
	return x * 3 + (int)strlen(s);
}

static __attribute__((noinline)) int scale(struct point *p, int k)
{
	int t = 0, y = p->y;
	for (int i = 0; i < 16; i++)
		t += y * (k + i);
	return t;
}

static __attribute__((noinline)) int twin(int x)
{
	return x * 7 + total;
}

static void report(int x)
{
	if (x % 1000 != 0)
		return;
	for (int i = 0; i < 3; i++) {
		printf("%d %d\n", x, total);
		total ^= x + i;
		if (total < 0)
			puts("negative");
		for (int j = 0; j < i; j++) {
			total += j * x;
			if (total % 17 == 3)
				printf("%d %d\n", j, total);
		}
		printf("then %d, %d and %d\n", total, x, i);
	}
	printf("at %d: %d\n", x, total);
}

__attribute__((cold, noinline)) void oops(int x)
{
	printf("oops %d\n", x);
}

__attribute__((hot, noinline)) int quick(int x)
{
	return x ^ 0x55;
}

__attribute__((constructor)) static void start(void)
{
	total = 1;
}

__attribute__((noinline)) int work(int n)
{
	struct point p = {n, n + 1, n + 2};
	int r = scale(&p, n) + step(n, "work") + twin(n);
	report(n);
	r += quick(r);
	if (r == 0x12345678) {
		oops(r);
		abort();
	}
	return r + other(n);
}

__attribute__((noinline)) int again(int n)
{
	report(n + 1);
	report(n - 1);
	return step(n + 1, "work") + twin(n);
}

int main(void)
{
	unsigned s = 0;
	for (int i = 0; i < 2000; i++)
		s += work(i) + again(i);
	printf("%u\n", s);
	return 0;
}
