/* Every way of jumping that flow graphs must see through. Built by
   jumptable_test.go with each compiler that the machine has. */

extern int out(int);
extern void die(void) __attribute__((noreturn));
extern int table_user(int);

/* Twenty cases of different code: AArch64 compilers chain comparisons for few. */
#define CASES(F) \
	F(0, +, 9) F(1, *, 3) F(2, -, 7) F(3, ^, 5) F(4, |, 9) F(5, &, 3) F(6, <<, 2) F(7, >>, 2) F(8, +, 1) F(9, *, 5) \
	F(10, -, 3) F(11, ^, 6) F(12, |, 7) F(13, &, 6) F(14, <<, 4) F(15, >>, 4) F(16, +, 5) F(17, *, 7) F(18, -, 9) F(19, ^, 8)

/* A dense switch behind a bounds check. */
int dense(int x) {
	switch (x) {
#define F(n, op, c) \
	case n: return out(11 * n + 10) op c;
		CASES(F)
#undef F
	}
	return -1;
}

/* A switch in a loop: the address of the table is computed before it. */
int loop(const unsigned char *s, int n) {
	int sum = 0;
	for (int i = 0; i < n; i++) {
		switch (s[i]) {
#define F(n, op, c) \
	case 'a' + n: sum = (sum op c) + out(n + c); break;
			CASES(F)
#undef F
		}
	}
	return sum;
}

/* No bounds check: the compiler knows that x is below 20, which the mask does not say. */
int unchecked(unsigned x) {
	switch (x & 31) {
#define F(n, op, c) \
	case n: return out(13 * n + 1) op c;
		CASES(F)
#undef F
	default: __builtin_unreachable();
	}
}

/* Labels as values, in an interpreter that jumps from each of its operations. */
int computed(const unsigned char *pc) {
	static const void *const ops[] = {&&inc, &&dec, &&twice, &&call, &&stop};
	int acc = 0;
	goto *ops[*pc++];
inc:
	acc++;
	goto *ops[*pc++];
dec:
	acc--;
	goto *ops[*pc++];
twice:
	acc *= 2;
	goto *ops[*pc++];
call:
	acc = out(acc);
	goto *ops[*pc++];
stop:
	return acc;
}

/* The same, with the table's address from where nobody can follow it, but once. */
extern const void *const *kept(const void *const *);
int threaded(const unsigned char *pc) {
	static const void *const ops[] = {&&inc, &&dec, &&twice, &&call, &&stop};
	int acc = 0;
	goto *ops[*pc++];
inc:
	acc++;
	goto *kept(ops)[*pc++];
dec:
	acc--;
	goto *kept(ops)[*pc++];
twice:
	acc *= 2;
	goto *kept(ops)[*pc++];
call:
	acc = out(acc);
	goto *kept(ops)[*pc++];
stop:
	return acc;
}

/* Labels come from the caller: nobody can tell where this goes. */
int unknown(void **labels, int i) {
	static void *keep[2];
	volatile char frame[64];
	frame[i & 63] = 0;
	keep[0] = &&one;
	keep[1] = &&two;
	out((long)keep[i & 1] & 1);
	goto *labels[i];
one:
	return frame[1] + out(1);
two:
	return frame[2] + out(2);
}

/* An indirect tail call, as to a virtual function. */
struct obj {
	int (**vtable)(struct obj *);
};
int tail(struct obj *o) {
	return o->vtable[3](o);
}

/* A procedure that never returns, and one that calls it. */
__attribute__((noinline)) void fail(int x) {
	out(x);
	die();
}
int check(int x) {
	if (x < 0)
		fail(x);
	return out(x);
}
