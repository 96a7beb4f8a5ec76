/* loop.callgrind is this program's, made on x86-64 with
 *   gcc-12 -O1 -static -nostdlib -fcf-protection=none loop.c -o loop
 *   valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes --callgrind-out-file=loop.callgrind ./loop
 */
static volatile int sink = 1;

static __attribute__((noinline)) void work(int i)
{
	if (i % 4 == 0)
		sink = i;
}

void _start(void)
{
	for (int i = 0; i < 100; i++)
		work(i);
	__asm__ volatile("syscall" : : "a"(60), "D"(0)); /* exit */
	__builtin_unreachable();
}
