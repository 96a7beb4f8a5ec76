package image

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestTurnsOf: how often x, x+step, ... is looked at until the relation to 0 holds.
func TestTurnsOf(t *testing.T) {
	holds := map[relation]func(x int64) bool{
		equal: func(x int64) bool { return x == 0 }, less: func(x int64) bool { return x < 0 }, atMost: func(x int64) bool { return x <= 0 },
		more: func(x int64) bool { return x > 0 }, atLeast: func(x int64) bool { return x >= 0 },
	}
	for exit, hold := range holds {
		for x := int64(-20); x <= 20; x++ {
			for step := int64(-7); step <= 7; step++ {
				want, ok := 0, false
				for y := x; want < 100 && step != 0 && !ok; y += step {
					want++
					ok = hold(y)
				}
				got, counts := turnsOf(x, step, exit)
				if counts && (!ok || got != float64(want)) || !counts && ok && want > 1 {
					t.Errorf("from %d by %d until relation %d: %g, %v, want %d, %v", x, step, exit, got, counts, want, ok)
				}
			}
		}
	}
	if _, ok := turnsOf(math.MinInt64, 1, equal); ok {
		t.Error("a number that wraps counts")
	}
}

// TestTrips: loops between constants, up and down, by registers and pointers, and those that are no such loops.
func TestTrips(t *testing.T) {
	for _, tt := range []struct {
		name, code string // hexadecimal
		want       string // blocks that leave, with the turns
	}{
		{"down to 0", "b905000000 ffc9 75fc c3", "1: 5"},                                       // mov $5,%ecx; 1: dec %ecx; jne 1b; ret
		{"up, and then tested", "31c0 83c001 83f822 75f8 c3", "1: 34"},                         // xor %eax,%eax; 1: add $1,%eax; cmp $34,%eax; jne 1b
		{"tested, and then up", "31c0 83f822 7305 83c001 ebf6 c3", "1: 35"},                    // xor; 1: cmp $34,%eax; jae 2f; add $1,%eax; jmp 1b; 2: ret
		{"by threes, less", "31c0 83c003 83f80a 7cf8 c3", "1: 4"},                              // 3, 6, 9, 12
		{"until the sign", "b804000000 83e801 79fb c3", "1: 5"},                                // mov $4,%eax; 1: sub $1,%eax; jns 1b
		{"of a pointer", "488d4704 4881c704000100 4883c004 4839f8 75f7 c3", "1: 16384"},        // lea 4(%rdi),%rax; add $0x10004,%rdi; 1: add $4,%rax; cmp %rdi,%rax; jne 1b
		{"the other way round", "488d4704 4881c704000100 4883c004 4839c7 75f7 c3", "1: 16384"}, // ...; cmp %rax,%rdi
		{"one in another", "b903000000 ba04000000 ffca 75fc ffc9 75f3 c3", "3: 3 2: 4"},        // mov $3,%ecx; 1: mov $4,%edx; 2: dec %edx; jne 2b; dec %ecx; jne 1b
		{"from what the caller says", "ffcf 75fc c3", ""},                                      // 1: dec %edi; jne 1b
		{"from either of two constants", "b905000000 85ff 7405 b906000000 ffc9 75fc c3", ""},   // mov $5,%ecx; test %edi,%edi; je 1f; mov $6,%ecx; 1: ...
		{"that is left from two places", "b905000000 85ff 7404 ffc9 75f8 c3", ""},              // mov $5,%ecx; 1: test %edi,%edi; je 2f; dec %ecx; jne 1b; 2: ret
		{"that steps at times", "b905000000 85ff 7402 ffc9 85c9 75f6 c3", ""},                  // 1: test %edi,%edi; je 2f; dec %ecx; 2: test %ecx,%ecx; jne 1b
		{"that steps twice", "b905000000 ffc9 ffc9 75fa c3", ""},
		{"whose bound moves", "31c0 83c001 83ef01 39f8 75f6 c3", ""}, // 1: add $1,%eax; sub $1,%edi; cmp %edi,%eax; jne 1b
		{"that passes its end", "31c0 83c003 83f80a 75f8 c3", ""},
		{"that calls what may change its register", "b905000000 ffd6 ffc9 75fa c3", ""}, // 1: call *%rsi; dec %ecx; jne 1b
		{"that calls what may not", "bb05000000 ffd6 ffcb 75fa c3", "1: 5"},             // mov $5,%ebx; 1: call *%rsi; dec %ebx; ...
	} {
		im := codeImage(X86_64, unhex(t, tt.code), nil)
		p, err := im.Proc(0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, trip := range im.Trips(p) {
			if p.Edges[trip.Edge].From != trip.Block {
				t.Errorf("%s: %+v: the edge is of another block", tt.name, trip)
			}
			got = append(got, fmt.Sprintf("%d: %g", trip.Block, trip.Turns))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %q, want %q; %s", tt.name, got, tt.want, edgesOf(p))
		}
	}
}

// FuzzTrips: of any code, turns are more than one, and leave by an edge of their block.
func FuzzTrips(f *testing.F) {
	f.Add([]byte("\xb9\x05\x00\x00\x00\xff\xc9\x75\xfc\xc3"))
	f.Add([]byte("\x48\x8d\x47\x04\x48\x81\xc7\x04\x00\x01\x00\x48\x83\xc0\x04\x48\x39\xf8\x75\xf7\xc3"))
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) == 0 {
			return
		}
		im := codeImage(X86_64, code, nil)
		p, err := im.Proc(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, trip := range im.Trips(p) {
			if !(trip.Turns > 1) || math.IsInf(trip.Turns, 0) || p.Edges[trip.Edge].From != trip.Block {
				t.Fatalf("%+v", trip)
			}
		}
	})
}

// TestCompiledTrips: what compilers make of loops between constants.
func TestCompiledTrips(t *testing.T) {
	dir := t.TempDir()
	testtool.Write(t, dir, "l.c", "extern void g(int *); void f(int *p) { for (int i = 0; i < 300; i++) g(p + i); for (int i = 77; i >= 0; i -= 3) g(p); }\n")
	testtool.Run(t, dir, "gcc", "-O2", "-fno-unroll-loops", "-c", "-fcf-protection=none", "l.c")
	testtool.Run(t, dir, "gcc", "-shared", "l.o", "-o", "l.so", "-Wl,-z,notext")
	im := mustOpen(t, dir+"/l.so", Options{})
	p, err := im.Proc(im.Lookup("f"))
	if err != nil {
		t.Fatal(err)
	}
	turns := map[float64]bool{}
	for _, trip := range im.Trips(p) {
		turns[trip.Turns] = true
	}
	if !turns[300] || !turns[26] {
		t.Errorf("turns %v, want 300 and 26", turns)
	}
}
