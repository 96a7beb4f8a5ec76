package main

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample/collect"
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
			var counted []*collect.Turns
			ends := map[string]int{}
			walker := collect.NewLongWalker(collect.LongWalkOptions{
				Options: collect.Options{Command: []string{program, tt.kind, tt.millions}, MaxCPU: .1},
				Untimed: true,
				Turns:   true,
				Walked: func(w *collect.LongWalk) {
					images.add(w)
					w.Turned = func(c *collect.Turns) {
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
