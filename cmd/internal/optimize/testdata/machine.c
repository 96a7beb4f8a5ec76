/* machine runs a small program on a machine of registers, over and over: branches that go one way, a loop of a switch,
 * errors that never are, and functions in an order that nobody would link them in. machine TIMES prints a sum. */
#include <stdio.h>
#include <stdlib.h>

enum op { LOAD, ADD, XOR, ROTATE, LESS, JUMP, STORE, CALL, END };

struct insn {
	enum op op;
	unsigned a, b;
};

struct machine {
	unsigned reg[8], mem[256];
	unsigned long steps;
};

static void broken(const char *why, unsigned at)
{
	fprintf(stderr, "machine: %s at %u\n", why, at);
	exit(1);
}

__attribute__((noinline)) static unsigned rotate(struct machine *m, unsigned v, unsigned by)
{
	if (by > 31)
		broken("rotation", by);
	if (by == 0)
		return v;
	m->steps++;
	return v << by | v >> (32 - by);
}

/* Never called: they stand between those that are. */
__attribute__((noinline, used)) static void dump(struct machine *m)
{
	for (int i = 0; i < 8; i++)
		printf("r%d %u\n", i, m->reg[i]);
	for (int i = 0; i < 256; i++)
		if (m->mem[i])
			printf("%d: %u\n", i, m->mem[i]);
}

__attribute__((noinline)) static unsigned load(struct machine *m, unsigned at)
{
	if (at >= 256)
		broken("load", at);
	return m->mem[at];
}

__attribute__((noinline, used)) static unsigned checksum(struct machine *m)
{
	unsigned sum = 0;
	for (int i = 0; i < 256; i++)
		sum = sum * 31 + m->mem[i];
	return sum;
}

__attribute__((noinline)) static void store(struct machine *m, unsigned at, unsigned v)
{
	if (at >= 256)
		broken("store", at);
	if (m->mem[at] != v)
		m->mem[at] = v;
}

static unsigned run(struct machine *m, const struct insn *code, unsigned n)
{
	for (unsigned pc = 0; pc < n; pc++) {
		const struct insn *i = &code[pc];
		switch (i->op) {
		case LOAD:
			m->reg[i->a] = load(m, (m->reg[i->b] + pc) & 255);
			break;
		case ADD:
			m->reg[i->a] += m->reg[i->b] + 1;
			if (m->reg[i->a] == 0xffffffff)
				dump(m);
			break;
		case XOR:
			m->reg[i->a] ^= m->reg[i->b];
			break;
		case ROTATE:
			m->reg[i->a] = rotate(m, m->reg[i->a], i->b);
			break;
		case LESS:
			if (m->reg[i->a] % 64 < m->reg[i->b] % 4)
				pc++;
			break;
		case JUMP:
			pc = i->a - 1;
			break;
		case STORE:
			store(m, m->reg[i->a] & 255, m->reg[i->b]);
			break;
		case CALL:
			m->reg[i->a] = checksum(m);
			break;
		case END:
			return m->reg[i->a];
		default:
			broken("operation", pc);
		}
		m->steps++;
	}
	return 0;
}

static const struct insn code[] = {
	{ LOAD, 0, 1 }, { ADD, 0, 2 }, { XOR, 1, 0 }, { ROTATE, 1, 7 }, { LESS, 1, 2 }, { ADD, 2, 0 },
	{ STORE, 1, 2 }, { LOAD, 3, 2 }, { XOR, 3, 1 }, { LESS, 3, 3 }, { ROTATE, 2, 3 }, { ADD, 1, 3 },
	{ STORE, 0, 3 }, { END, 1, 0 },
};

int main(int argc, char **argv)
{
	static struct machine m;
	unsigned sum = 0;
	long times = argc > 1 ? atol(argv[1]) : 1;
	for (long i = 0; i < times; i++)
		sum += run(&m, code, sizeof code / sizeof *code);
	printf("%u %lu\n", sum, m.steps);
	return 0;
}
