// A loop of which compilers make several: one of vectors, and what is left of it.
#include <stdio.h>

__attribute__((noipa)) static void turns(int *a, int n) {
	for (int i = 0; i < n; i++)
		a[i] = a[i] * 5 + 3;
}

int main(void) {
	static int a[1003];
	for (int i = 0; i < 50; i++)
		turns(a, 1003);
	printf("%d\n", a[1002]);
}
