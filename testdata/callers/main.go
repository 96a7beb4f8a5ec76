// Callers does what keeps Go programs busy, for as many seconds as it is told:
// JSON, sorting, hashing, maps, text, interface calls, and the garbage of all that.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

type shape interface{ area() float64 }

type square struct{ side float64 }
type circle struct{ radius float64 }
type both struct{ a, b shape }

//go:noinline
func (s square) area() float64 { return s.side * s.side }

//go:noinline
func (c *circle) area() float64 { return 3 * c.radius * c.radius }

//go:noinline
func (b *both) area() float64 { return b.a.area() + b.b.area() }

//go:noinline
func sum(shapes []shape) (total float64) {
	for _, s := range shapes {
		total += s.area()
	}
	return total
}

type item struct {
	ID    int               `json:"id"`
	Name  string            `json:"name"`
	Tags  []string          `json:"tags"`
	Attrs map[string]string `json:"attrs"`
	Score float64           `json:"score"`
}

func items(n int) []item {
	out := make([]item, n)
	for i := range out {
		id := strconv.Itoa(i)
		out[i] = item{i, "item " + id, []string{"red", "green", id}, map[string]string{"k" + id: "v", "size": id}, float64(i) / 3}
	}
	return out
}

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var shapes []shape
	for i := range 3000 {
		s := []shape{square{float64(i)}, &circle{float64(i)}, &both{square{1}, &circle{float64(i)}}}
		shapes = append(shapes, s[rnd.IntN(3)])
	}
	numbers := make([]int, 20000)
	words := map[string]int{}
	var check float64
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		b, err := json.Marshal(items(200))
		var back []item
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil {
			panic(err)
		}
		h := sha256.Sum256(b)
		for i := range numbers {
			numbers[i] = rnd.IntN(1 << 30)
		}
		sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
		sort.Slice(back, func(i, j int) bool { return back[i].Name < back[j].Name })
		for _, w := range strings.Fields(strings.ToUpper(string(b[:4096]))) {
			words[w]++
		}
		for range 20 {
			check += sum(shapes)
		}
		check += float64(h[0]) + float64(len(words)) + float64(numbers[0])
	}
	fmt.Println(check)
}
