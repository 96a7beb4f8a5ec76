// What the seeds of FuzzLines were made of, in /src:
//
//	clang-19 -O2 -gdwarf-5 -fdebug-info-for-profiling -nostdlib -static -Wl,-n,--build-id=none -o clang5.elf tiny.c
//	gcc -O2 -gdwarf-4 -nostdlib -static -Wl,-n,--build-id=none -o gcc4.elf tiny.c
static int twice(int n) { return n > 3 ? n * 2 : n + 1; }
static int both(int a, int b) { return twice(a) ^ twice(b); }
int answer = 42;
__attribute__((noinline)) static int loop(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++) sum += both(i, answer);
	return sum;
}
void _start(void) { answer = loop(answer); for (;;) ; }
