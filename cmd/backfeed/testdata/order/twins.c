static __attribute__((noinline)) int step(int x)
{
	return x * 11 + 1;
}

static __attribute__((noinline)) int twin(int x)
{
	return x % 9;
}

int other(int x)
{
	return step(x) + twin(x);
}
