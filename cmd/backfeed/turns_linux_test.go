package main

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample/collect"
	"backfeed/sample/trace"
)

// TestTurnsOfLoops: what loops count by tells how long a turn takes, in a program that does nothing but so many turns.
func TestTurnsOfLoops(t *testing.T) {
	testtool.Live(t, "stops programs and walks")
	if runtime.GOARCH != "amd64" {
		t.Skip("long walks are of x86-64 only")
	}
	program := filepath.Join(t.TempDir(), "constructed")
	testtool.Run(t, ".", "gcc", "-O2", "-g", "-fno-tree-vectorize", "-fno-unroll-loops", "-Wl,--build-id", "-o", program, "../../testdata/programs/constructed.c")
	for _, tt := range []struct {
		kind, millions string
		turns          float64 // of the loop that is outermost, of the whole run
	}{
		{"random", "400", 400e6},
		{"divide", "400", 400e6},
		{"indirect", "400", 400e3},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			var images *longImages
			var mu sync.Mutex
			var counted []*collect.Turns
			ends := map[string]int{}
			walker := collect.NewLongWalker(collect.LongWalkOptions{
				Options: collect.Options{Command: []string{program, tt.kind, tt.millions}, MaxCPU: .1},
				Untimed: true,
				Turns:   true,
				Walked: func(w *collect.LongWalk) {
					images.add(w)
					w.Turned = func(c *collect.Turns) {
						mu.Lock()
						defer mu.Unlock()
						ends[c.End.String()]++
						if c.End == collect.TurnsCounted {
							counted = append(counted, c)
						}
					}
				},
			})
			images = newLongImages(t, walker)
			_, stats, err := walker.Walk(t.Context())
			images.close()
			if err != nil {
				t.Fatal(err)
			}
			var turns float64
			var took time.Duration
			for _, c := range counted {
				turns, took = turns+float64(c.N), took+c.Time
			}
			t.Logf("%v; %.3g turns in %v", ends, turns, took)
			if len(counted) < 8 {
				t.Skip("too few tell nothing")
			}
			turn, run := float64(took)/turns, float64(stats.Traced.Program)/tt.turns
			if r := turn / run; r < 0.8 || r > 1.25 {
				t.Errorf("a turn takes %.4g ns, and by the whole run %.4g: %.2f of it", turn, run, r)
			} else {
				t.Logf("a turn takes %.4g ns, and by the whole run %.4g: %.2f of it", turn, run, r)
			}
		})
	}
}

// TestPursuits: how far a thread comes from one stop to the next tells how fast it calls itself, in a program that does nothing else.
func TestPursuits(t *testing.T) {
	testtool.Live(t, "stops programs and walks")
	if runtime.GOARCH != "amd64" {
		t.Skip("long walks are of x86-64 only")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "calls")
	source := filepath.Join(dir, "calls.c")
	if err := os.WriteFile(source, []byte(`
__attribute__((noipa)) long fib(long n) {
	if (n < 2)
		return n;
	long a = fib(n - 1);
	__asm__ volatile("" : "+r"(a));
	long b = fib(n - 2);
	__asm__ volatile("" : "+r"(b));
	return a + b;
}
int main(void) { return fib(43) & 1; }
`), 0o644); err != nil {
		t.Fatal(err)
	}
	testtool.Run(t, ".", "gcc", "-O1", "-g", "-Wl,--build-id", "-o", program, source)
	calls := 2*701408733. - 1 // fib(44), of which there are as many that return 0 or 1, and as many less one that add
	var images *longImages
	var mu sync.Mutex
	var insts, took, walked, called float64
	ends := map[string]int{}
	walker := collect.NewLongWalker(collect.LongWalkOptions{
		Options: collect.Options{Command: []string{program}, MaxCPU: .1},
		Untimed: true,
		Turns:   true,
		Walked: func(w *collect.LongWalk) {
			images.add(w)
			walked += float64(w.Long.Steps)
			w.Long.Branches(func(_ int, b trace.Branch) bool {
				if w.Code.Ops[b.Op].Kind == trace.Call {
					called++
				}
				return true
			})
			w.Turned = func(c *collect.Turns) {
				mu.Lock()
				defer mu.Unlock()
				ends[c.End.String()]++
				if c.End == collect.TurnsPursued {
					insts, took = insts+float64(c.Insts), took+float64(c.Time)
				}
			}
		},
	})
	images = newLongImages(t, walker)
	_, stats, err := walker.Walk(t.Context())
	images.close()
	if err != nil {
		t.Fatal(err)
	}
	pursued := ends[collect.TurnsPursued.String()]
	t.Logf("%v; %.3g instructions in %.3g us", ends, insts, took/1000)
	if pursued < 5 {
		t.Skip("too few tell nothing")
	}
	call, run := took/insts*walked/called, float64(stats.Traced.Program)/calls
	t.Logf("a call takes %.3g ns, and by the whole run %.3g: %.2f of it", call, run, call/run)
	if r := call / run; r < 0.7 || r > 1.3 {
		t.Errorf("a call takes %.2f of what it does by the whole run", r)
	}
}
