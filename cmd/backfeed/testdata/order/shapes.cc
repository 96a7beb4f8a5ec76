// Templates and inline functions, which are in groups of sections (COMDAT), a
// constructor with two names, and code that runs before main.
#include <cstdio>
#include <vector>

template <typename T> __attribute__((noinline)) T sum(const std::vector<T> &v)
{
	T s = 0;
	for (T x : v)
		s += x;
	return s;
}

struct Shape {
	int n;
	__attribute__((noinline)) Shape(int n) : n(n) {}
	virtual ~Shape() {}
	virtual int area() const { return n; }
};

struct Square : Shape {
	using Shape::Shape;
	__attribute__((noinline)) int area() const override { return n * n; }
};

static std::vector<int> ints(100, 3);
static std::vector<long> longs(100, 4);

__attribute__((noinline)) int run(int i)
{
	Square s(i);
	const Shape *p = &s;
	return p->area() + sum(ints) + (int)sum(longs);
}

int main()
{
	unsigned t = 0;
	for (int i = 0; i < 1000; i++)
		t += run(i);
	printf("%u\n", t);
}
