// vectors WIDTH: fills the vector registers and spins. Byte k of register i is 64 * i + k; WIDTH bytes of each are set,
// 16, 32 or 64. r8, or x9, is 0x1234, and [rsp], or [sp], 0x5678. It prints a line before.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint8_t v[32][64];

#define EACH16(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15)
#define MORE16(x) x(16) x(17) x(18) x(19) x(20) x(21) x(22) x(23) x(24) x(25) x(26) x(27) x(28) x(29) x(30) x(31)

int main(int argc, char **argv)
{
	int width = argc > 1 ? atoi(argv[1]) : 16;
	for (int i = 0; i < 32; i++)
		for (int k = 0; k < 64; k++)
			v[i][k] = 64 * i + k;
	puts("filled");
	fflush(stdout);
#if defined(__x86_64__)
#define SSE(i) "movups 64*" #i "(%0), %%xmm" #i "\n"
#define AVX(i) "vmovups 64*" #i "(%0), %%ymm" #i "\n"
#define WIDE(i) "vmovups 64*" #i "(%0), %%zmm" #i "\n"
	if (width == 64)
		__asm__ volatile(EACH16(WIDE) MORE16(WIDE) "kmovq 64*5+8(%0), %%k5\n" : : "r"(v));
	else if (width == 32)
		__asm__ volatile(EACH16(AVX) : : "r"(v));
	else
		__asm__ volatile(EACH16(SSE) : : "r"(v));
	__asm__ volatile("mov $0x1234, %%r8\n push $0x5678\n 1: pause\n jmp 1b\n" : : : "r8");
#elif defined(__aarch64__)
#define LOAD(i) "ldr q" #i ", [%0, #64*" #i "]\n"
	(void)width;
	__asm__ volatile(EACH16(LOAD) MORE16(LOAD) "mov x10, #0x5678\n str x10, [sp, #-16]!\n mov x9, #0x1234\n 1: yield\n b 1b\n"
		: : "r"(v) : "x9", "x10");
#endif
}
