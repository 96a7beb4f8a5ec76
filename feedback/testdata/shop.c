// What a profile for clang has to carry: small functions inlined at several
// places, calls through pointers, a loop that is unrolled, a switch, branches that
// lean one way, and a static function.
#include <stdio.h>
#include <stdlib.h>

typedef struct { unsigned price, count, kind; } item;

static inline unsigned discount(unsigned price, unsigned count) {
	if (count > 10)
		return price * count * 9 / 10;
	if (__builtin_expect(count == 0, 0))
		return price;
	return price * count;
}

static inline unsigned tax(unsigned sum, unsigned kind) {
	switch (kind) {
	case 0: return sum + sum / 5;
	case 1: return sum + sum / 10;
	case 2: return sum + sum / 20 + 1;
	case 3: return sum ^ 0x55;
	case 4: return sum * 3 / 2;
	case 5: return sum - sum / 7;
	default: return sum;
	}
}

__attribute__((noinline)) unsigned byPrice(const item *i) { return discount(i->price, i->count); }
__attribute__((noinline)) unsigned byKind(const item *i) { return tax(i->price, i->kind); }
__attribute__((noinline)) static unsigned both(const item *i) { return tax(discount(i->price, i->count), i->kind); }

typedef unsigned (*worth)(const item *);

__attribute__((noinline)) unsigned total(const item *items, int n, worth w) {
	unsigned sum = 0;
	for (int i = 0; i < n; i++) {
		unsigned v = w(&items[i]);
		if (v & 1)
			sum += v;
		else if (v % 64 == 2)
			sum ^= v;
	}
	return sum;
}

__attribute__((noinline)) unsigned count(const item *items, int n) {
	unsigned sum = 0;
	for (int i = 0; i < n; i++)
		sum += items[i].count;
	return sum;
}

__attribute__((noinline)) int compare(const void *a, const void *b) {
	const item *x = a, *y = b;
	return x->price < y->price ? -1 : x->price > y->price;
}

__attribute__((noinline)) unsigned depth(unsigned n) { return n < 2 ? n : depth(n - 1) + depth(n - 2); }

__attribute__((noinline, cold)) void fail(const char *why) {
	fprintf(stderr, "%s\n", why);
	exit(1);
}

int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 2000;
	item *items = malloc(n * sizeof *items);
	if (!items || n < 1)
		fail("no items");
	unsigned seed = 1, sum = 0;
	for (int i = 0; i < n; i++) {
		seed = seed * 1103515245 + 12345;
		items[i] = (item){seed >> 16 & 1023, seed >> 8 & 15, (seed >> 20) % 9};
	}
	for (int round = 0; round < 20; round++) {
		worth w = round % 10 == 0 ? byPrice : round % 10 == 1 ? byKind : both;
		sum += total(items, n, w) + count(items, n);
	}
	qsort(items, n, sizeof *items, compare);
	sum += depth(15);
	printf("%u %u\n", sum, items[n / 2].price);
	return 0;
}
