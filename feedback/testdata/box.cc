// A constructor that gcc inlines late without a profile, and early with one: debug
// information has its unified name, calls have that of a variant.
#include <cstdio>

struct Box {
	long a, b;
	Box(long x) {
		a = x;
		b = 0;
		for (long i = 0; i < x % 7 + 3; i++) {
			b += i * x;
			b ^= b << 3;
			b += a % 11;
			if (b & 1)
				b -= 17;
			else
				b += 19;
			a += b >> 2;
		}
	}
};

__attribute__((noinline)) long work(long n) {
	long sum = 0;
	for (long i = 0; i < n; i++) {
		Box box(i);
		sum += box.b;
	}
	return sum;
}

int main() { printf("%ld\n", work(10000)); }
