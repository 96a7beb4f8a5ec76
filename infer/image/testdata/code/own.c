// err is the program's own and returns; errx is the C library's and does not.
extern volatile int v;
volatile int v;
void errx(int, const char *, ...);
__attribute__((noinline)) void err(int n) { v += n; }
int dense(int n) {
	err(n);
	v++;
	if (n > 3)
		errx(1, "");
	v++;
	return n;
}
