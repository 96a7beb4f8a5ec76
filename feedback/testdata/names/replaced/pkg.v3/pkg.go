// Package pkg is of a module that a directory replaces, or that is vendored, and
// has dots in its path, which symbols escape.
package pkg

type Counter struct{ n int }

//go:noinline
func (c *Counter) Add(n int) { c.n += n }

//go:noinline
func Sum[T int | float64](s []T) (t T) {
	for _, x := range s {
		t = plus(t, x)
	}
	return t
}

//go:noinline
func plus[T int | float64](a, b T) T { return a + b }

//go:noinline
func Each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}
