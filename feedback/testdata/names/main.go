// Names calls each kind of function that Go has a way of naming, each from a
// line of its own. It prints how much it did.
package main

import (
	"fmt"
	"iter"
	"sort"

	"example.com/dots.v2/pkg.v3"
	"example.com/names/asm"
	"example.com/names/c"
)

const rounds = 20

var (
	total  int
	atInit = count(1)
	table  = map[string]int{
		"a": count(2),
		"b": count(3),
	}
)

//go:noinline
func count(n int) int {
	total += n
	return n
}

func init() {
	count(4)
}

func init() {
	count(5)
}

type shape interface{ area() int }

type square struct{ side int }

type circle struct{ radius int }

type framed struct {
	shape
	width int
}

type board struct{ square }

//go:noinline
func (s square) area() int { return count(s.side) }

//go:noinline
func (c *circle) area() int { return count(c.radius) }

type list[T any] struct{ items []T }

//go:noinline
func (l *list[T]) push(x T) { l.items = append(l.items, x) }

//go:noinline
func (l *list[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, x := range l.items {
			if !yield(x) {
				return
			}
		}
	}
}

//go:noinline
func generic[T, U any](x T, f func(T) U) U {
	count(1)
	return f(x)
}

//go:noinline
func apply(f func(int) int, n int) int {
	return f(n)
}

//go:noinline
func indirect(s shape) int {
	return s.area()
}

// copied is inlined, and its closure with it.
func copied(n int) func() int {
	return func() int {
		return count(n)
	}
}

//go:noinline
func run(f func() int) int {
	return f()
}

// small is inlined.
func small(n int) int {
	return count(n) + 1
}

func nested(n int) int {
	return small(n) * 2
}

type adder int

//go:noinline
func (a adder) add(n int) int {
	return count(int(a) + n)
}

//go:noinline
func recursive(n int) int {
	if n == 0 {
		return 0
	}
	return count(1) + recursive(n-1)
}

//go:noinline
func deferred() {
	defer count(1)
	defer func() {
		count(2)
	}()
	count(3)
}

type byValue []int

func (b byValue) Len() int           { return len(b) }
func (b byValue) Less(i, j int) bool { return b[i] < b[j] }
func (b byValue) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

//go:noinline
func work(i int) {
	indirect(square{i})
	indirect(&square{i})
	indirect(&circle{i})
	indirect(framed{&circle{i}, 2})
	indirect(&board{square{i}})
	board{square{i}}.area()
	local := func(n int) int {
		return count(n)
	}
	apply(local, i)
	apply(adder(i).add, 3)
	generic(i, adder(i).add)
	generic("text", func(s string) []byte {
		count(len(s))
		return []byte(s)
	})
	var l list[int]
	l.push(i)
	var texts list[struct{ a, b string }]
	texts.push(struct{ a, b string }{"a", "b"})
	for x := range l.all() {
		count(x)
	}
	run(copied(i))
	nested(i)
	recursive(i)
	deferred()
	done := make(chan bool)
	go func() {
		count(1)
		close(done)
	}()
	<-done
	values := byValue{3, 1, 2}
	sort.Sort(values)
	asm.Add(i, 1)
	asm.Twice(i)
	c.Half(i)
	c.Again(i)
	var counter pkg.Counter
	counter.Add(i)
	pkg.Sum([]int{i, 1})
	pkg.Sum([]float64{1, 2})
	pkg.Each(3, counter.Add)
	pkg.Each(3, func(n int) {
		count(n)
	})
//line elsewhere.y:7
	count(i)
//line elsewhere.y:3
	small(i)
}

func main() {
	for i := range rounds {
		work(i)
	}
	fmt.Println(total, atInit, table["a"])
}
