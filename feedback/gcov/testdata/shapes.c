/* Functions of many shapes: loops, a switch, an inline function in a loop, calls that do not return,
   recursion, a computed goto, an indirect call, setjmp, and one that never runs. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf out;
volatile unsigned sink;

static inline unsigned mix(unsigned x)
{
	return x % 3 == 0 ? x / 3 : 2 * x + 1;
}

__attribute__((noinline)) static unsigned loops(unsigned n)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < i; j++) {
			if ((i ^ j) % 5 == 0)
				continue;
			if (j > 50)
				break;
			sum += mix(j);
		}
	return sum;
}

__attribute__((noinline)) static unsigned pick(unsigned x)
{
	switch (x % 7) {
	case 0: return x + 1;
	case 1: return x * 3;
	case 2: x ^= 5; /* fall through */
	case 3: return x - 2;
	case 5: return x >> 1;
	default: return x;
	}
}

__attribute__((noinline, noreturn)) static void stop(int code)
{
	printf("%u\n", sink);
	if (code > 1)
		abort();
	exit(code);
}

__attribute__((noinline)) static unsigned fib(unsigned n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) static unsigned machine(const unsigned char *code)
{
	static void *const ops[] = { &&end, &&inc, &&dbl, &&dec, &&loop };
	unsigned acc = 1, left = 10;
	const unsigned char *pc = code;
	goto *ops[*pc++];
inc:
	acc++;
	goto *ops[*pc++];
dbl:
	acc *= 2;
	goto *ops[*pc++];
dec:
	acc--;
	goto *ops[*pc++];
loop:
	if (left-- > 0)
		pc = code;
	goto *ops[*pc++];
end:
	return acc;
}

__attribute__((noinline)) static void leave(int n)
{
	if (n % 4 == 3)
		longjmp(out, n);
	sink += n;
}

__attribute__((noinline)) static int again(int n)
{
	volatile int times = 0;
	int from = setjmp(out);
	times++;
	if (from < n)
		leave(from + 3);
	return times;
}

unsigned never(unsigned n)
{
	while (n > 3)
		n = pick(n) / 2;
	return n;
}

int main(int argc, char **argv)
{
	static const unsigned char code[] = { 1, 2, 3, 4, 0 };
	unsigned (*const calls[])(unsigned) = { pick, fib, loops };
	for (unsigned i = 0; i < 300; i++) {
		sink += pick(i);
		sink += calls[i % 3](i % 12);
	}
	sink += loops(200) + fib(15) + machine(code) + again(2);
	if (argc > 3)
		sink += never(argc);
	stop(argc > 1);
}
