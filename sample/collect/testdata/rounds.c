// rounds N: runs N rounds of 16 instructions. Nothing else takes time.
#include <stdlib.h>

#define NOPS "nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n"

__attribute__((noinline)) static void rounds(unsigned long n)
{
#if defined(__aarch64__)
	__asm__ volatile("1: " NOPS "subs %0, %0, #1\n b.ne 1b\n" : "+r"(n) : : "cc");
#elif defined(__x86_64__)
	__asm__ volatile("1: " NOPS "dec %0\n jnz 1b\n" : "+r"(n) : : "cc");
#endif
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	rounds(strtoul(argv[1], 0, 0));
	return 0;
}
