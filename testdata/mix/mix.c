// mix runs kernels of different character, one after the other: sorting with
// unpredictable branches, a hash table with cache misses, a tokenizer with a
// switch, a chain of divisions, a recursion, and an interpreter with a
// dispatch table. Its output depends on nothing but its argument.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 12345;
static uint32_t rnd(void) { return seed = seed * 1664525u + 1013904223u; }

__attribute__((noinline)) static void quicksort(uint32_t *a, long lo, long hi) {
	while (lo < hi) {
		uint32_t p = a[(lo + hi) / 2];
		long i = lo, j = hi;
		while (i <= j) {
			while (a[i] < p) i++;
			while (a[j] > p) j--;
			if (i <= j) {
				uint32_t t = a[i];
				a[i++] = a[j];
				a[j--] = t;
			}
		}
		if (j - lo < hi - i) {
			quicksort(a, lo, j);
			lo = i;
		} else {
			quicksort(a, i, hi);
			hi = j;
		}
	}
}

struct node { struct node *next; uint32_t key, n; };
enum { BUCKETS = 1 << 16 };
static struct node *table[BUCKETS], pool[1 << 17];
static int used;

__attribute__((noinline)) static struct node *lookup(uint32_t key) {
	struct node **b = &table[(key * 2654435761u) >> 16];
	for (struct node *e = *b; e; e = e->next)
		if (e->key == key) return e;
	if (used == sizeof pool / sizeof *pool) return NULL;
	struct node *e = &pool[used++];
	e->key = key;
	e->next = *b;
	return *b = e;
}

__attribute__((noinline)) static long count_words(int n) {
	long hits = 0;
	for (int i = 0; i < n; i++) {
		struct node *e = lookup(rnd() >> (8 + (i & 7)));
		if (!e) continue;
		if (++e->n > 1) hits++;
	}
	return hits;
}

struct totals { long words, numbers, strings, comments, others; };

__attribute__((noinline)) static void tokenize(const char *s, struct totals *t) {
	while (*s) {
		switch (*s) {
		case ' ': case '\t': case '\n': s++; break;
		case '0': case '1': case '2': case '3': case '4':
		case '5': case '6': case '7': case '8': case '9':
			t->numbers++;
			while (*s >= '0' && *s <= '9') s++;
			break;
		case '"':
			t->strings++;
			for (s++; *s && *s != '"'; s++)
				if (*s == '\\' && s[1]) s++;
			if (*s) s++;
			break;
		case '#':
			t->comments++;
			while (*s && *s != '\n') s++;
			break;
		default:
			if ((*s | 32) >= 'a' && (*s | 32) <= 'z') {
				t->words++;
				while ((*s | 32) >= 'a' && (*s | 32) <= 'z') s++;
			} else {
				t->others++;
				s++;
			}
		}
	}
}

__attribute__((noinline)) static uint64_t gcd_sum(int n) {
	uint64_t sum = 0;
	for (int i = 1; i < n; i++) {
		uint32_t a = rnd() | 1, b = i;
		while (b) {
			uint32_t t = a % b;
			a = b;
			b = t;
		}
		sum += a;
	}
	return sum;
}

__attribute__((noinline)) static int ackermann(int m, int n) {
	if (m == 0) return n + 1;
	if (n == 0) return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

enum op { PUSH, ADD, SUB, MUL, DUP, SWAP, JNZ, DEC, HALT };

__attribute__((noinline)) static int64_t interpret(const uint8_t *code) {
	int64_t st[16], *sp = st;
	for (const uint8_t *pc = code;;) {
		switch ((enum op)*pc++) {
		case PUSH: *++sp = *pc++; break;
		case ADD: sp--; *sp += sp[1]; break;
		case SUB: sp--; *sp -= sp[1]; break;
		case MUL: sp--; *sp = (int32_t)(*sp * sp[1]); break;
		case DUP: sp[1] = *sp; sp++; break;
		case SWAP: { int64_t t = *sp; *sp = sp[-1]; sp[-1] = t; break; }
		case DEC: --*sp; break;
		case JNZ: if (*sp) { pc = code + *pc; } else pc++; break;
		case HALT: return sp[-1];
		default: abort();
		}
	}
}

int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 1;
	if (n <= 0) {
		fprintf(stderr, "usage: mix ROUNDS\n");
		return 2;
	}
	static uint32_t a[100000];
	static char text[60001];
	for (int i = 0; i < 60000; i++) {
		static const char from[] = "abcdefghijklmnopqrstuvwxyz      0123456789\"\"#\n.,()";
		text[i] = from[rnd() % (sizeof from - 1)];
	}
	// 200 200 ... count down two nested loops, summing squares.
	static const uint8_t code[] = {PUSH, 1, PUSH, 200, PUSH, 250, SWAP, DUP, MUL, PUSH, 7, ADD, PUSH, 3, SUB, SWAP,
		DEC, JNZ, 6, ADD, SWAP, DEC, JNZ, 4, HALT};
	for (int r = 0; r < n; r++) {
		for (int i = 0; i < 100000; i++) a[i] = rnd();
		quicksort(a, 0, 99999);
		long hits = count_words(300000);
		struct totals t = {0};
		for (int i = 0; i < 40; i++) tokenize(text, &t);
		uint64_t g = gcd_sum(60000);
		int k = ackermann(2, 600);
		int64_t v = 0;
		for (int i = 0; i < 2000; i++) v += interpret(code);
		printf("%u %ld %ld %ld %ld %ld %ld %llu %d %lld\n", a[50000], hits, t.words, t.numbers, t.strings,
			t.comments, t.others, (unsigned long long)g, k, (long long)v);
	}
	return 0;
}
