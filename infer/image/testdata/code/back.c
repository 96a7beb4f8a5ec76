/* What is rare is split off, and jumps back into a loop whose switch has the address of its table in a register. */
extern void fail(int) __attribute__((cold));
extern int out(int);

int back(const unsigned char *s, int n, int acc) {
	for (int i = 0; i < n; i++) {
		switch (s[i] & 7) {
		case 0: acc += s[i]; break;
		case 1: acc ^= i; break;
		case 2: acc = acc << 3 | 1; break;
		case 3: acc -= i; break;
		case 4: acc *= 7; break;
		default: fail(i); acc--;
		}
		switch (s[i] >> 5) {
		case 0: acc = ~acc; break;
		case 1: acc += 3 * i; break;
		case 2: acc ^= s[i]; break;
		case 3: acc |= 64; break;
		case 4: acc -= 9; break;
		default: fail(acc); acc++;
		}
	}
	return acc;
}
