// fresh N: N times 64 MB of fresh memory, a word of every 512 bytes of which is written and another one read.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) uint64_t fill(uint64_t *p, uint64_t n)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i += 64) {
		p[i] = i;
		sum += p[i ^ 64];
	}
	return sum;
}

int main(int argc, char **argv)
{
	const size_t size = 64 << 20;
	uint64_t sum = 0;
	for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0; i--) {
		uint64_t *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return 1;
		madvise(p, size, MADV_NOHUGEPAGE);
		sum += fill(p, size / 8);
		munmap(p, size);
	}
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
