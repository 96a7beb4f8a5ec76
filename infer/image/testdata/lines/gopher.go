// Command gopher writes a CPU profile of itself to the file that it is given.
// Its code has what makes inlined calls hard to follow: generic functions,
// closures, method wrappers, range-over-func, defer, //line.
package main

import (
	"fmt"
	"hash/fnv"
	"iter"
	"log"
	"os"
	"runtime/pprof"
	"slices"
	"sort"
	"strings"
	"time"
)

type shape interface{ area() float64 }

type square struct{ side float64 }

func (s square) area() float64 { return mul(s.side, s.side) }

type circle struct{ r float64 }

func (c *circle) area() float64 { return 3 * mul(c.r, c.r) }

type named struct {
	shape
	name string
}

func mul(a, b float64) float64 { return a * b }

type number interface{ ~int | ~float64 }

func sum[T number](in []T) (total T) {
	for _, v := range in {
		total = add(total, v)
	}
	return total
}

func add[T number](a, b T) T { return a + b }

type bySize []shape

func (s bySize) Len() int           { return len(s) }
func (s bySize) Less(i, j int) bool { return s[i].area() < s[j].area() }
func (s bySize) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func hash(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

//go:noinline
func shapes(n int) float64 {
	var all []shape
	for i := range upTo(n) {
		v := float64(i*7919%n + 1)
		switch i % 3 {
		case 0:
			all = append(all, square{v})
		case 1:
			all = append(all, &circle{v})
		default:
			all = append(all, named{square{v}, fmt.Sprint("shape", i)})
		}
	}
	sort.Sort(bySize(all))
	var areas []float64
	for _, s := range all {
		areas = append(areas, s.area())
	}
	return sum(areas)
}

func guarded(f func(int) int, n int) (out int) {
	defer func() {
		if p := recover(); p != nil {
			out = -1
		}
	}()
	return f(n)
}

//line generated.y:7
func words(n int) int {
	seen := map[string]int{}
	for i := range n {
		w := strings.Repeat(string(rune('a'+i%26)), 1+i%5)
		seen[w] += guarded(func(k int) int {
			if k%97 == 0 {
				panic("multiple")
			}
			return int(hash(w)) % k
		}, i)
	}
	keys := make([]string, 0, len(seen))
	for k := range seen {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return seen[a] - seen[b] })
	return sum([]int{len(keys), seen["a"]})
}

func main() {
	out, err := os.Create(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		log.Fatal(err)
	}
	done := 0.0
	for start := time.Now(); time.Since(start) < 600*time.Millisecond; {
		done += shapes(2000) + float64(words(2000))
	}
	pprof.StopCPUProfile()
	if err := out.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(done > 0)
}
