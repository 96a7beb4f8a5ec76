// Goroutines is what probes are tried on in Go.
//
//	goroutines count N   for each number of rounds on standard input, N goroutines count
//	                     what their branches do; prints when that began and ended
//	                     (CLOCK_MONOTONIC, in ns), then for each branch how often its
//	                     condition held and how often not
//	goroutines mix N     N goroutines sort, hash, use maps and channels and make garbage,
//	                     and check all that, until standard input ends; prints how many
//	                     rounds were right and wrong
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// tally counts what each branch did, on a cache line of its own.
type tally struct {
	held, not [4]uint64
}

// The lines of the branches end in "branch" and a number, those that follow where the
// condition held in "held".
//
//go:noinline
func count(n int, x uint64, t *tally) uint64 {
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		if x>>60 < 5 { // branch 0
			t.held[0]++ // held
		} else {
			t.not[0]++
		}
		if x>>32&7 == 3 { // branch 1
			t.held[1]++ // held
		} else {
			t.not[1]++
		}
		if int64(x) < 0 { // branch 2
			t.held[2]++ // held
		} else {
			t.not[2]++
		}
		if x>>20&1023 > 1000 { // branch 3
			t.held[3]++ // held
		} else {
			t.not[3]++
		}
	}
	return x
}

var sink atomic.Uint64

func main() {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	if os.Args[1] == "mix" {
		mix(n)
		return
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		rounds, err := strconv.Atoi(in.Text())
		if err != nil {
			panic(err)
		}
		tallies := make([]tally, n)
		begin := monotonic()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { sink.Add(count(rounds, uint64(i), &tallies[i])) })
		}
		wg.Wait()
		fmt.Print(begin, " ", monotonic())
		for b := range tallies[0].held {
			var held, not uint64
			for _, t := range tallies {
				held += t.held[b]
				not += t.not[b]
			}
			fmt.Print(" ", held, " ", not)
		}
		fmt.Println()
	}
}

func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func mix(n int) {
	var done atomic.Bool
	var right, wrong atomic.Uint64
	want := round(1)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for !done.Load() {
				if round(1) == want {
					right.Add(1)
				} else {
					wrong.Add(1)
				}
				runtime.Gosched()
			}
		})
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	done.Store(true)
	wg.Wait()
	fmt.Println(right.Load(), wrong.Load())
}

// round is work of many kinds.
//
//go:noinline
func round(x uint64) string {
	m := map[string][]uint64{}
	numbers := make(chan uint64, 4)
	go func() {
		x := x
		for range 500 {
			x = x*6364136223846793005 + 1442695040888963407
			numbers <- x
		}
		close(numbers)
	}()
	for x := range numbers {
		key := strconv.FormatUint(x>>58, 16)
		m[key] = append(m[key], x)
	}
	var text strings.Builder
	keys := make([]string, 0, len(m))
	for key, v := range m {
		slices.Sort(v)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&text, "%s %v\n", key, m[key])
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text.String())))
}
