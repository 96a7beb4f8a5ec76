/* An interpreter with rare operations, which gcc splits off: labels of its table lead there. */
extern int out(int);
extern void fail(int) __attribute__((cold));

int split(const unsigned char *pc, int *stack) {
	static const void *const ops[] = {&&push, &&add, &&call, &&bad, &&stop, &&deep, &&neg, &&bad};
	int *top = stack, acc = 0;
	goto *ops[*pc++];
push:
	*top++ = acc;
	acc = *pc++;
	goto *ops[*pc++];
add:
	acc += *--top;
	goto *ops[*pc++];
neg:
	acc = -acc;
	goto *ops[*pc++];
call:
	acc = out(acc);
	goto *ops[*pc++];
deep:
	fail(acc);
	top = stack;
	goto *ops[*pc++];
bad:
	fail(pc[-1]);
	acc = 0;
	goto *ops[*pc++];
stop:
	return acc + (int)(top - stack);
}

/* A table of functions that are called last: no label is in it. */
extern int one(int), two(int);
__attribute__((noinline)) static int mine(int i) { return out(i) + 1; }
__attribute__((noinline)) static int other(int i) { return out(i) + 2; }
int last(unsigned char i, int n) {
	static int (*const table[])(int) = {mine, other, mine, other};
	return table[i](n);
}
