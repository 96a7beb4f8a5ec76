/* An interpreter whose programs hold the addresses of their instructions: it gives its table of labels away, and never reads it. */
extern int out(int);

int thread(const void *const *pc, int *stack, const void *const **give) {
	static const void *const ops[] = {&&push, &&add, &&sub, &&neg, &&call, &&dup, &&jump, &&zero, &&stop};
	int *top = stack, acc = 0;
	if (!pc) {
		*give = ops;
		return sizeof ops / sizeof *ops;
	}
	goto **pc++;
push:
	*top++ = acc;
	acc = (int)(long)*pc++;
	goto **pc++;
add:
	acc += *--top;
	goto **pc++;
sub:
	acc -= *--top;
	goto **pc++;
neg:
	acc = -acc;
	goto **pc++;
call:
	acc = out(acc);
	goto **pc++;
dup:
	*top++ = acc;
	goto **pc++;
jump:
	pc = (const void *const *)*pc;
	goto **pc++;
zero:
	pc = acc ? pc + 1 : (const void *const *)*pc;
	goto **pc++;
stop:
	return acc + (int)(top - stack);
}
