// zstdbench FILE LEVEL N compresses FILE N times, at LEVEL and the two levels
// above it in turn, and decompresses each result four times.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zstd.h"

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	FILE *f = fopen(argv[1], "rb");
	if (!f)
		return 1;
	int level = atoi(argv[2]), n = atoi(argv[3]);
	fseek(f, 0, SEEK_END);
	size_t size = ftell(f), bound = ZSTD_compressBound(size), sum = 0;
	rewind(f);
	char *in = malloc(size), *packed = malloc(bound), *out = malloc(size);
	if (fread(in, 1, size, f) != size)
		return 1;
	for (int i = 0; i < n; i++) {
		size_t k = ZSTD_compress(packed, bound, in, size, level + i % 3);
		for (int j = 0; j < 4; j++)
			ZSTD_decompress(out, size, packed, k);
		if (memcmp(in, out, size))
			return 1;
		sum += k;
	}
	printf("%zu\n", sum);
}
