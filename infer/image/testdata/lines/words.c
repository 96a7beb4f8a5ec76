/* Counts words in a text that it makes up. Static functions that are inlined,
 * split and specialised; several blocks on one line; a line number changed by
 * a directive. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry { char word[24]; int count; struct entry *next; };
static struct entry *table[256];

static inline unsigned step(unsigned h, int c) { return (h << 5) + h + c; }

static unsigned hash(const char *s)
{
	unsigned h = 5381;
	while (*s) h = step(h, *s++);
	return h & 255;
}

static void die(const char *why)
{
	fprintf(stderr, "words: %s\n", why);
	exit(1);
}

static struct entry *lookup(const char *s, int create)
{
	unsigned h = hash(s);
	struct entry *e;
	for (e = table[h]; e; e = e->next) if (strcmp(e->word, s) == 0) return e;
	if (!create) return NULL;
	if (!(e = calloc(1, sizeof *e))) die("out of memory");
	strncpy(e->word, s, sizeof e->word - 1);
	e->next = table[h];
	return table[h] = e;
}

static int letters(unsigned n, char *out)
{
	int i = 0;
	do { out[i++] = n % 3 ? 'a' + n % 26 : n & 1 ? 'x' : 'y'; n /= 7; } while (n);
	out[i] = 0;
	return i;
}

#line 500 "generated.y"
static long work(unsigned n)
{
	char word[24];
	long sum = 0;
	for (unsigned i = 0; i < n; i++) {
		if (letters(i * 2654435761u, word) > 3 && i % 5) lookup(word, 1)->count++;
		else { struct entry *e = lookup(word, 0); sum += e ? e->count : -1; }
	}
	return sum;
}

int main(int argc, char **argv)
{
	long sum = work(argc > 1 ? atoi(argv[1]) : 1000);
	for (int i = 0; i < 256; i++)
		for (struct entry *e = table[i]; e; e = e->next) sum += e->count * (i & 3);
	printf("%ld\n", sum);
	return 0;
}
