// faults PAGES ROUNDS: touches PAGES pages of memory that it has not touched before, ROUNDS times, with a loop between each two of them.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, TURNS = 4000 };

static uint64_t turns(uint64_t x)
{
	for (int i = 0; i < TURNS; i++)
		x += x << 1 ^ i;
	return x;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	size_t pages = atol(argv[1]);
	char *p = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return 1;
	madvise(p, pages * PAGE, MADV_NOHUGEPAGE); // which a kernel without huge pages refuses
	uint64_t sum = 0;
	for (int round = atoi(argv[2]); round > 0; round--) {
		for (size_t i = 0; i < pages; i++) {
			*(volatile char *)(p + i * PAGE) = 1;
			sum += turns(i);
		}
		if (madvise(p, pages * PAGE, MADV_DONTNEED))
			return 1;
	}
	return sum == 42;
}
