// Landing pads, and a cold part that the compiler splits off and that comes back.
extern void may_throw(int);
extern int out(int);

struct guard {
	int x;
	~guard() { out(x); }
};

int cleanup(int x) {
	guard g{x};
	may_throw(x);
	return out(x + 1);
}

int handler(int x) {
	try {
		may_throw(x);
	} catch (int e) {
		return out(e);
	}
	return 0;
}

__attribute__((cold, noinline)) void rare(int x) { out(x); }

int partly(int x) {
	int sum = 0;
	for (int i = 0; i < x; i++) {
		if (__builtin_expect(x == i * 7, 0)) {
			rare(x);
			sum += out(i);
		}
		sum += out(sum);
	}
	return sum;
}
