// Walker sums what a chain of steps makes of numbers, by way of an interface: calls that a compiler makes direct, and
// inlines, by a profile. It imports next to nothing: a build with a profile compiles all that a program imports.
package main

import "syscall"

type step interface{ do(x uint64) uint64 }

type mix struct{ by uint64 }

func (m *mix) do(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	if x%97 == m.by {
		return rare(x)
	}
	return x + m.by
}

type odd struct{}

func (odd) do(x uint64) uint64 { return x | 1 }

//go:noinline
func rare(x uint64) uint64 { return x/3 + 1 }

//go:noinline
func walk(steps []step, x uint64) uint64 {
	for _, s := range steps {
		x = s.do(x)
	}
	return x
}

func main() {
	steps := []step{&mix{3}, &mix{5}, &mix{7}, &mix{11}, &mix{13}, &mix{17}, &mix{19}, odd{}}
	x := uint64(88172645463325252)
	for range 3_000_000 {
		x = walk(steps, x)
	}
	var text [20]byte
	at := len(text)
	for ; x > 0; x /= 10 {
		at--
		text[at] = byte('0' + x%10)
	}
	syscall.Write(1, text[at:])
}
